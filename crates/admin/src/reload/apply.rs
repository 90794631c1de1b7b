//! Applying, reloading and restoring rules.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::task::spawn_blocking;
use tracing::{error, info, warn};

use super::loader::ParsedRules;
use super::types::{
    AppliedRules, EditError, FILE_RELOAD, RESTORE_PREFIX, ROLLBACK, ReadOnlyReason, ReloadError, RuleDiagnostic,
    RulesEdit, RulesOrigin, RulesVersion,
};
use super::{ManagerInner, RuleManager, file};

/// Author and comment of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChangeInfo {
    pub(super) author: String,
    pub(super) comment: String,
}

impl ChangeInfo {
    pub(super) fn new(author: impl Into<String>, comment: impl Into<String>) -> Self {
        Self { author: author.into(), comment: comment.into() }
    }

    /// Creates the description of a change by the program itself.
    pub(super) fn known((author, comment): (&str, &str)) -> Self {
        Self::new(author, comment)
    }
}

impl RuleManager {
    /// Applies a text and writes it to its origin.
    pub async fn put(&self, edit: RulesEdit) -> Result<AppliedRules, EditError> {
        let _change_lock = self.0.change_lock.lock().await;
        if let (Some(based_on), present) = (edit.based_on, self.0.state.lock().history.current())
            && based_on != present
        {
            return Err(EditError::StaleVersion { present });
        }
        let change = ChangeInfo::new(edit.author, edit.comment);
        match self.0.loader.origin() {
            RulesOrigin::BuiltIn => Err(EditError::ReadOnly(ReadOnlyReason::BuiltIn.to_string())),
            RulesOrigin::File(path) => {
                let (path, text) = (path.clone(), edit.text.clone());
                let previous = self.0.state.lock().text.clone();
                let applied = self.0.apply(edit.text, change, None).await?;
                let written = spawn_blocking(move || file::write(&path, &text)).await;
                let Err(error) = written.unwrap_or_else(|_| Err("the write task failed".to_owned())) else {
                    return Ok(applied);
                };
                // A change that cannot be stored would be lost at the next restart, so it is rolled back.
                self.0.apply(previous, ChangeInfo::known(ROLLBACK), None).await?;
                Err(self.0.record_error(EditError::Unavailable(error)))
            }
            RulesOrigin::Store(_) => self.0.publish(edit.text, change, edit.based_on).await,
        }
    }

    /// Reloads the text from its origin.
    pub async fn reload(&self) -> Result<AppliedRules, EditError> {
        let _change_lock = self.0.change_lock.lock().await;
        match self.0.loader.origin() {
            RulesOrigin::BuiltIn => Err(EditError::ReadOnly(ReadOnlyReason::BuiltIn.to_string())),
            RulesOrigin::File(path) => {
                let path = path.clone();
                let text = spawn_blocking(move || sluicegate_config::read_text(path)).await;
                let text = match text {
                    Ok(Ok(text)) => text,
                    Ok(Err(report)) => {
                        return Err(self.0.record_error(EditError::Invalid(RuleDiagnostic::from_report(&report))));
                    }
                    Err(_) => {
                        return Err(self.0.record_error(EditError::Unavailable("the read task failed".to_owned())));
                    }
                };
                self.0.apply(text, ChangeInfo::known(FILE_RELOAD), None).await
            }
            RulesOrigin::Store(_) => {
                self.0.check_local_file().await?;
                self.0.fetch_from_store(true).await?;
                Ok(self.0.applied_result(Vec::new()))
            }
        }
    }

    /// All stored versions, newest first, without their texts.
    pub async fn versions(&self) -> Result<Vec<RulesVersion>, EditError> {
        match self.0.loader.origin() {
            RulesOrigin::BuiltIn | RulesOrigin::File(_) => Ok(self.0.state.lock().history.versions()),
            RulesOrigin::Store(_) => self.0.stored_versions().await,
        }
    }

    /// One version with its text.
    pub async fn version(&self, number: u64) -> Result<Option<(RulesVersion, String)>, EditError> {
        match self.0.loader.origin() {
            RulesOrigin::BuiltIn | RulesOrigin::File(_) => Ok(self.0.state.lock().history.version(number)),
            RulesOrigin::Store(_) => self.0.stored_version(number).await,
        }
    }

    /// Applies the text of an earlier version again, as a new version.
    pub async fn restore(&self, number: u64, author: &str, comment: &str) -> Result<AppliedRules, EditError> {
        let Some((_, text)) = self.version(number).await? else { return Err(EditError::NoSuchVersion { number }) };
        let comment = match comment {
            "" => format!("{RESTORE_PREFIX}{number}"),
            comment => comment.to_owned(),
        };
        self.put(RulesEdit { text, based_on: None, author: author.to_owned(), comment }).await
    }
}

impl ManagerInner {
    /// Parses and applies a text, with the given version number or the next one. The caller holds the change
    /// lock.
    pub(super) async fn apply(
        self: &Arc<Self>,
        text: String,
        change: ChangeInfo,
        number: Option<u64>,
    ) -> Result<AppliedRules, EditError> {
        let inner = Arc::clone(self);
        // Thousands of rules take a while; the blocking pool keeps this thread free.
        let done = spawn_blocking(move || inner.apply_blocking(&text, &change, number)).await;
        done.unwrap_or_else(|_| Err(EditError::Unavailable("internal error while parsing the rules".to_owned())))
            .map_err(|error| self.record_error(error))
    }

    fn apply_blocking(&self, text: &str, change: &ChangeInfo, number: Option<u64>) -> Result<AppliedRules, EditError> {
        let ParsedRules { settings, on_applied, warnings, pending_restart } =
            self.loader.parse(text).map_err(EditError::Invalid)?;
        let lists = settings.lists.conditions();
        let replaced = self.sluice.replace(settings.rules, lists);
        replaced.map_err(|error| EditError::Invalid(vec![RuleDiagnostic::for_whole_text(error.to_string())]))?;
        on_applied();
        let mut state = self.state.lock();
        let number = number.unwrap_or_else(|| state.history.current() + 1);
        let now = SystemTime::now();
        state.history.add(number, text, change, now);
        text.clone_into(&mut state.text);
        state.loaded_at = now;
        state.reloads += 1;
        state.last_error = None;
        if !matches!(self.loader.origin(), RulesOrigin::Store(_)) {
            state.pending_restart.clone_from(&pending_restart);
        }
        drop(state);
        info!(version = number, author = change.author, "rules updated");
        for warning in &warnings {
            let RuleDiagnostic { line, column, message, help } = warning;
            warn!(line, column, help, "rule file: {message}");
        }
        let pending = pending_restart.join(", ");
        if !pending.is_empty() {
            warn!(sections = pending, "changed settings take effect after a restart (SIGUSR2)");
        }
        Ok(self.applied_result(warnings))
    }

    /// Returns the result of an applied change.
    pub(super) fn applied_result(&self, warnings: Vec<RuleDiagnostic>) -> AppliedRules {
        let state = self.state.lock();
        let (version, pending_restart) = (state.history.current(), state.pending_restart.clone());
        AppliedRules { version, warnings, pending_restart }
    }

    /// Records the reason for which a text was not applied.
    pub(super) fn record_error(&self, error: EditError) -> EditError {
        let message = match &error {
            EditError::Invalid(errors) => errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
            other => other.to_string(),
        };
        let mut state = self.state.lock();
        state.failed_reloads += 1;
        let is_new = state.last_error.as_ref().is_none_or(|known| known.message != message);
        state.last_error = Some(ReloadError { at: SystemTime::now(), message });
        let version = state.history.current();
        drop(state);
        if is_new {
            error!(version, reason = %error, "rule reload failed; the previous rules stay active");
        }
        error
    }
}

//! Putting another text in force.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::task::spawn_blocking;
use tracing::{error, info, warn};

use super::reader::Read;
use super::told::{Applied, Edit, Fault, Origin, Refusal, Trouble, Version};
use super::{Inner, Keeper, NO_FILE, file};

/// Who puts a text in force, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signed {
    pub(super) author: String,
    pub(super) comment: String,
}

impl Signed {
    pub(super) fn by(author: impl Into<String>, comment: impl Into<String>) -> Self {
        Self { author: author.into(), comment: comment.into() }
    }
}

impl Keeper {
    /// Puts a text in force and keeps it where the present one lives.
    pub async fn put(&self, edit: Edit) -> Result<Applied, Refusal> {
        let _turn = self.0.turn.lock().await;
        if let (Some(based_on), present) = (edit.based_on, self.0.state.lock().history.current())
            && based_on != present
        {
            return Err(Refusal::Overtaken { present });
        }
        let signed = Signed::by(edit.author, edit.comment);
        match self.0.reader.origin() {
            Origin::BuiltIn => Err(Refusal::NotEditable(NO_FILE.to_owned())),
            Origin::File(path) => {
                let (path, text) = (path.clone(), edit.text.clone());
                let before = self.0.state.lock().text.clone();
                let applied = self.0.enforce(edit.text, signed, None).await?;
                let written = spawn_blocking(move || file::write(&path, &text)).await;
                let Err(problem) = written.unwrap_or_else(|_| Err("the writer has gone".to_owned())) else {
                    return Ok(applied);
                };
                // What cannot be kept would be gone with the next restart: it is not in force either.
                let comment = "the file could not be written: taken back";
                self.0.enforce(before, Signed::by("sluicegate", comment), None).await?;
                Err(self.0.trouble(Refusal::Unavailable(problem)))
            }
            Origin::Store(_) => self.0.publish(edit.text, signed, edit.based_on).await,
        }
    }

    /// Reads the text anew from where it lives.
    pub async fn reload(&self) -> Result<Applied, Refusal> {
        let _turn = self.0.turn.lock().await;
        match self.0.reader.origin() {
            Origin::BuiltIn => Err(Refusal::NotEditable(NO_FILE.to_owned())),
            Origin::File(path) => {
                let path = path.clone();
                let text = spawn_blocking(move || sluicegate_config::read_text(path)).await;
                let text = match text {
                    Ok(Ok(text)) => text,
                    Ok(Err(report)) => return Err(self.0.trouble(Refusal::Faulty(Fault::all(&report)))),
                    Err(_) => return Err(self.0.trouble(Refusal::Unavailable("the reader has gone".to_owned()))),
                };
                self.0.enforce(text, Signed::by("file", "read from the file"), None).await
            }
            Origin::Store(_) => {
                self.0.look_at_file().await?;
                self.0.fetch(true).await?;
                Ok(self.0.applied(Vec::new()))
            }
        }
    }

    /// All versions that are remembered, the newest first; without their texts.
    pub async fn versions(&self) -> Result<Vec<Version>, Refusal> {
        match self.0.reader.origin() {
            Origin::BuiltIn | Origin::File(_) => Ok(self.0.state.lock().history.versions()),
            Origin::Store(_) => self.0.fleet_versions().await,
        }
    }

    /// A version with its text.
    pub async fn version(&self, number: u64) -> Result<Option<(Version, String)>, Refusal> {
        match self.0.reader.origin() {
            Origin::BuiltIn | Origin::File(_) => Ok(self.0.state.lock().history.version(number)),
            Origin::Store(_) => self.0.fleet_version(number).await,
        }
    }

    /// Puts the text of an earlier version in force again, as a new version.
    pub async fn restore(&self, number: u64, author: &str, comment: &str) -> Result<Applied, Refusal> {
        let Some((_, text)) = self.version(number).await? else { return Err(Refusal::NoSuchVersion { number }) };
        let comment = match comment {
            "" => format!("back to version {number}"),
            comment => comment.to_owned(),
        };
        self.put(Edit { text, based_on: None, author: author.to_owned(), comment }).await
    }
}

impl Inner {
    /// Reads a text and puts it in force, under a number given elsewhere or the next one. For whoever's turn it is.
    pub(super) async fn enforce(
        self: &Arc<Self>,
        text: String,
        signed: Signed,
        number: Option<u64>,
    ) -> Result<Applied, Refusal> {
        let inner = Arc::clone(self);
        // Thousands of rules take a while; whoever else this thread serves does not wait for them.
        let done = spawn_blocking(move || inner.enforce_here(&text, &signed, number)).await;
        done.unwrap_or_else(|_| Err(Refusal::Unavailable("reading the rules has ended in a fault of ours".to_owned())))
            .map_err(|refusal| self.trouble(refusal))
    }

    fn enforce_here(&self, text: &str, signed: &Signed, number: Option<u64>) -> Result<Applied, Refusal> {
        let Read { settings, in_force, warnings, pending_restart } = self.reader.read(text).map_err(Refusal::Faulty)?;
        let lists = settings.lists.conditions();
        let replaced = self.sluice.replace(settings.rules, lists);
        replaced.map_err(|error| Refusal::Faulty(vec![Fault::whole(error.to_string())]))?;
        in_force();
        let mut state = self.state.lock();
        let number = number.unwrap_or_else(|| state.history.current() + 1);
        let now = SystemTime::now();
        state.history.add(number, text, signed, now);
        text.clone_into(&mut state.text);
        state.loaded_at = now;
        state.reloads += 1;
        state.trouble = None;
        if !matches!(self.reader.origin(), Origin::Store(_)) {
            state.pending_restart.clone_from(&pending_restart);
        }
        drop(state);
        info!(version = number, author = signed.author, "other rules are in force");
        for warning in &warnings {
            let Fault { line, column, message, help } = warning;
            warn!(line, column, help, "in the rules: {message}");
        }
        let pending = pending_restart.join(", ");
        if !pending.is_empty() {
            warn!(sections = pending, "the file has changed in what takes effect with the next restart (SIGUSR2)");
        }
        Ok(self.applied(warnings))
    }

    /// What was put in force.
    pub(super) fn applied(&self, warnings: Vec<Fault>) -> Applied {
        let state = self.state.lock();
        let (version, pending_restart) = (state.history.current(), state.pending_restart.clone());
        Applied { version, warnings, pending_restart }
    }

    /// Notes why a text is not in force.
    pub(super) fn trouble(&self, refusal: Refusal) -> Refusal {
        let message = match &refusal {
            Refusal::Faulty(faults) => faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
            other => other.to_string(),
        };
        let mut state = self.state.lock();
        state.failed_reloads += 1;
        let is_new = state.trouble.as_ref().is_none_or(|known| known.message != message);
        state.trouble = Some(Trouble { at: SystemTime::now(), message });
        let version = state.history.current();
        drop(state);
        if is_new {
            error!(version, reason = %refusal, "other rules were not put in force: those of before go on");
        }
        refusal
    }
}

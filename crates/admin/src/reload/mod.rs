//! Rule reload and versions: keeps the rules in force in step with their text.
//!
//! The text of the rules is in a file, in the store of a cluster, or built in. Every new text (a changed file,
//! a signal, the admin API, another process of the cluster) takes the same path: it is parsed and checked as a
//! whole, applied as a whole, and recorded as a version. On any error the rules in force stay, and the error is
//! kept until a valid text arrives.
//!
//! ```text
//! file changed   \                                          / errors: recorded and logged; the rules in force stay
//! SIGHUP          >--> text --> parse whole --> check ---<
//! admin API      /                                          \ valid: Sluice::replace, then recorded as a version
//! cluster store /
//! ```
//!
//! Modules: `apply` applies texts, `cluster` handles rules in the store, `file` writes the rule file,
//! `file_watch` watches it, `history` stores versions, `loader` parses texts, `pending_restart` finds settings
//! that need a restart, and `types` holds inputs and results.

mod apply;
mod cluster;
mod file;
mod file_watch;
mod history;
mod loader;
mod pending_restart;
mod types;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use sluicegate_config::Settings;
use sluicegate_engine::Sluice;
use tokio::task::spawn_blocking;

pub use loader::{OnApplied, SideFiles};
pub(crate) use types::KnownChange;
pub use types::{
    AppliedRules, CheckResult, EditError, ReadOnlyReason, ReloadError, ReloadStatus, RuleDiagnostic, RulesEdit,
    RulesOrigin, RulesSource, RulesVersion,
};

use apply::ChangeInfo;
use history::VersionHistory;
use loader::RuleLoader;
use types::START;

/// Initial state of a [`RuleManager`]: rules that are already in force.
pub struct InitialRules {
    /// The engine that decides by these rules.
    pub sluice: Sluice,
    /// Origin of their text.
    pub origin: RulesOrigin,
    /// The text of the file, or the built-in text.
    pub text: String,
    /// Parsed settings. Everything except rules and lists stays until the next restart.
    pub settings: Settings,
    /// Further files that belong to the rules.
    pub side_files: Box<dyn SideFiles>,
}

/// Reloads rules and manages their versions. Clones share their state.
#[derive(Clone)]
pub struct RuleManager(Arc<ManagerInner>);

struct ManagerInner {
    sluice: Sluice,
    loader: RuleLoader,
    state: Mutex<ManagerState>,
    /// Held during a change: changes are serialised.
    change_lock: tokio::sync::Mutex<()>,
}

struct ManagerState {
    text: String,
    history: VersionHistory,
    loaded_at: SystemTime,
    reloads: u64,
    failed_reloads: u64,
    last_error: Option<ReloadError>,
    pending_restart: Vec<String>,
    /// The cluster version that was rejected here, not to be retried at every poll.
    rejected_version: Option<u64>,
    /// True if the store was unreachable at the last attempt.
    store_unreachable: bool,
}

impl RuleManager {
    /// Manages rules that were just applied.
    pub fn new(initial: InitialRules) -> Self {
        let InitialRules { sluice, origin, text, settings, side_files } = initial;
        let loaded_at = SystemTime::now();
        // In a cluster the store assigns version numbers.
        let first = u64::from(!matches!(origin, RulesOrigin::Store(_)));
        let history = VersionHistory::new(first, &text, &ChangeInfo::known(START), loaded_at);
        let state = ManagerState {
            text,
            history,
            loaded_at,
            reloads: 0,
            failed_reloads: 0,
            last_error: None,
            pending_restart: Vec::new(),
            rejected_version: None,
            store_unreachable: false,
        };
        let loader = RuleLoader::new(origin, settings, side_files);
        Self(Arc::new(ManagerInner {
            sluice,
            loader,
            state: Mutex::new(state),
            change_lock: tokio::sync::Mutex::default(),
        }))
    }

    /// Returns the reload status and the last error.
    pub fn status(&self) -> ReloadStatus {
        let state = self.0.state.lock();
        ReloadStatus {
            origin: self.0.loader.origin().clone(),
            version: state.history.current(),
            loaded_at: state.loaded_at,
            reloads: state.reloads,
            failed_reloads: state.failed_reloads,
            last_error: state.last_error.clone(),
            pending_restart: state.pending_restart.clone(),
        }
    }

    /// Returns the text in force.
    pub fn source(&self) -> RulesSource {
        let state = self.0.state.lock();
        let origin = self.0.loader.origin().clone();
        let read_only_reason = match &origin {
            RulesOrigin::BuiltIn => Some(ReadOnlyReason::BuiltIn),
            RulesOrigin::File(path) => file::read_only_reason(path),
            RulesOrigin::Store(_) => None,
        };
        RulesSource { text: state.text.clone(), origin, version: state.history.current(), read_only_reason }
    }

    /// Checks a text without applying it.
    pub async fn check(&self, text: String) -> CheckResult {
        let inner = Arc::clone(&self.0);
        // Thousands of rules take a while; the blocking pool keeps this thread free.
        let parsed = spawn_blocking(move || inner.loader.parse(&text)).await;
        match parsed
            .unwrap_or_else(|_| Err(vec![RuleDiagnostic::for_whole_text("internal error while parsing the rules")]))
        {
            Ok(parsed) => CheckResult { errors: Vec::new(), warnings: parsed.warnings },
            Err(errors) => CheckResult { errors, warnings: Vec::new() },
        }
    }
}

impl std::fmt::Debug for RuleManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuleManager").field("status", &self.status()).finish_non_exhaustive()
    }
}

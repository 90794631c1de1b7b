//! The rules in force and the text they come from.
//!
//! A text lives in a file, in the store that a fleet shares, or in the program itself. Whatever brings a new one (the
//! file has changed, a signal, the admin API, another process of the fleet) goes the same way: it is read and checked
//! whole, put in force whole, and noted. On any fault the rules in force go on, and the fault is remembered until a
//! text comes that is good.
//!
//! ```text
//! file changed   \                                       / faults: remembered, told; the rules in force go on
//! SIGHUP          >--> text --> read whole --> check ---<
//! admin API      /                                       \ good: Sluice::replace, then noted as a version
//! fleet's store /
//! ```

mod file;
mod fleet;
mod history;
mod keeping;
mod pending;
mod reader;
mod told;
mod watch;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use sluicegate_config::Settings;
use sluicegate_engine::Sluice;
use tokio::task::spawn_blocking;

pub use reader::{Beside, InForce};
pub use told::{Applied, Checked, Edit, Fault, Origin, Refusal, Source, Status, Trouble, Version};

use history::History;
use keeping::Signed;
use reader::Reader;

/// What a keeper starts with: rules that are in force already.
pub struct Start {
    /// What decides by them.
    pub sluice: Sluice,
    /// Where their text lives.
    pub origin: Origin,
    /// The text of the file, or that of the program.
    pub text: String,
    /// What it says. Everything but rules and lists stays so until the next restart.
    pub settings: Settings,
    /// What belongs to the rules besides their text.
    pub beside: Box<dyn Beside>,
}

/// Keeps the rules in force in step with their text. Clones are the same keeper.
#[derive(Clone)]
pub struct Keeper(Arc<Inner>);

struct Inner {
    sluice: Sluice,
    reader: Reader,
    state: Mutex<State>,
    /// Held by whoever changes the rules: one change comes after the other.
    turn: tokio::sync::Mutex<()>,
}

struct State {
    text: String,
    history: History,
    loaded_at: SystemTime,
    reloads: u64,
    failed_reloads: u64,
    trouble: Option<Trouble>,
    pending_restart: Vec<String>,
    /// The fleet's version that was refused here, not to be tried again and again.
    refused: Option<u64>,
    /// Whether the store could not be asked when it was last tried.
    out_of_reach: bool,
}

impl Keeper {
    /// Keeps rules that were put in force just now.
    pub fn new(start: Start) -> Self {
        let Start { sluice, origin, text, settings, beside } = start;
        let loaded_at = SystemTime::now();
        // A fleet's rules have the number that the store gives them.
        let first = u64::from(!matches!(origin, Origin::Store(_)));
        let history = History::begin(first, &text, &Signed::by("start", "as the program started"), loaded_at);
        let state = State {
            text,
            history,
            loaded_at,
            reloads: 0,
            failed_reloads: 0,
            trouble: None,
            pending_restart: Vec::new(),
            refused: None,
            out_of_reach: false,
        };
        let reader = Reader::new(origin, settings, beside);
        Self(Arc::new(Inner { sluice, reader, state: Mutex::new(state), turn: tokio::sync::Mutex::default() }))
    }

    /// How the rules in force came about, and what went wrong last.
    pub fn status(&self) -> Status {
        let state = self.0.state.lock();
        Status {
            origin: self.0.reader.origin().clone(),
            version: state.history.current(),
            loaded_at: state.loaded_at,
            reloads: state.reloads,
            failed_reloads: state.failed_reloads,
            trouble: state.trouble.clone(),
            pending_restart: state.pending_restart.clone(),
        }
    }

    /// The text in force.
    pub fn source(&self) -> Source {
        let state = self.0.state.lock();
        let origin = self.0.reader.origin().clone();
        let why_not = match &origin {
            Origin::BuiltIn => Some(NO_FILE.to_owned()),
            Origin::File(path) => file::why_not_writable(path),
            Origin::Store(_) => None,
        };
        Source { text: state.text.clone(), origin, version: state.history.current(), why_not }
    }

    /// What is wrong with a text, without putting it in force.
    pub async fn check(&self, text: String) -> Checked {
        let inner = Arc::clone(&self.0);
        // Thousands of rules take a while; whoever else this thread serves does not wait for them.
        let read = spawn_blocking(move || inner.reader.read(&text)).await;
        match read.unwrap_or_else(|_| Err(vec![Fault::whole("reading the rules has ended in a fault of ours")])) {
            Ok(read) => Checked { faults: Vec::new(), warnings: read.warnings },
            Err(faults) => Checked { faults, warnings: Vec::new() },
        }
    }
}

/// Why the program's own rules cannot be changed.
const NO_FILE: &str = "these are the rules in the program itself: write them to a file and run `sluicegate run FILE`";

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("status", &self.status()).finish_non_exhaustive()
    }
}

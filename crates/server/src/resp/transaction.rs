//! `MULTI`, `EXEC`, `DISCARD`: many clients send their pipelines so unless told otherwise.
//!
//! Commands between the two are kept and answered together. Nothing else is promised: each decides by itself, and
//! decisions of other clients may come in between. There is no `WATCH`, as there is nothing to be watched.
//!
//! `EXEC` says how many replies follow; the connection makes them one by one, as it does with all others, so that no
//! more of them wait than of any others. A few bytes can ask for many: ten thousand times `COMMAND DOCS` are a hundred
//! megabytes.

use std::vec;

use super::command::{Call, Known, Step};
use super::parse::Kept;

/// The most commands between `MULTI` and `EXEC`.
const MOST: usize = 10_000;

/// How many bytes of commands and replies are had in a row while others wait: some tens of microseconds' worth.
const TURN: usize = 16 * 1024;

/// Commands that wait for `EXEC`.
#[derive(Debug, Default)]
pub(super) struct Queued {
    commands: Vec<Kept>,
    bytes: usize,
    /// Whether one of them was no command: then none of them is run.
    spoiled: bool,
}

/// Commands that `EXEC` has begun to run.
pub(super) struct Running {
    rest: vec::IntoIter<Kept>,
    /// Bytes of commands and replies since the others of the thread went first.
    in_a_row: usize,
}

impl Running {
    /// The next command, if there is one.
    pub(super) fn next(&mut self) -> Option<Kept> {
        self.rest.next()
    }

    /// A command and its reply had so many bytes.
    pub(super) const fn note(&mut self, bytes: usize) {
        self.in_a_row += bytes;
    }

    /// Whether a turn is over: then others go first, and the next one begins.
    pub(super) const fn begins_another_turn(&mut self) -> bool {
        let is_over = self.in_a_row >= TURN;
        if is_over {
            self.in_a_row = 0;
        }
        is_over
    }
}

/// Whether a command is run even between `MULTI` and `EXEC`.
fn is_run_at_once(known: &Known) -> bool {
    matches!(known.name, "exec" | "discard" | "multi" | "quit" | "reset")
}

/// `MULTI`
pub(super) fn multi(call: &mut Call<'_>) -> Step {
    if call.session.queued.is_some() {
        return call.error("ERR MULTI calls can not be nested");
    }
    call.session.queued = Some(Box::default());
    call.ok()
}

/// `DISCARD`
pub(super) fn discard(call: &mut Call<'_>) -> Step {
    match call.session.queued.take() {
        Some(_) => call.ok(),
        None => call.error("ERR DISCARD without MULTI"),
    }
}

/// `EXEC`
pub(super) fn exec(call: &mut Call<'_>) -> Step {
    match call.session.queued.take() {
        None => call.error("ERR EXEC without MULTI"),
        Some(queued) if queued.spoiled => call.error("EXECABORT Transaction discarded because of previous errors."),
        Some(queued) => {
            call.replies.array(queued.commands.len());
            Step::Run(Running { rest: queued.commands.into_iter(), in_a_row: 0 })
        }
    }
}

impl Call<'_> {
    /// Keeps a command for `EXEC`, if one is to come. `None`: it is to be run now.
    pub(super) fn keep(&mut self, known: Option<&Known>) -> Option<Step> {
        let queued = self.session.queued.as_mut()?;
        let Some(known) = known.filter(|known| known.takes(self.command.len())) else {
            queued.spoiled = true;
            // It is answered as it would be without.
            return None;
        };
        if is_run_at_once(known) {
            return None;
        }
        let kept = self.command.keep();
        queued.bytes += kept.len();
        if queued.commands.len() >= MOST || queued.bytes > self.resp.bounds.max_request {
            queued.spoiled = true;
            let name = known.name;
            return Some(self.error(format_args!("ERR '{name}' is one too many: EXEC those before it first")));
        }
        queued.commands.push(kept);
        self.replies.status("QUEUED");
        Some(Step::Done)
    }
}

//! `MULTI`, `EXEC`, `DISCARD`: transactions, which many clients use for pipelines by default.
//!
//! Commands after `MULTI` are queued and run together. There is no isolation: each command decides by
//! itself, and decisions of other clients may interleave. There is no `WATCH`, as there is no data to watch.
//!
//! `EXEC` writes the array header; the connection then produces the replies one by one as usual, so that the
//! bound on unsent replies holds. A few bytes of input can cause large replies:
//! ten thousand times `COMMAND DOCS` is a hundred megabytes.

use std::vec;

use super::command::{CommandContext, CommandResult, CommandSpec};
use super::parse::StoredCommand;

/// Maximum number of commands between `MULTI` and `EXEC`.
const MAX_COMMANDS: usize = 10_000;

/// Bytes of commands and replies processed before the connection yields: some tens of microseconds of work.
const YIELD_BYTES: usize = 16 * 1024;

/// Commands queued for `EXEC`.
#[derive(Debug, Default)]
pub(super) struct QueuedCommands {
    commands: Vec<StoredCommand>,
    bytes: usize,
    /// Set when a queued command was invalid: then `EXEC` runs none.
    is_aborted: bool,
}

/// A transaction that `EXEC` has started.
pub(super) struct RunningTransaction {
    remaining: vec::IntoIter<StoredCommand>,
    /// Bytes of commands and replies since the last yield.
    bytes_since_yield: usize,
}

impl RunningTransaction {
    /// The next command, if any.
    pub(super) fn next(&mut self) -> Option<StoredCommand> {
        self.remaining.next()
    }

    /// Records the bytes of a command and its reply.
    pub(super) const fn record(&mut self, bytes: usize) {
        self.bytes_since_yield += bytes;
    }

    /// True if the connection should yield now; also resets the count.
    pub(super) const fn should_yield(&mut self) -> bool {
        let is_over = self.bytes_since_yield >= YIELD_BYTES;
        if is_over {
            self.bytes_since_yield = 0;
        }
        is_over
    }
}

/// True if a command runs immediately even between `MULTI` and `EXEC`.
fn runs_immediately(known: &CommandSpec) -> bool {
    matches!(known.name, "exec" | "discard" | "multi" | "quit" | "reset")
}

/// `MULTI`
pub(super) fn multi(call: &mut CommandContext<'_>) -> CommandResult {
    if call.session.transaction.is_some() {
        return call.error("ERR MULTI calls can not be nested");
    }
    call.session.transaction = Some(Box::default());
    call.ok()
}

/// `DISCARD`
pub(super) fn discard(call: &mut CommandContext<'_>) -> CommandResult {
    match call.session.transaction.take() {
        Some(_) => call.ok(),
        None => call.error("ERR DISCARD without MULTI"),
    }
}

/// `EXEC`
pub(super) fn exec(call: &mut CommandContext<'_>) -> CommandResult {
    match call.session.transaction.take() {
        None => call.error("ERR EXEC without MULTI"),
        Some(queued) if queued.is_aborted => call.error("EXECABORT Transaction discarded because of previous errors."),
        Some(queued) => {
            call.replies.array(queued.commands.len());
            CommandResult::RunTransaction(RunningTransaction {
                remaining: queued.commands.into_iter(),
                bytes_since_yield: 0,
            })
        }
    }
}

impl CommandContext<'_> {
    /// Queues a command if a transaction is open. Returns `None` if the command runs now.
    pub(super) fn queue_command(&mut self, known: Option<&CommandSpec>) -> Option<CommandResult> {
        let queued = self.session.transaction.as_mut()?;
        let Some(known) = known.filter(|known| known.accepts_words(self.command.len())) else {
            queued.is_aborted = true;
            // Replies with the same error as outside a transaction.
            return None;
        };
        if runs_immediately(known) {
            return None;
        }
        let stored = self.command.store();
        queued.bytes += stored.len();
        if queued.commands.len() >= MAX_COMMANDS || queued.bytes > self.resp.limits.max_request_size {
            queued.is_aborted = true;
            let name = known.name;
            return Some(
                self.error(format_args!("ERR transaction too large: '{name}' is not queued and EXEC will fail")),
            );
        }
        queued.commands.push(stored);
        self.replies.status("QUEUED");
        Some(CommandResult::Done)
    }
}

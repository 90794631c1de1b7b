//! The command table: name, arity, documentation and handler of each command.

use std::fmt::{self, Write};

use sluicegate_engine::sluice::Admission;

use super::parse::RespCommand;
use super::reply::{InputExcerpt, ReplyBuffer};
use super::session::RespSession;
use super::transaction::RunningTransaction;
use super::{Resp, check, client, command_docs, hello, info, throttle, transaction};

/// The result of running a command.
pub(super) enum CommandResult {
    /// The reply is written.
    Done,
    /// The reply is written; the connection closes after it.
    Close,
    /// The decision waits for the store.
    PendingCheck(Box<Admission>),
    /// A throttle decision waits for the store.
    PendingThrottle(Box<throttle::PendingThrottle>),
    /// Runs the queued commands of a transaction; the array header is already written.
    RunTransaction(RunningTransaction),
}

/// A command with its session and reply buffer.
pub(super) struct CommandContext<'a> {
    pub(super) resp: &'a Resp,
    pub(super) session: &'a mut RespSession,
    pub(super) command: RespCommand<'a>,
    pub(super) replies: &'a mut ReplyBuffer,
}

/// The specification of a command.
pub(super) struct CommandSpec {
    /// Name in lower case.
    pub(super) name: &'static str,
    /// Number of words including the name; a minimum if negative.
    pub(super) arity: i64,
    /// Redis command flags.
    pub(super) flags: &'static [&'static str],
    /// The arguments.
    pub(super) arguments: &'static [Argument],
    run: fn(&mut CommandContext<'_>) -> CommandResult,
    /// One-line description.
    pub(super) summary: &'static str,
}

/// An argument of a command.
pub(super) struct Argument {
    pub(super) name: &'static str,
    pub(super) kind: ArgumentKind,
    pub(super) optional: bool,
}

/// The type of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentKind {
    /// The rate limit key; a cluster would shard by it.
    Key,
    Text,
    Number,
}

const fn required(name: &'static str, kind: ArgumentKind) -> Argument {
    Argument { name, kind, optional: false }
}

const fn optional(name: &'static str, kind: ArgumentKind) -> Argument {
    Argument { name, kind, optional: true }
}

const THROTTLE: &[Argument] = &[
    required("key", ArgumentKind::Key),
    required("max_burst", ArgumentKind::Number),
    required("count", ArgumentKind::Number),
    required("period", ArgumentKind::Number),
    optional("quantity", ArgumentKind::Number),
];
const CHECK: &[Argument] = &[
    required("rule", ArgumentKind::Text),
    optional("cost", ArgumentKind::Number),
    optional("attribute", ArgumentKind::Text),
];
const MESSAGE: &[Argument] = &[required("message", ArgumentKind::Text)];
const SUBCOMMAND: &[Argument] = &[required("subcommand", ArgumentKind::Text)];

const WRITE_FLAGS: &[&str] = &["write", "fast"];
const READ_FLAGS: &[&str] = &["readonly", "fast"];
const HANDSHAKE_FLAGS: &[&str] = &["noscript", "loading", "stale", "fast", NO_AUTH, "allow_busy"];
const FAST_FLAGS: &[&str] = &["loading", "stale", "fast"];
const ADMIN_FLAGS: &[&str] = &["noscript", "loading", "stale"];

/// Flag of commands that are allowed before authentication.
const NO_AUTH: &str = "no_auth";

/// All commands, the most frequent first.
pub(super) const COMMANDS: &[CommandSpec] = &[
    spec(
        "cl.throttle",
        -1,
        WRITE_FLAGS,
        THROTTLE,
        throttle::cl_throttle,
        "Takes tokens from a bucket, as in redis-cell",
    ),
    spec("throttle", -5, WRITE_FLAGS, THROTTLE, throttle::throttle, "Takes tokens from a bucket, as in throttlecrab"),
    spec("sluice.check", -2, WRITE_FLAGS, CHECK, check::check, "Checks a request against a rule"),
    spec("sluice.peek", -2, READ_FLAGS, CHECK, check::peek, "Reads a rule without consuming quota"),
    spec("ping", -1, FAST_FLAGS, &[optional("message", ArgumentKind::Text)], info::ping, "Returns PONG or the message"),
    spec("echo", 2, FAST_FLAGS, MESSAGE, info::echo, "Returns the message"),
    spec(
        "hello",
        -1,
        HANDSHAKE_FLAGS,
        &[optional("protover", ArgumentKind::Number)],
        hello::hello,
        "Selects the protocol version",
    ),
    spec(
        "auth",
        -2,
        HANDSHAKE_FLAGS,
        &[required("password", ArgumentKind::Text)],
        hello::auth,
        "Authenticates the client",
    ),
    spec("quit", -1, HANDSHAKE_FLAGS, &[], info::quit, "Closes the connection"),
    spec("reset", 1, HANDSHAKE_FLAGS, &[], hello::reset, "Resets the connection"),
    spec("multi", 1, FAST_FLAGS, &[], transaction::multi, "Starts a transaction"),
    spec("exec", 1, FAST_FLAGS, &[], transaction::exec, "Runs the queued commands"),
    spec("discard", 1, FAST_FLAGS, &[], transaction::discard, "Discards the queued commands"),
    spec(
        "select",
        2,
        FAST_FLAGS,
        &[required("index", ArgumentKind::Number)],
        info::select,
        "Selects a database; only 0 exists",
    ),
    spec("client", -2, ADMIN_FLAGS, SUBCOMMAND, client::client, "Reports and sets properties of the connection"),
    spec(
        "command",
        -1,
        ADMIN_FLAGS,
        &[optional("subcommand", ArgumentKind::Text)],
        command_docs::command,
        "Describes the commands",
    ),
    spec("info", -1, ADMIN_FLAGS, &[optional("section", ArgumentKind::Text)], info::info, "Reports server information"),
    spec("config", -2, ADMIN_FLAGS, SUBCOMMAND, info::config, "Reads settings"),
    spec("time", 1, FAST_FLAGS, &[], info::time, "Returns the server time"),
    spec("cluster", -2, ADMIN_FLAGS, SUBCOMMAND, info::cluster, "Reports that cluster support is disabled"),
];

const fn spec(
    name: &'static str,
    arity: i64,
    flags: &'static [&'static str],
    arguments: &'static [Argument],
    run: fn(&mut CommandContext<'_>) -> CommandResult,
    summary: &'static str,
) -> CommandSpec {
    CommandSpec { name, arity, flags, arguments, run, summary }
}

impl CommandSpec {
    /// Finds a command by name, ignoring case.
    #[inline]
    pub(super) fn find(name: &[u8]) -> Option<&'static Self> {
        COMMANDS.iter().find(|known| name.eq_ignore_ascii_case(known.name.as_bytes()))
    }

    /// True if the first argument is a key.
    pub(super) fn has_key(&self) -> bool {
        self.arguments.first().is_some_and(|argument| argument.kind == ArgumentKind::Key)
    }

    /// True if the command accepts this number of words.
    #[inline]
    pub(super) const fn accepts_words(&self, words: usize) -> bool {
        let min = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { words >= min } else { words == min }
    }
}

impl CommandContext<'_> {
    /// Runs the command.
    #[inline]
    pub(super) fn run(&mut self) -> CommandResult {
        let known = CommandSpec::find(self.command.word(0));
        if !self.session.authenticated && !known.is_some_and(|known| known.flags.contains(&NO_AUTH)) {
            return self.error("NOAUTH Authentication required.");
        }
        if self.session.transaction.is_some()
            && let Some(result) = self.queue_command(known)
        {
            return result;
        }
        match known {
            Some(known) if known.accepts_words(self.command.len()) => (known.run)(self),
            Some(known) => self.wrong_arity(known.name),
            None => self.unknown_command(),
        }
    }

    pub(super) fn error(&mut self, error: impl fmt::Display) -> CommandResult {
        self.replies.error(error);
        CommandResult::Done
    }

    pub(super) fn ok(&mut self) -> CommandResult {
        self.replies.status("OK");
        CommandResult::Done
    }

    pub(super) fn wrong_arity(&mut self, name: &str) -> CommandResult {
        self.error(format_args!("ERR wrong number of arguments for '{name}' command"))
    }

    /// Error for an unknown subcommand or a wrong number of words, listing the known ones.
    pub(super) fn unknown_subcommand(&mut self, command: &str, known: &[&str]) -> CommandResult {
        let (subcommand, known) = (InputExcerpt(self.command.word(1)), known.join(", "));
        self.error(format_args!("ERR unknown subcommand '{subcommand}'. {command} supports {known}."))
    }

    /// Error for an unknown command. `POST` and `Host:` come from browsers in a cross-protocol attack; they close the
    /// connection, since the following bytes may be commands hidden in a form.
    fn unknown_command(&mut self) -> CommandResult {
        if self.command.is(0, "post") || self.command.is(0, "host:") {
            return CommandResult::Close;
        }
        let mut arguments = String::new();
        for word in self.command.words_from(1) {
            if arguments.len() >= 128 {
                break;
            }
            let _ = write!(arguments, "'{}' ", InputExcerpt(word));
        }
        let name = InputExcerpt(self.command.word(0));
        self.error(format_args!("ERR unknown command '{name}', with args beginning with: {arguments}"))
    }
}

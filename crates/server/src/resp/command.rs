//! The commands there are: one table says how each is called, described and answered.

use std::fmt::{self, Write};

use sluicegate_engine::sluice::Admission;

use super::parse::Command;
use super::reply::{Replies, Shown};
use super::session::Session;
use super::transaction::Running;
use super::{Resp, about, check, client, describe, hello, throttle, transaction};

/// How a command ended.
pub(super) enum Step {
    /// It has been answered.
    Done,
    /// It has been answered, and was the last one.
    Last,
    /// The store is asked; the answer is what comes of it.
    Ask(Box<Admission>),
    /// The store is asked by numbers that came with the command.
    Throttle(Box<throttle::Waiting>),
    /// These are to be run next, one after the other; that they are so many has been answered.
    Run(Running),
}

/// A command under way.
pub(super) struct Call<'a> {
    pub(super) resp: &'a Resp,
    pub(super) session: &'a mut Session,
    pub(super) command: Command<'a>,
    pub(super) replies: &'a mut Replies,
}

/// A command that is known.
pub(super) struct Known {
    /// Its name, in lower case.
    pub(super) name: &'static str,
    /// How many words it has, its name among them; at least so many if negative.
    pub(super) arity: i64,
    /// What Redis calls its properties.
    pub(super) flags: &'static [&'static str],
    /// What follows its name.
    pub(super) arguments: &'static [Argument],
    run: fn(&mut Call<'_>) -> Step,
    /// What it does, in a line.
    pub(super) summary: &'static str,
}

/// What can follow a command's name.
pub(super) struct Argument {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) optional: bool,
}

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// What is counted apart; a cluster would be divided by it.
    Key,
    Text,
    Number,
}

const fn required(name: &'static str, kind: Kind) -> Argument {
    Argument { name, kind, optional: false }
}

const fn optional(name: &'static str, kind: Kind) -> Argument {
    Argument { name, kind, optional: true }
}

const THROTTLE: &[Argument] = &[
    required("key", Kind::Key),
    required("max_burst", Kind::Number),
    required("count", Kind::Number),
    required("period", Kind::Number),
    optional("quantity", Kind::Number),
];
const CHECK: &[Argument] =
    &[required("rule", Kind::Text), optional("cost", Kind::Number), optional("attribute", Kind::Text)];
const MESSAGE: &[Argument] = &[required("message", Kind::Text)];
const SUBCOMMAND: &[Argument] = &[required("subcommand", Kind::Text)];

const DECIDES: &[&str] = &["write", "fast"];
const LOOKS: &[&str] = &["readonly", "fast"];
const FREE: &[&str] = &["noscript", "loading", "stale", "fast", NO_AUTH, "allow_busy"];
const QUICK: &[&str] = &["loading", "stale", "fast"];
const ABOUT: &[&str] = &["noscript", "loading", "stale"];

/// What a command has that is answered before the password was shown.
const NO_AUTH: &str = "no_auth";

/// All of them, the commonest first.
pub(super) const COMMANDS: &[Known] = &[
    known("cl.throttle", -1, DECIDES, THROTTLE, throttle::cl_throttle, "Takes from a bucket, as redis-cell does"),
    known("throttle", -5, DECIDES, THROTTLE, throttle::throttle, "Takes from a bucket, as throttlecrab does"),
    known("sluice.check", -2, DECIDES, CHECK, check::check, "Decides by a rule of the rule file"),
    known("sluice.peek", -2, LOOKS, CHECK, check::peek, "Looks at a rule without taking anything"),
    known("ping", -1, QUICK, &[optional("message", Kind::Text)], about::ping, "Answers"),
    known("echo", 2, QUICK, MESSAGE, about::echo, "Repeats what it was told"),
    known("hello", -1, FREE, &[optional("protover", Kind::Number)], hello::hello, "Chooses the protocol's version"),
    known("auth", -2, FREE, &[required("password", Kind::Text)], hello::auth, "Takes the password"),
    known("quit", -1, FREE, &[], about::quit, "Ends the connection"),
    known("reset", 1, FREE, &[], hello::reset, "Forgets what the connection was told"),
    known("multi", 1, QUICK, &[], transaction::multi, "Begins commands that are run together"),
    known("exec", 1, QUICK, &[], transaction::exec, "Runs them"),
    known("discard", 1, QUICK, &[], transaction::discard, "Forgets them"),
    known("select", 2, QUICK, &[required("index", Kind::Number)], about::select, "Chooses the only database"),
    known("client", -2, ABOUT, SUBCOMMAND, client::client, "Tells of the connection"),
    known("command", -1, ABOUT, &[optional("subcommand", Kind::Text)], describe::command, "Tells of the commands"),
    known("info", -1, ABOUT, &[optional("section", Kind::Text)], about::info, "Tells of the server"),
    known("config", -2, ABOUT, SUBCOMMAND, about::config, "Tells of the settings"),
    known("time", 1, QUICK, &[], about::time, "Tells the time"),
    known("cluster", -2, ABOUT, SUBCOMMAND, about::cluster, "Tells that there is no cluster"),
];

const fn known(
    name: &'static str,
    arity: i64,
    flags: &'static [&'static str],
    arguments: &'static [Argument],
    run: fn(&mut Call<'_>) -> Step,
    summary: &'static str,
) -> Known {
    Known { name, arity, flags, arguments, run, summary }
}

impl Known {
    /// The command of this name, in whatever case.
    #[inline]
    pub(super) fn find(name: &[u8]) -> Option<&'static Self> {
        COMMANDS.iter().find(|known| name.eq_ignore_ascii_case(known.name.as_bytes()))
    }

    /// Whether its first argument is a key.
    pub(super) fn has_key(&self) -> bool {
        self.arguments.first().is_some_and(|argument| argument.kind == Kind::Key)
    }

    /// Whether it may have so many words.
    #[inline]
    pub(super) const fn takes(&self, words: usize) -> bool {
        let least = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { words >= least } else { words == least }
    }
}

impl Call<'_> {
    /// Answers the command.
    #[inline]
    pub(super) fn run(&mut self) -> Step {
        let known = Known::find(self.command.word(0));
        if !self.session.authenticated && !known.is_some_and(|known| known.flags.contains(&NO_AUTH)) {
            return self.error("NOAUTH Authentication required.");
        }
        if self.session.queued.is_some()
            && let Some(step) = self.keep(known)
        {
            return step;
        }
        match known {
            Some(known) if known.takes(self.command.len()) => (known.run)(self),
            Some(known) => self.wrong_number(known.name),
            None => self.unknown(),
        }
    }

    pub(super) fn error(&mut self, error: impl fmt::Display) -> Step {
        self.replies.error(error);
        Step::Done
    }

    pub(super) fn ok(&mut self) -> Step {
        self.replies.status("OK");
        Step::Done
    }

    pub(super) fn wrong_number(&mut self, name: &str) -> Step {
        self.error(format_args!("ERR wrong number of arguments for '{name}' command"))
    }

    /// A subcommand nobody knows, or one of `COMMAND` with other words than it takes; these there are.
    pub(super) fn unknown_subcommand(&mut self, of: &str, known: &[&str]) -> Step {
        let (subcommand, known) = (Shown(self.command.word(1)), known.join(", "));
        self.error(format_args!("ERR unknown subcommand '{subcommand}'. {of} knows {known}."))
    }

    /// A command nobody knows. Browsers that were lured here send one of two, and are let go at once: what
    /// follows may be commands in the guise of a form.
    fn unknown(&mut self) -> Step {
        if self.command.is(0, "post") || self.command.is(0, "host:") {
            return Step::Last;
        }
        let mut arguments = String::new();
        for word in self.command.words_from(1) {
            if arguments.len() >= 128 {
                break;
            }
            let _ = write!(arguments, "'{}' ", Shown(word));
        }
        let name = Shown(self.command.word(0));
        self.error(format_args!("ERR unknown command '{name}', with args beginning with: {arguments}"))
    }
}

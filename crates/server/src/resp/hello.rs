//! `HELLO`, `AUTH` and `RESET`: protocol version and password.

use super::command::{CommandContext, CommandResult};
use super::reply::InputExcerpt;
use super::session::RespSession;
use super::{REDIS_VERSION, Resp};

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const HELLO_FIRST: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
                           <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP \
                           protocol version at the same time";
const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the default user. Are you sure \
                           your configuration is correct?";

/// `HELLO [2|3] [AUTH user password] [SETNAME name]`
pub(super) fn hello(call: &mut CommandContext<'_>) -> CommandResult {
    let CommandContext { command, resp, .. } = *call;
    let version = match (command.len(), str::from_utf8(command.word(1)).map(str::parse::<i64>)) {
        (1, _) => call.replies.is_resp3,
        (_, Ok(Ok(2))) => false,
        (_, Ok(Ok(3))) => true,
        (_, Ok(Ok(_))) => return call.error("NOPROTO unsupported protocol version"),
        _ => return call.error("ERR Protocol version is not an integer or out of range"),
    };
    let (mut authenticated, mut name) = (call.session.authenticated, None);
    let mut at = 2;
    while at < command.len() {
        let more = command.len() - at - 1;
        if command.is(at, "auth") && more >= 2 {
            if !resp.accepts_credentials(command.word(at + 1), command.word(at + 2)) {
                return call.error(WRONG_PASSWORD);
            }
            authenticated = true;
            at += 3;
        } else if command.is(at, "setname") && more >= 1 {
            name = Some(command.word(at + 1));
            at += 2;
        } else {
            let option = InputExcerpt(command.word(at));
            return call.error(format_args!("ERR Syntax error in HELLO option '{option}'"));
        }
    }
    if !authenticated {
        return call.error(HELLO_FIRST);
    }
    if let Some(Err(error)) = name.map(|name| call.session.set_name(name)) {
        return call.error(error);
    }
    call.session.authenticated = true;
    call.replies.is_resp3 = version;
    hello_reply(call);
    CommandResult::Done
}

fn hello_reply(call: &mut CommandContext<'_>) {
    let replies = &mut *call.replies;
    replies.map(7);
    for (name, value) in [("server", "sluicegate"), ("version", REDIS_VERSION)] {
        replies.bulk(name.as_bytes());
        replies.bulk(value.as_bytes());
    }
    replies.bulk(b"proto");
    replies.integer(if replies.is_resp3 { 3 } else { 2 });
    replies.bulk(b"id");
    replies.integer(call.session.id);
    for (name, value) in [("mode", "standalone"), ("role", "master")] {
        replies.bulk(name.as_bytes());
        replies.bulk(value.as_bytes());
    }
    replies.bulk(b"modules");
    replies.array(0);
}

/// `AUTH [user] password`
pub(super) fn auth(call: &mut CommandContext<'_>) -> CommandResult {
    let CommandContext { command, resp, .. } = *call;
    let is_valid = match command.len() {
        2 if resp.secret.is_none() => return call.error(NO_PASSWORD),
        2 => resp.accepts_credentials(b"default", command.word(1)),
        3 => resp.accepts_credentials(command.word(1), command.word(2)),
        _ => return call.error("ERR syntax error"),
    };
    if !is_valid {
        return call.error(WRONG_PASSWORD);
    }
    call.session.authenticated = true;
    call.ok()
}

/// `RESET`: restores the initial connection state.
pub(super) fn reset(call: &mut CommandContext<'_>) -> CommandResult {
    *call.session = RespSession::new(call.session.id, call.resp.secret.is_none());
    call.replies.is_resp3 = false;
    call.replies.status("RESET");
    CommandResult::Done
}

impl Resp {
    /// True if the user and password are valid. There is one user; without a secret any password is accepted.
    fn accepts_credentials(&self, user: &[u8], password: &[u8]) -> bool {
        user == b"default" && self.secret.as_ref().is_none_or(|secret| secret.matches(password))
    }
}

//! How a client begins: which version of the protocol it speaks, and the password.

use super::command::{Call, Step};
use super::reply::Shown;
use super::session::Session;
use super::{REDIS_VERSION, Resp};

const WRONG: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const HELLO_FIRST: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
                           <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP \
                           protocol version at the same time";
const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the default user. Are you sure \
                           your configuration is correct?";

/// `HELLO [2|3] [AUTH user password] [SETNAME name]`
pub(super) fn hello(call: &mut Call<'_>) -> Step {
    let Call { command, resp, .. } = *call;
    let version = match (command.len(), str::from_utf8(command.word(1)).map(str::parse::<i64>)) {
        (1, _) => call.replies.third,
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
            if !resp.knows(command.word(at + 1), command.word(at + 2)) {
                return call.error(WRONG);
            }
            authenticated = true;
            at += 3;
        } else if command.is(at, "setname") && more >= 1 {
            name = Some(command.word(at + 1));
            at += 2;
        } else {
            let option = Shown(command.word(at));
            return call.error(format_args!("ERR Syntax error in HELLO option '{option}'"));
        }
    }
    if !authenticated {
        return call.error(HELLO_FIRST);
    }
    if let Some(Err(bad)) = name.map(|name| call.session.rename(name)) {
        return call.error(bad);
    }
    call.session.authenticated = true;
    call.replies.third = version;
    greet(call);
    Step::Done
}

fn greet(call: &mut Call<'_>) {
    let replies = &mut *call.replies;
    replies.map(7);
    for (name, value) in [("server", "sluicegate"), ("version", REDIS_VERSION)] {
        replies.bulk(name.as_bytes());
        replies.bulk(value.as_bytes());
    }
    replies.bulk(b"proto");
    replies.integer(if replies.third { 3 } else { 2 });
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
pub(super) fn auth(call: &mut Call<'_>) -> Step {
    let Call { command, resp, .. } = *call;
    let shown = match command.len() {
        2 if resp.secret.is_none() => return call.error(NO_PASSWORD),
        2 => resp.knows(b"default", command.word(1)),
        3 => resp.knows(command.word(1), command.word(2)),
        _ => return call.error("ERR syntax error"),
    };
    if !shown {
        return call.error(WRONG);
    }
    call.session.authenticated = true;
    call.ok()
}

/// `RESET`: as if the client had just come.
pub(super) fn reset(call: &mut Call<'_>) -> Step {
    *call.session = Session::new(call.session.id, call.resp.secret.is_none());
    call.replies.third = false;
    call.replies.status("RESET");
    Step::Done
}

impl Resp {
    /// Whether this user may come in with this password. There is one user; without a secret any password will do.
    fn knows(&self, user: &[u8], password: &[u8]) -> bool {
        user == b"default" && self.secret.as_ref().is_none_or(|secret| secret.is(password))
    }
}

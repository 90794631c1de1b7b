//! Who may ask.
//!
//! With tokens, whoever shows one may do what it allows. Without, whoever is on this machine may look, and nobody may
//! change anything; and the name they ask for must be one of this machine, so that no page from elsewhere looks
//! through somebody's browser (its own name can be made to lead here, but it stays its own).

use std::net::{IpAddr, SocketAddr};

use http::request::Parts;
use http::{HeaderMap, header};

use super::problem::{Kind, Problem, shown};
use super::route::Need;
use crate::tokens::{Access, Tokens};

/// Somebody who may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asker {
    /// Who is noted as the author of changes.
    pub(super) name: String,
    pub(super) access: Access,
}

impl Asker {
    fn nobody() -> Self {
        Self { name: String::new(), access: Access::Read }
    }
}

/// Refuses whoever may not do what is needed.
pub(super) fn admit(tokens: Option<&Tokens>, call: &Parts, peer: SocketAddr, need: Need) -> Result<Asker, Problem> {
    let Some(need) = need else { return Ok(Asker::nobody()) };
    match tokens {
        Some(tokens) => by_token(tokens, &call.headers, need),
        None => by_place(call, peer.ip(), need),
    }
}

fn by_token(tokens: &Tokens, headers: &HeaderMap, need: Access) -> Result<Asker, Problem> {
    let Some(shown) = bearer(headers) else {
        let detail = "no token was shown: send it as `Authorization: Bearer TOKEN`";
        return Err(Problem::new(Kind::Unauthorized, detail));
    };
    let Some((name, access)) = tokens.who(shown) else {
        return Err(Problem::new(Kind::Unauthorized, "this is none of the tokens in the file of `admin.token`"));
    };
    if access < need {
        let detail = format!("the token of {name} may only read: ask with one that may write");
        return Err(Problem::new(Kind::Forbidden, detail));
    }
    Ok(Asker { name: name.to_owned(), access })
}

fn by_place(call: &Parts, peer: IpAddr, need: Access) -> Result<Asker, Problem> {
    if !peer.to_canonical().is_loopback() {
        let detail = "without tokens only this machine may look: set `admin.token` to a file of tokens";
        return Err(Problem::new(Kind::Forbidden, detail));
    }
    let host = host(call);
    if !is_loopback(host) {
        let detail = format!(
            "{} is no name of this machine: ask for localhost, or set `admin.token` to a file of tokens",
            shown(host)
        );
        return Err(Problem::new(Kind::Forbidden, detail));
    }
    if need == Access::Write {
        let detail = "without tokens nobody may change anything: set `admin.token` to a file of tokens";
        return Err(Problem::new(Kind::Forbidden, detail));
    }
    Ok(Asker::nobody())
}

/// What follows the scheme `Bearer`, if it was sent once.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let mut lines = headers.get_all(header::AUTHORIZATION).into_iter();
    let line = lines.next().filter(|_| lines.next().is_none())?.as_bytes();
    let (scheme, shown) = line.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then_some(shown.trim_ascii())
}

/// The name that was asked for, with its port; empty if there is none, or several.
fn host(call: &Parts) -> &str {
    if let Some(authority) = call.uri.authority() {
        return authority.as_str();
    }
    let mut lines = call.headers.get_all(header::HOST).into_iter();
    let line = lines.next().filter(|_| lines.next().is_none());
    line.and_then(|line| line.to_str().ok()).unwrap_or_default()
}

/// Whether a name can only be meant for this machine.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    if let Some(inner) = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        return inner.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback());
    }
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_such() {
        for host in ["localhost", "LOCALHOST:9900", "127.0.0.1", "127.9.9.9:80", "[::1]", "[::1]:9900"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            ":80",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evil.example:127",
            "192.0.2.1",
            "[2001:db8::1]",
            "0.0.0.0",
            "localhost@evil.example",
            "user@localhost",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}

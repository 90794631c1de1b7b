//! Authorization of admin calls.
//!
//! With tokens, a caller may do what its token allows. Without tokens, local callers may read, and nothing can
//! be changed. The `Host` must then be a loopback name, which prevents DNS rebinding: a foreign page can make
//! its name resolve to this host, but it keeps its name.

use std::net::{IpAddr, SocketAddr};

use http::request::Parts;
use http::{HeaderMap, header};

use super::problem::{Problem, ProblemKind, quote_input};
use super::route::RequiredAccess;
use crate::tokens::{Access, Tokens};

/// An authorized caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    /// Name recorded as the author of changes.
    pub(super) name: String,
    pub(super) access: Access,
}

impl Caller {
    fn anonymous() -> Self {
        Self { name: String::new(), access: Access::Read }
    }
}

/// Rejects a call that lacks the required access.
pub(super) fn authorize(
    tokens: Option<&Tokens>,
    call: &Parts,
    peer: SocketAddr,
    need: RequiredAccess,
) -> Result<Caller, Problem> {
    let Some(need) = need else { return Ok(Caller::anonymous()) };
    match tokens {
        Some(tokens) => authorize_token(tokens, &call.headers, need),
        None => authorize_loopback(call, peer.ip(), need),
    }
}

fn authorize_token(tokens: &Tokens, headers: &HeaderMap, need: Access) -> Result<Caller, Problem> {
    let Some(token) = bearer_token(headers) else {
        let detail = "missing token: send it as `Authorization: Bearer TOKEN`";
        return Err(Problem::new(ProblemKind::Unauthorized, detail));
    };
    let Some((name, access)) = tokens.identify(token) else {
        let detail = "unknown token: use one from the file in `admin.token_file`";
        return Err(Problem::new(ProblemKind::Unauthorized, detail));
    };
    if access < need {
        let detail = format!("the token of {name} is read-only: use a token with write access");
        return Err(Problem::new(ProblemKind::Forbidden, detail));
    }
    Ok(Caller { name: name.to_owned(), access })
}

fn authorize_loopback(call: &Parts, peer: IpAddr, need: Access) -> Result<Caller, Problem> {
    if !peer.to_canonical().is_loopback() {
        let detail = "remote access needs a token: set `admin.token_file`";
        return Err(Problem::new(ProblemKind::Forbidden, detail));
    }
    let host = requested_host(call);
    if !is_loopback(host) {
        let detail =
            format!("host {} is not a loopback name: use localhost, or set `admin.token_file`", quote_input(host));
        return Err(Problem::new(ProblemKind::Forbidden, detail));
    }
    if need == Access::Write {
        let detail = "changes need a token: set `admin.token_file`";
        return Err(Problem::new(ProblemKind::Forbidden, detail));
    }
    Ok(Caller::anonymous())
}

/// Token after the scheme `Bearer`, if the header was sent once.
fn bearer_token(headers: &HeaderMap) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let mut lines = headers.get_all(header::AUTHORIZATION).into_iter();
    let line = lines.next().filter(|_| lines.next().is_none())?.as_bytes();
    let (scheme, token) = line.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then_some(token.trim_ascii())
}

/// Requested host with its port; empty if there is none, or several.
fn requested_host(call: &Parts) -> &str {
    if let Some(authority) = call.uri.authority() {
        return authority.as_str();
    }
    let mut lines = call.headers.get_all(header::HOST).into_iter();
    let line = lines.next().filter(|_| lines.next().is_none());
    line.and_then(|line| line.to_str().ok()).unwrap_or_default()
}

/// True if a host name can only mean this host.
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
    fn only_loopback_hosts_are_accepted() {
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

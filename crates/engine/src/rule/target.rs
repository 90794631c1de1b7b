//! Request target of a rule: the `match:` of a rule file.
//!
//! A target names its parts in this order; an omitted part matches everything:
//!
//! | syntax | requests |
//! |---|---|
//! | `*`, or empty | all |
//! | `/api/**` | with these paths ([patterns](super::pattern)) |
//! | `POST /api/orders` | with this method and path |
//! | `GET\|HEAD /files/**` | with one of these methods |
//! | `service shop` | to this service |
//! | `host shop.example.com GET /x` | for this host |
//! | `calls-to bank` | sent by us to this service; the rule's direction must be outbound |
//!
//! ```
//! use sluicegate_engine::rule::{Request, Target};
//!
//! let target = Target::parse("service shop GET|HEAD /files/**")?;
//! assert!(target.matches(&Request::new("GET", "/files/a.txt").with_service("shop")));
//! assert!(!target.matches(&Request::new("PUT", "/files/a.txt").with_service("shop")));
//! assert_eq!(target.to_string(), "service shop GET|HEAD /files/**");
//!
//! let error = Target::parse("post /api/orders").unwrap_err();
//! assert_eq!(error.to_string(), "unknown method 'post': did you mean POST?");
//! # Ok::<(), sluicegate_engine::rule::TargetError>(())
//! ```

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::attribute::QuotedExcerpt;
use super::request::canonical_host;
use super::{PathPattern, Request};
use crate::spelling::within_one_edit;

/// Known methods: of HTTP and WebDAV, and those added by caches and search.
const METHODS: [&str; 21] = [
    "GET",
    "POST",
    "PUT",
    "DELETE",
    "PATCH",
    "HEAD",
    "OPTIONS",
    "CONNECT",
    "TRACE",
    "QUERY",
    "PURGE",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "SEARCH",
    "REPORT",
    "MERGE",
];

/// Service, methods, host and path of a rule; an omitted part matches everything.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Target {
    /// Service, exact.
    pub service: Option<String>,
    /// Any of these methods.
    pub methods: Vec<String>,
    /// Host, exact, without port.
    pub host: Option<String>,
    /// Path pattern, such as `/api/orders/{id}` or `/files/**`.
    pub path: Option<String>,
}

/// Error of parsing a target.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct TargetError {
    /// Byte offset of the error in the text.
    pub at: usize,
    /// Length of the invalid part in bytes.
    pub len: usize,
    /// Problem and remedy.
    pub message: String,
}

impl Target {
    /// Parses a target.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        let mut target = Self::default();
        let mut words = words(text).peekable();
        while let Some((at, word)) = words.next_if(|(_, word)| matches!(*word, "service" | "host" | "calls-to")) {
            let Some((name_at, name)) = words.next() else {
                return target_error(at, word, format!("{word} needs a name: write {word} NAME"));
            };
            if word == "host" {
                let host = host(name).map_err(|message| TargetError { at: name_at, len: name.len(), message })?;
                if target.host.replace(host).is_some() {
                    return target_error(at, word, "two hosts: a rule matches one; write a rule for each".to_owned());
                }
            } else if target.service.replace(service(name_at, name)?).is_some() {
                return target_error(at, word, "two services: a rule matches one; write a rule for each".to_owned());
            }
        }
        if let Some((at, word)) = words.next_if(|(_, word)| !word.starts_with('/')) {
            target.methods = methods(at, word)?;
        }
        if let Some((at, word)) = words.next().filter(|(_, word)| *word != "*") {
            let pattern = PathPattern::parse(word).map_err(|fault| TargetError {
                at: at + fault.at,
                len: fault.len,
                message: fault.message,
            })?;
            target.path = Some(pattern.to_string());
        }
        match words.next() {
            Some((at, word)) => target_error(
                at,
                word,
                format!("unexpected {}: write [service NAME] [host NAME] [METHOD|METHOD] [/path]", QuotedExcerpt(word)),
            ),
            None => Ok(target),
        }
    }

    /// Validates a target constructed by hand. A parsed one is always valid.
    pub fn validate(&self) -> Result<(), TargetError> {
        self.path.as_deref().map_or(Ok(()), |path| PathPattern::parse(path).map(drop))
    }

    /// True if it matches this request. A target with an invalid path pattern matches nothing. To find the rules
    /// of a request among many, use a [`RuleIndex`](super::RuleIndex).
    pub fn matches(&self, request: &Request<'_>) -> bool {
        self.matches_except_path(request)
            && match &self.path {
                Some(path) => PathPattern::parse(path).is_ok_and(|pattern| pattern.matches(request.path)),
                None => true,
            }
    }

    /// True if service, method and host match.
    #[inline]
    pub(super) fn matches_except_path(&self, request: &Request<'_>) -> bool {
        self.service.as_deref().is_none_or(|service| service == request.service)
            && (self.methods.is_empty() || self.methods.iter().any(|method| method == request.method))
            && self.host.as_deref().is_none_or(|host| canonical_host(host) == request.host_name())
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        Self::parse(text)
    }
}

/// Words of a text with their offsets.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_whitespace().map(move |word| (word.as_ptr().addr() - text.as_ptr().addr(), word))
}

fn target_error<T>(at: usize, word: &str, message: String) -> Result<T, TargetError> {
    Err(TargetError { at, len: word.len(), message })
}

fn service(at: usize, name: &str) -> Result<String, TargetError> {
    if name.starts_with('/') || name == "*" {
        return target_error(
            at,
            name,
            format!("{} is not a service name: write service NAME first", QuotedExcerpt(name)),
        );
    }
    Ok(name.to_owned())
}

fn host(name: &str) -> Result<String, String> {
    if name.contains('/') {
        return Err(format!("{} is not a host: write only the name, such as shop.example.com", QuotedExcerpt(name)));
    }
    if name.contains('*') {
        return Err(format!(
            "{} is not a host: for several hosts, use when: host.endsWith('.example.com')",
            QuotedExcerpt(name)
        ));
    }
    let host = canonical_host(name);
    if host.contains(':') && !host.starts_with('[') || host.len() < name.trim_end_matches('.').len() {
        return Err(format!("{} has a port: remove it, hosts are compared without ports", QuotedExcerpt(name)));
    }
    if host.is_empty() || host.ends_with('.') {
        return Err(format!("{} is not a host: name one, such as shop.example.com", QuotedExcerpt(name)));
    }
    Ok(host.into_owned())
}

fn methods(at: usize, word: &str) -> Result<Vec<String>, TargetError> {
    let mut methods = Vec::new();
    if word == "*" {
        return Ok(methods);
    }
    let mut start = at;
    for method in word.split('|') {
        if method.is_empty() {
            return target_error(at, word, format!("missing method in {}: write GET|POST", QuotedExcerpt(word)));
        }
        if !METHODS.contains(&method) {
            return target_error(start, method, not_a_method(method));
        }
        if !methods.iter().any(|known| known == method) {
            methods.push(method.to_owned());
        }
        start += method.len() + 1;
    }
    Ok(methods)
}

fn not_a_method(method: &str) -> String {
    let upper = method.to_ascii_uppercase();
    let near = |known: &&&str| **known == upper || upper.len() > 2 && within_one_edit(&upper, known);
    if let Some(known) = METHODS.iter().find(near) {
        return format!("unknown method {}: did you mean {known}?", QuotedExcerpt(method));
    }
    if let Some(known) = ["service", "host", "calls-to"].iter().find(|known| known.eq_ignore_ascii_case(method)) {
        return format!("unknown keyword {}: did you mean {known}?", QuotedExcerpt(method));
    }
    if method.contains(['/', '.', '{', ',']) {
        let remedy =
            if method.contains(',') { "join methods with |, as in GET|POST" } else { "a path starts with a slash" };
        return format!("{} is neither method nor path: {remedy}", QuotedExcerpt(method));
    }
    format!(
        "unknown method {}: use one of GET, POST, PUT, DELETE, PATCH, HEAD, OPTIONS, or when: method == {}",
        QuotedExcerpt(method),
        QuotedExcerpt(method)
    )
}

/// Formats the notation that [`Target::parse`] parses.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut space = "";
        let mut word = |f: &mut fmt::Formatter<'_>, word: fmt::Arguments<'_>| {
            f.write_str(space)?;
            space = " ";
            f.write_fmt(word)
        };
        if *self == Self::default() {
            return f.write_str("*");
        }
        if let Some(service) = &self.service {
            word(f, format_args!("service {service}"))?;
        }
        if let Some(host) = &self.host {
            word(f, format_args!("host {host}"))?;
        }
        if !self.methods.is_empty() {
            word(f, format_args!("{}", self.methods.join("|")))?;
        }
        if let Some(path) = &self.path {
            word(f, format_args!("{path}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn targets_round_trip() {
        for text in [
            "*",
            "/api/**",
            "/",
            "POST /api/orders",
            "GET|HEAD /files/**",
            "service shop",
            "service shop POST /x",
            "host shop.example.com GET /x",
            "service host host service",
            "POST",
            "/a/{id}/{*rest}",
        ] {
            assert_eq!(Target::parse(text).unwrap().to_string(), text);
        }
        for (text, same) in [
            ("", "*"),
            ("  ", "*"),
            ("* *", "*"),
            ("* /x", "/x"),
            ("GET *", "GET"),
            (" GET|GET   /x/ ", "GET /x"),
            ("calls-to bank", "service bank"),
            ("host Shop.Example.COM.", "host shop.example.com"),
            ("host a service b", "service b host a"),
        ] {
            assert_eq!(Target::parse(text).unwrap().to_string(), same, "{text}");
        }
    }

    #[test]
    fn errors_name_the_span_and_the_remedy() {
        for (text, at, len, message) in [
            ("post /x", 0, 4, "did you mean POST?"),
            ("GET|Head /x", 4, 4, "did you mean HEAD?"),
            ("PSOT /x", 0, 4, "did you mean POST?"),
            ("GETT /x", 0, 4, "did you mean GET?"),
            ("FROBNICATE /x", 0, 10, "method == 'FROBNICATE'"),
            ("GET| /x", 0, 4, "missing"),
            ("GET,POST /x", 0, 8, "GET|POST"),
            ("Service shop", 0, 7, "did you mean service?"),
            ("api/orders", 0, 10, "starts with a slash"),
            ("GET api/orders", 4, 1, "write /api/orders"),
            ("GET /a/**/b", 9, 2, "rest of the path"),
            ("GET /a/{id", 7, 3, "braces"),
            ("GET /a/{}", 7, 2, "parameter without a name"),
            ("/{a}/{a}", 5, 3, "duplicate parameter"),
            ("/x /y", 3, 2, "unexpected"),
            ("service", 0, 7, "service NAME"),
            ("service /x", 8, 2, "not a service"),
            ("service a calls-to b", 10, 8, "two services"),
            ("host a host b", 7, 4, "two hosts"),
            ("host a:80 /x", 5, 4, "port"),
            ("host http://a", 5, 8, "only the name"),
            ("host *.a", 5, 3, "host.endsWith"),
            ("host ..", 5, 2, "not a host"),
        ] {
            let error = Target::parse(text).unwrap_err();
            assert!(error.message.contains(message), "{text}: {error}");
            assert_eq!((error.at, error.len), (at, len), "{text}: {error}");
        }
    }

    #[test]
    fn a_target_matches_what_it_names() {
        let request = Request::new("GET", "/files/a").with_service("shop").with_host("Shop.example:443");
        for (text, expected) in [
            ("*", true),
            ("GET", true),
            ("POST|GET /files/**", true),
            ("POST", false),
            ("service shop host shop.example GET /files/*", true),
            ("service bank", false),
            ("host bank.example", false),
            ("/other", false),
        ] {
            assert_eq!(Target::parse(text).unwrap().matches(&request), expected, "{text}");
        }
        let wrong = Target { path: Some("no pattern".to_owned()), ..Target::default() };
        assert!(wrong.validate().is_err());
        assert!(!wrong.matches(&request));
    }

    proptest! {
        #[test]
        fn parsed_targets_round_trip(text in "\\PC*|((service|host) [a-z.]+ )?(GET|POST[|]PUT )?/[a-z/{}*]*") {
            match Target::parse(&text) {
                Ok(target) => prop_assert_eq!(Target::parse(&target.to_string()), Ok(target)),
                Err(error) => prop_assert!(text.get(error.at..error.at + error.len).is_some(), "{:?}", error),
            }
        }
    }
}

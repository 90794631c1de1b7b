//! A call about to be made, as rules look at it.

use std::borrow::Cow;

use http::uri::Uri;
use http::{HeaderMap, Method, header};
use sluicegate_engine::rule::{Attribute, AttributeMap, Attributes, Request, Side};
use sluicegate_http::attributes::sent;

/// A call about to be made, borrowed from whatever client makes it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The method.
    pub method: &'a Method,
    /// `https`, if it is known.
    pub scheme: Option<&'a str>,
    /// The host, without port; empty if it is not known.
    pub host: &'a str,
    /// The port, if it was given.
    pub port: Option<u16>,
    /// The path, without the query.
    pub path: &'a str,
    /// The query, without the question mark.
    pub query: Option<&'a str>,
    /// The headers.
    pub headers: &'a HeaderMap,
}

impl<'a> Call<'a> {
    /// The call that a request of the `http` crate stands for. Without a host in its URI, the `Host`
    /// header names it.
    pub fn new(method: &'a Method, uri: &'a Uri, headers: &'a HeaderMap) -> Self {
        let in_header =
            || split_port(headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default());
        let (host, port) = uri.host().map_or_else(in_header, |host| (host, uri.port_u16()));
        Self { method, scheme: uri.scheme_str(), host, port, path: uri.path(), query: uri.query(), headers }
    }

    /// The host in one spelling.
    pub(super) fn host_name(&self) -> String {
        authority(self.host, None)
    }

    /// Host and port, in one spelling: what tells destinations apart that have no service name.
    pub fn authority(&self) -> String {
        let usual = match self.scheme {
            Some("http") => Some(80),
            Some("https") => Some(443),
            _ => None,
        };
        authority(self.host, self.port.or(usual))
    }

    /// The engine's view of it; `path` is the call's, in its one spelling.
    pub(super) fn describe<'r>(&self, service: &'r str, path: &'r str, attributes: &'r OfCall<'r>) -> Request<'r>
    where
        'a: 'r,
    {
        Request::new(self.method.as_str(), path)
            .with_side(Side::Outbound)
            .with_service(service)
            .with_host(self.host)
            .with_attributes(attributes)
    }
}

/// A host, perhaps with a port, in one spelling.
pub(super) fn authority(host: &str, port: Option<u16>) -> String {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    match port {
        Some(port) => format!("{host}:{port}"),
        None => host,
    }
}

pub(super) fn split_port(host: &str) -> (&str, Option<u16>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, port.parse().ok()),
        _ => (host, None),
    }
}

/// A call's further attributes: what the program added, then what the request itself has.
pub(super) struct OfCall<'a> {
    pub(super) call: &'a Call<'a>,
    pub(super) added: AttributeMap,
}

impl Attributes for OfCall<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Cow<'_, str>> {
        self.added.get(attribute).or_else(|| sent(attribute, self.call.headers, self.call.query))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority_of(uri: &str, host: &str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        Call::new(&Method::GET, &uri.parse().unwrap(), &headers).authority()
    }

    #[test]
    fn one_destination_has_one_spelling() {
        for (uri, host, expected) in [
            ("https://API.bank.example/x", "", "api.bank.example:443"),
            ("http://api.bank.example./x", "", "api.bank.example:80"),
            ("http://api.bank.example:8080/x?y", "other", "api.bank.example:8080"),
            ("http://[::1]:9/", "", "[::1]:9"),
            ("/x", "Api.bank.example:81", "api.bank.example:81"),
            ("/x", "[::1]:81", "[::1]:81"),
            ("/x", "[::1]", "[::1]"),
            ("/x", "api.bank.example:port", "api.bank.example"),
            ("/x", "", ""),
            ("*", "", ""),
        ] {
            assert_eq!(authority_of(uri, host), expected, "{uri} {host}");
        }
    }

    #[test]
    fn attributes_are_found_where_they_are() {
        let mut headers = HeaderMap::new();
        headers.insert("x-tier", "vip".parse().unwrap());
        headers.append("x-many", "a".parse().unwrap());
        headers.append("x-many", "b".parse().unwrap());
        headers.insert(header::COOKIE, "a=1; sid=two%3D2; q=\"q\"".parse().unwrap());
        let uri = "/x?q=a%20b+c&empty&k%C3%A4se=1".parse().unwrap();
        let call = Call::new(&Method::GET, &uri, &headers);
        let of_call = OfCall { call: &call, added: AttributeMap::new().with(Attribute::custom("account"), "alice") };
        for (name, expected) in [
            ("header['X-Tier']", Some("vip")),
            ("header['x-many']", Some("a, b")),
            ("header['x-other']", None),
            ("query['q']", Some("a b c")),
            ("query['käse']", Some("1")),
            ("query['none']", None),
            ("cookie['sid']", Some("two=2")),
            ("cookie['q']", Some("q")),
            ("cookie['x']", None),
            ("account", Some("alice")),
            ("other", None),
        ] {
            assert_eq!(of_call.get(&name.parse().unwrap()).as_deref(), expected, "{name}");
        }
    }
}

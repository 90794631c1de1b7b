//! An outgoing call, as seen by rules.

use std::borrow::Cow;

use http::uri::Uri;
use http::{HeaderMap, Method, header};
use sluicegate_engine::rule::{Attribute, AttributeMap, Attributes, Direction, Request};
use sluicegate_http_adapter::attributes::request_attribute;

/// An outgoing call, borrowed from the client's request.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The method.
    pub method: &'a Method,
    /// `https`, if it is known.
    pub scheme: Option<&'a str>,
    /// The host, without port; empty if it is not known.
    pub host: &'a str,
    /// The port, if present.
    pub port: Option<u16>,
    /// The path, without the query.
    pub path: &'a str,
    /// The query, without the question mark.
    pub query: Option<&'a str>,
    /// The headers.
    pub headers: &'a HeaderMap,
}

impl<'a> Call<'a> {
    /// The call of an `http` request. Without a host in its URI, the `Host`
    /// header names it.
    pub fn new(method: &'a Method, uri: &'a Uri, headers: &'a HeaderMap) -> Self {
        let in_header =
            || split_port(headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default());
        let (host, port) = uri.host().map_or_else(in_header, |host| (host, uri.port_u16()));
        Self { method, scheme: uri.scheme_str(), host, port, path: uri.path(), query: uri.query(), headers }
    }

    /// The normalized host.
    pub(super) fn host_name(&self) -> String {
        authority(self.host, None)
    }

    /// Normalized host and port: identifies destinations without a service name.
    pub fn authority(&self) -> String {
        let default_port = match self.scheme {
            Some("http") => Some(80),
            Some("https") => Some(443),
            _ => None,
        };
        authority(self.host, self.port.or(default_port))
    }

    /// The engine's view of the call; `path` is its normalized path.
    pub(super) fn describe<'r>(
        &self,
        service: &'r str,
        path: &'r str,
        attributes: &'r CallAttributes<'r>,
    ) -> Request<'r>
    where
        'a: 'r,
    {
        Request::new(self.method.as_str(), path)
            .with_direction(Direction::Outbound)
            .with_service(service)
            .with_host(self.host)
            .with_attributes(attributes)
    }
}

/// Normalizes a host with an optional port.
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

/// Attributes of a call: those added by the program, then those of the request itself.
pub(super) struct CallAttributes<'a> {
    pub(super) call: &'a Call<'a>,
    pub(super) added: AttributeMap,
}

impl Attributes for CallAttributes<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Cow<'_, str>> {
        self.added.get(attribute).or_else(|| request_attribute(attribute, self.call.headers, self.call.query))
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
    fn equivalent_spellings_are_one_destination() {
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
    fn attributes_are_read_from_the_request() {
        let mut headers = HeaderMap::new();
        headers.insert("x-tier", "vip".parse().unwrap());
        headers.append("x-many", "a".parse().unwrap());
        headers.append("x-many", "b".parse().unwrap());
        headers.insert(header::COOKIE, "a=1; sid=two%3D2; q=\"q\"".parse().unwrap());
        let uri = "/x?q=a%20b+c&empty&k%C3%A4se=1".parse().unwrap();
        let call = Call::new(&Method::GET, &uri, &headers);
        let of_call =
            CallAttributes { call: &call, added: AttributeMap::new().with(Attribute::custom("account"), "alice") };
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

//! A request, as far as rules look at it.
//!
//! An adapter fills a [`Request`] with what it borrowed from the wire, and answers for the rest through
//! [`Attributes`]: headers and cookies are only looked up if a rule asks for them.
//!
//! An attribute with an empty value counts as absent, everywhere: in keys, conditions and lists. Users
//! of nginx and Envoy know it so; there, too, an empty key is not limited. Otherwise all clients that
//! send an empty `x-account` would be counted as one account.
//!
//! ```
//! use sluicegate_engine::rule::{Attribute, AttributeMap, Params, Request};
//!
//! let attributes = AttributeMap::new().with(Attribute::header("X-Tier"), "vip");
//! let request = Request::new("GET", "/items")
//!     .with_client_ip("::ffff:203.0.113.9".parse::<std::net::IpAddr>()?)
//!     .with_attributes(&attributes);
//!
//! let value = |name: &str| request.value(&name.parse().unwrap(), &Params::new()).map(|v| v.into_owned());
//! assert_eq!(value("header['x-tier']").as_deref(), Some("vip"));
//! assert_eq!(value("client.ip").as_deref(), Some("203.0.113.9")); // an IPv4 address, however it arrived
//! assert_eq!(value("host"), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use super::{Attribute, Params};

/// Whether a request comes in or goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Side {
    /// Somebody calls us.
    #[default]
    Inbound,
    /// We call somebody.
    Outbound,
    /// A proxy asks about a request it describes by entries, as Envoy's rate limit filter does. Rules of the
    /// other sides never see it: one request may be described several times.
    Descriptor,
}

/// Where a request's further attributes are looked up: headers, query, cookies, whatever an adapter
/// knows under a name.
pub trait Attributes {
    /// The value of an attribute, if the request has it.
    fn get(&self, attribute: &Attribute) -> Option<Cow<'_, str>>;
}

/// A request, borrowed from whatever came over the wire.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Coming in or going out.
    pub side: Side,
    /// The service called.
    pub service: &'a str,
    /// The method.
    pub method: &'a str,
    /// The host asked for.
    pub host: &'a str,
    /// The path, without the query.
    pub path: &'a str,
    /// The client's address.
    pub client_ip: Option<IpAddr>,
    /// What the request costs, before rules multiply it.
    pub cost: u64,
    /// Everything else.
    pub attributes: &'a dyn Attributes,
}

impl<'a> Request<'a> {
    /// An incoming request of cost 1 about which nothing else is known.
    pub fn new(method: &'a str, path: &'a str) -> Self {
        Self {
            side: Side::Inbound,
            service: "",
            method,
            host: "",
            path,
            client_ip: None,
            cost: 1,
            attributes: &NoAttributes,
        }
    }

    /// Coming in or going out.
    pub fn with_side(self, side: Side) -> Self {
        Self { side, ..self }
    }

    /// The service called.
    pub fn with_service(self, service: &'a str) -> Self {
        Self { service, ..self }
    }

    /// The host asked for.
    pub fn with_host(self, host: &'a str) -> Self {
        Self { host, ..self }
    }

    /// The client's address.
    pub fn with_client_ip(self, client_ip: impl Into<IpAddr>) -> Self {
        Self { client_ip: Some(client_ip.into()), ..self }
    }

    /// What it costs.
    pub fn with_cost(self, cost: u64) -> Self {
        Self { cost, ..self }
    }

    /// Everything else.
    pub fn with_attributes(self, attributes: &'a dyn Attributes) -> Self {
        Self { attributes, ..self }
    }

    /// The client's address; an IPv4 address mapped into IPv6 is an IPv4 address.
    #[inline]
    pub fn canonical_ip(&self) -> Option<IpAddr> {
        self.client_ip.map(|ip| ip.to_canonical())
    }

    /// The host as names are compared: in lower case, without port and without the root's final dot.
    pub fn host_name(&self) -> Cow<'a, str> {
        canonical_host(self.host)
    }

    /// The value of an attribute; `params` are those of the path pattern that matched. An empty value
    /// counts as none.
    pub fn value<'v>(&self, attribute: &Attribute, params: &'v Params<'_>) -> Option<Cow<'v, str>>
    where
        'a: 'v,
    {
        let value = match attribute {
            Attribute::ClientIp => return self.canonical_ip().map(|ip| Cow::Owned(ip.to_string())),
            Attribute::Service => Cow::Borrowed(self.service),
            Attribute::Method => Cow::Borrowed(self.method),
            Attribute::Host => self.host_name(),
            Attribute::Path => Cow::Borrowed(self.path),
            Attribute::Param(name) => Cow::Borrowed(params.get(name)?),
            Attribute::Header(_)
            | Attribute::Query(_)
            | Attribute::Cookie(_)
            | Attribute::Descriptor(_)
            | Attribute::Custom(_) => self.attributes.get(attribute)?,
        };
        (!value.is_empty()).then_some(value)
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("side", &self.side)
            .field("service", &self.service)
            .field("method", &self.method)
            .field("host", &self.host)
            .field("path", &self.path)
            .field("client_ip", &self.client_ip)
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}

/// A host in lower case, without port and without the root's final dot.
pub(super) fn canonical_host(host: &str) -> Cow<'_, str> {
    let name = match host.rsplit_once(':') {
        // The colons of an IPv6 address are inside brackets; what follows them is the port.
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.contains(':') | name.ends_with(']') => {
            name
        }
        _ => host,
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.bytes().any(|b| b.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    }
}

/// No further attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoAttributes;

impl Attributes for NoAttributes {
    fn get(&self, _: &Attribute) -> Option<Cow<'_, str>> {
        None
    }
}

/// Attributes in a map of their own, for whoever has no better place for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributeMap {
    values: BTreeMap<Attribute, String>,
}

impl AttributeMap {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more, or another value of one already there.
    #[must_use]
    pub fn with(mut self, attribute: Attribute, value: impl Into<String>) -> Self {
        self.insert(attribute, value);
        self
    }

    /// Adds one, or replaces its value.
    pub fn insert(&mut self, attribute: Attribute, value: impl Into<String>) {
        self.values.insert(attribute, value.into());
    }
}

impl Attributes for AttributeMap {
    fn get(&self, attribute: &Attribute) -> Option<Cow<'_, str>> {
        self.values.get(attribute).map(|value| Cow::Borrowed(value.as_str()))
    }
}

impl<V: Into<String>> FromIterator<(Attribute, V)> for AttributeMap {
    fn from_iter<I: IntoIterator<Item = (Attribute, V)>>(values: I) -> Self {
        Self { values: values.into_iter().map(|(attribute, value)| (attribute, value.into())).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_resolved_where_they_live() {
        let attributes =
            AttributeMap::new().with(Attribute::custom("account"), "alice").with(Attribute::custom("empty"), "");
        let request = Request::new("GET", "/x")
            .with_service("shop")
            .with_host("Shop.example:8080")
            .with_client_ip([203, 0, 113, 9])
            .with_attributes(&attributes);
        let mut params = Params::new();
        params.push("id", "7");
        params.push("rest", "");
        for (name, expected) in [
            ("client.ip", Some("203.0.113.9")),
            ("service", Some("shop")),
            ("method", Some("GET")),
            ("host", Some("shop.example")),
            ("path", Some("/x")),
            ("param['id']", Some("7")),
            ("param['other']", None),
            ("param['rest']", None),
            ("account", Some("alice")),
            ("empty", None),
            ("header['x']", None),
        ] {
            let attribute: Attribute = name.parse().unwrap();
            assert_eq!(request.value(&attribute, &params).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn an_address_is_the_same_however_it_arrived() {
        for (text, expected) in [("::ffff:1.2.3.4", "1.2.3.4"), ("2001:DB8:0::1", "2001:db8::1")] {
            let request = Request::new("", "").with_client_ip(text.parse::<IpAddr>().unwrap());
            assert_eq!(request.value(&Attribute::ClientIp, &Params::new()).as_deref(), Some(expected));
        }
    }

    #[test]
    fn hosts_are_compared_as_names() {
        for (host, name) in [
            ("shop.example", "shop.example"),
            ("SHOP.example.", "shop.example"),
            ("shop.example:80", "shop.example"),
            ("shop.example.:80", "shop.example"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("::1", "::1"),
            ("", ""),
            (":", ""),
        ] {
            assert_eq!(canonical_host(host), name, "{host}");
        }
    }
}

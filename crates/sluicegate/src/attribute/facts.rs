//! What a call tells a rule about itself.

use std::borrow::Cow;
use std::fmt::Display;
use std::net::IpAddr;

use sluicegate_engine::rule::{Attribute, Attributes, Request};

/// The name of an attribute, as an expansion can write it into a constant. The address of the client is
/// not among them, since it is no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// `service`
    Service,
    /// `method`
    Method,
    /// `host`
    Host,
    /// `path`
    Path,
    /// `header['x-tier']`, by its lower-case name.
    Header(&'static str),
    /// `query['q']`
    Query(&'static str),
    /// `cookie['sid']`
    Cookie(&'static str),
    /// Any other word.
    Custom(&'static str),
}

/// A value under its name. Texts are made only if a rule asks for them.
pub(super) type Fact<'a> = (Name, &'a dyn Display);

/// A value under its name.
pub fn fact(name: Name, value: &dyn Display) -> Fact<'_> {
    (name, value)
}

impl Name {
    fn is(self, attribute: &Attribute) -> bool {
        match (self, attribute) {
            (Self::Header(name), Attribute::Header(asked))
            | (Self::Query(name), Attribute::Query(asked))
            | (Self::Cookie(name), Attribute::Cookie(asked))
            | (Self::Custom(name), Attribute::Custom(asked)) => name == asked,
            _ => false,
        }
    }
}

/// What a call tells about itself.
#[derive(Clone, Copy)]
pub(super) struct Told<'a> {
    pub(super) cost: u64,
    /// Whether the function gives the client's address, and if so, the address if it is known.
    pub(super) client_ip: Option<Option<IpAddr>>,
    pub(super) facts: &'a [Fact<'a>],
}

impl Told<'_> {
    /// Whether the function gives this attribute, be it an empty text this time.
    pub(super) fn gives(&self, attribute: &Attribute) -> bool {
        let named = |wanted: Name| self.facts.iter().any(|(name, _)| *name == wanted);
        match attribute {
            Attribute::ClientIp => self.client_ip.is_some(),
            Attribute::Service => named(Name::Service),
            Attribute::Method => named(Name::Method),
            Attribute::Host => named(Name::Host),
            Attribute::Path => named(Name::Path),
            other => self.facts.iter().any(|(name, _)| name.is(other)),
        }
    }
}

struct Looked<'a>(&'a [Fact<'a>]);

impl Attributes for Looked<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Cow<'_, str>> {
        let (_, value) = self.0.iter().find(|(name, _)| name.is(attribute))?;
        Some(Cow::Owned(value.to_string()))
    }
}

/// Has a call looked at as a request.
pub(super) fn as_request<R>(told: Told<'_>, look: impl FnOnce(&Request<'_>) -> R) -> R {
    let Told { cost, client_ip, facts } = told;
    let text = |wanted: Name| facts.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.to_string());
    let [service, method, host, path] =
        [Name::Service, Name::Method, Name::Host, Name::Path].map(|name| text(name).unwrap_or_default());
    let looked = Looked(facts);
    let mut request =
        Request::new(&method, &path).with_service(&service).with_host(&host).with_cost(cost).with_attributes(&looked);
    request.client_ip = client_ip.flatten();
    look(&request)
}

#[cfg(test)]
mod tests {
    use sluicegate_engine::rule::Params;

    use super::*;

    #[test]
    fn every_name_is_found_under_its_attribute_and_no_other() {
        let facts: [Fact<'_>; 8] = [
            (Name::Service, &"shop"),
            (Name::Method, &"PUT"),
            (Name::Host, &"example.com"),
            (Name::Path, &"/x"),
            (Name::Header("x-tier"), &"vip"),
            (Name::Query("q"), &7),
            (Name::Cookie("sid"), &'c'),
            (Name::Custom("account"), &"alice"),
        ];
        let told = Told { cost: 3, client_ip: Some(Some([203, 0, 113, 9].into())), facts: &facts };
        as_request(told, |request| {
            assert_eq!(request.cost, 3);
            for (name, expected) in [
                ("service", Some("shop")),
                ("method", Some("PUT")),
                ("host", Some("example.com")),
                ("path", Some("/x")),
                ("header['X-Tier']", Some("vip")),
                ("query['q']", Some("7")),
                ("cookie['sid']", Some("c")),
                ("account", Some("alice")),
                ("client.ip", Some("203.0.113.9")),
                ("query['sid']", None),
                ("q", None),
            ] {
                let value = request.value(&name.parse().unwrap(), &Params::new()).map(Cow::into_owned);
                assert_eq!(value.as_deref(), expected, "{name}");
                assert_eq!(told.gives(&name.parse().unwrap()), expected.is_some(), "{name}");
            }
        });
    }
}

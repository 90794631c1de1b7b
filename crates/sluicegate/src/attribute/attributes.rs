//! Attributes of a call that a rule can use.

use std::borrow::Cow;
use std::fmt::Display;
use std::net::IpAddr;

use sluicegate_engine::rule::{Attribute, Attributes, Request};

/// Name of an attribute, in a form that is valid in a constant. The client address is not included, because it is
/// not text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeName {
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
    /// Any other name.
    Custom(&'static str),
}

/// Name and value of an attribute. The value is formatted only if a rule uses it.
pub(super) type AttributeValue<'a> = (AttributeName, &'a dyn Display);

/// Pairs a name with a value.
pub fn attribute_value(name: AttributeName, value: &dyn Display) -> AttributeValue<'_> {
    (name, value)
}

impl AttributeName {
    fn matches(self, attribute: &Attribute) -> bool {
        match (self, attribute) {
            (Self::Header(name), Attribute::Header(requested))
            | (Self::Query(name), Attribute::Query(requested))
            | (Self::Cookie(name), Attribute::Cookie(requested))
            | (Self::Custom(name), Attribute::Custom(requested)) => name == requested,
            _ => false,
        }
    }
}

/// Cost, client address and attributes of a call.
#[derive(Clone, Copy)]
pub(super) struct CallAttributes<'a> {
    pub(super) cost: u64,
    /// `None` if the function does not pass a client address; `Some(None)` if the address is unknown.
    pub(super) client_ip: Option<Option<IpAddr>>,
    pub(super) values: &'a [AttributeValue<'a>],
}

impl CallAttributes<'_> {
    /// True if the function passes this attribute, even with an empty value.
    pub(super) fn provides(&self, attribute: &Attribute) -> bool {
        let named = |wanted: AttributeName| self.values.iter().any(|(name, _)| *name == wanted);
        match attribute {
            Attribute::ClientIp => self.client_ip.is_some(),
            Attribute::Service => named(AttributeName::Service),
            Attribute::Method => named(AttributeName::Method),
            Attribute::Host => named(AttributeName::Host),
            Attribute::Path => named(AttributeName::Path),
            other => self.values.iter().any(|(name, _)| name.matches(other)),
        }
    }
}

struct AttributeLookup<'a>(&'a [AttributeValue<'a>]);

impl Attributes for AttributeLookup<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Cow<'_, str>> {
        let (_, value) = self.0.iter().find(|(name, _)| name.matches(attribute))?;
        Some(Cow::Owned(value.to_string()))
    }
}

/// Calls `inspect` with the call as a request.
pub(super) fn as_request<R>(attributes: CallAttributes<'_>, inspect: impl FnOnce(&Request<'_>) -> R) -> R {
    let CallAttributes { cost, client_ip, values } = attributes;
    let text =
        |wanted: AttributeName| values.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.to_string());
    let [service, method, host, path] =
        [AttributeName::Service, AttributeName::Method, AttributeName::Host, AttributeName::Path]
            .map(|name| text(name).unwrap_or_default());
    let lookup = AttributeLookup(values);
    let mut request =
        Request::new(&method, &path).with_service(&service).with_host(&host).with_cost(cost).with_attributes(&lookup);
    request.client_ip = client_ip.flatten();
    inspect(&request)
}

#[cfg(test)]
mod tests {
    use sluicegate_engine::rule::Params;

    use super::*;

    #[test]
    fn each_name_matches_only_its_own_attribute() {
        let values: [AttributeValue<'_>; 8] = [
            (AttributeName::Service, &"shop"),
            (AttributeName::Method, &"PUT"),
            (AttributeName::Host, &"example.com"),
            (AttributeName::Path, &"/x"),
            (AttributeName::Header("x-tier"), &"vip"),
            (AttributeName::Query("q"), &7),
            (AttributeName::Cookie("sid"), &'c'),
            (AttributeName::Custom("account"), &"alice"),
        ];
        let attributes = CallAttributes { cost: 3, client_ip: Some(Some([203, 0, 113, 9].into())), values: &values };
        as_request(attributes, |request| {
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
                assert_eq!(attributes.provides(&name.parse().unwrap()), expected.is_some(), "{name}");
            }
        });
    }
}

//! A request, as far as rules look at it.

use std::borrow::Cow;
use std::net::IpAddr;

use super::Attribute;

/// Whether a request comes in or goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Side {
    /// Somebody calls us.
    #[default]
    Inbound,
    /// We call somebody.
    Outbound,
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

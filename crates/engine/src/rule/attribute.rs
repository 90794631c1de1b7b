//! What a request can be told apart by.

/// A named property of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Attribute {
    /// The client's address, as the adapter established it: `client.ip`.
    ClientIp,
    /// The service called: `service`.
    Service,
    /// The method: `method`.
    Method,
    /// The host asked for: `host`.
    Host,
    /// The path: `path`.
    Path,
    /// A header, by its lower-case name: `header['x-tier']`.
    Header(String),
    /// A query parameter: `query['q']`.
    Query(String),
    /// A cookie: `cookie['sid']`.
    Cookie(String),
    /// A parameter of the matched path pattern: `param['id']`.
    Param(String),
    /// Anything else the adapter provides, by name: `account`, `api_key`, `jwt.sub`.
    Custom(String),
}

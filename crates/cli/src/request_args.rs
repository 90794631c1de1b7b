//! Request described by command-line flags: validated flag by flag, then assembled.

use std::net::IpAddr;

use clap::Args;
use sluicegate_engine::rule::{Attribute, AttributeMap, Direction, Request};
use sluicegate_http_client::parse_header;

// Flags that describe a request. Not a doc comment: clap would take it as the description of the command.
#[derive(Debug, Args)]
pub(crate) struct RequestArgs {
    /// Method and path, optionally with a query: 'POST /api/orders?draft=1'
    #[arg(long, value_name = "METHOD PATH", value_parser = parse_request_line, required_unless_present = "descriptor")]
    pub(crate) request: Option<RequestLine>,
    /// Descriptor entry, as a proxy sends it to the decision server; may be repeated. Set the domain with --service
    #[arg(long = "descriptor", value_name = "KEY=VALUE", value_parser = parse_descriptor_entry, conflicts_with_all = ["request", "outbound"])]
    pub(crate) descriptor: Vec<(String, String)>,
    /// Client IP address
    #[arg(long, value_parser = parse_ip)]
    pub(crate) ip: Option<IpAddr>,
    /// Request header; may be repeated
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = parse_header)]
    pub(crate) headers: Vec<(String, String)>,
    /// Cookie; may be repeated
    #[arg(long = "cookie", value_name = "NAME=VALUE", value_parser = parse_cookie)]
    pub(crate) cookies: Vec<(String, String)>,
    /// Any other attribute that rules use; may be repeated
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = parse_attribute)]
    pub(crate) attributes: Vec<(String, String)>,
    /// Host of the request; also taken from a Host header
    #[arg(long)]
    pub(crate) host: Option<String>,
    /// Name of the called service
    #[arg(long)]
    pub(crate) service: Option<String>,
    /// Explain an outbound call, with the client-side rules
    #[arg(long)]
    pub(crate) outbound: bool,
    /// Cost of the request, before rules multiply it
    #[arg(long, default_value_t = 1, value_name = "N", allow_negative_numbers = true, value_parser = parse_cost)]
    pub(crate) cost: u64,
}

/// Method, path and query of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestLine {
    pub(crate) method: String,
    pub(crate) path: String,
    query: String,
}

/// An owned request that the engine's `Request` borrows from.
pub(crate) struct RequestSpec {
    line: RequestLine,
    direction: Direction,
    host: String,
    service: String,
    ip: Option<IpAddr>,
    cost: u64,
    attributes: AttributeMap,
    /// Descriptor entries in order.
    entries: Vec<(String, String)>,
}

/// Parses `POST /api/orders?draft=1`.
pub(crate) fn parse_request_line(text: &str) -> Result<RequestLine, String> {
    let mut words = text.split_whitespace();
    let (method, target) = match (words.next(), words.next(), words.next()) {
        (Some(path), None, _) if path.starts_with('/') => {
            return Err(format!("missing method: write 'GET {path}'"));
        }
        (Some(method), None, _) => return Err(format!("missing path: write '{method} /path'")),
        (Some(method), Some(target), None) => (method, target),
        (None, ..) => return Err("empty value: write method and path, such as 'GET /api/orders'".to_owned()),
        _ => return Err("expected only method and path; encode a space as %20".to_owned()),
    };
    if !method.bytes().all(|b| b.is_ascii_uppercase() || b == b'-') {
        let upper = method.to_ascii_uppercase();
        return Err(format!("methods are uppercase: did you mean '{upper} {target}'?"));
    }
    if !target.starts_with('/') && target != "*" {
        return Err(format!("the path '{target}' must start with /; set the host with --host"));
    }
    let target = target.split('#').next().unwrap_or(target);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Ok(RequestLine { method: method.to_owned(), path: path.to_owned(), query: query.to_owned() })
}

/// Parses an IP address.
pub(crate) fn parse_ip(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| {
        "not an IP address: expected an address such as 203.0.113.9 or 2001:db8::1, without port".to_owned()
    })
}

/// Parses a cost.
pub(crate) fn parse_cost(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "the cost must be an integer of at least 0".to_owned())
}

/// Parses `sid=1`.
pub(crate) fn parse_cookie(text: &str) -> Result<(String, String), String> {
    parse_pair(text, "sid=1")
}

/// Parses `account=alice`.
pub(crate) fn parse_attribute(text: &str) -> Result<(String, String), String> {
    let (name, value) = parse_pair(text, "account=alice")?;
    match name.parse::<Attribute>().map_err(|error| error.to_string())? {
        Attribute::Custom(name) => Ok((name, value)),
        known => {
            let flag = match known {
                Attribute::ClientIp => "--ip",
                Attribute::Service => "--service",
                Attribute::Host => "--host",
                Attribute::Header(_) => "--header",
                Attribute::Cookie(_) => "--cookie",
                _ => "--request",
            };
            Err(format!("use {flag} to set {known}"))
        }
    }
}

/// Parses `remote_address=10.0.0.1`.
pub(crate) fn parse_descriptor_entry(text: &str) -> Result<(String, String), String> {
    parse_pair(text, "remote_address=10.0.0.1")
}

fn parse_pair(text: &str, example: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.to_owned())),
        Some(_) => Err(format!("missing name: write 'name=value', such as '{example}'")),
        None => Err(format!("missing =: write 'name=value', such as '{example}'")),
    }
}

impl RequestSpec {
    /// A request with only method, path and query.
    pub(crate) fn new(line: RequestLine) -> Self {
        let mut attributes = AttributeMap::new();
        for (name, value) in parse_query(&line.query).into_iter().rev() {
            // The first of several values wins: it is inserted last.
            attributes.insert(Attribute::Query(name), value);
        }
        let (host, service) = (String::new(), String::new());
        Self { line, direction: Direction::Inbound, host, service, ip: None, cost: 1, attributes, entries: Vec::new() }
    }

    /// A request described by descriptor entries.
    fn from_descriptor(entries: &[(String, String)]) -> Self {
        let mut spec = Self::new(RequestLine { method: String::new(), path: String::new(), query: String::new() });
        spec.direction = Direction::Descriptor;
        for (key, value) in entries {
            if key == "remote_address" {
                spec.ip = value.parse().ok();
            }
            spec.attributes.insert(Attribute::Descriptor(key.clone()), value);
        }
        spec.entries = entries.to_vec();
        spec
    }

    /// Descriptor entries, if any.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        self.entries.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Descriptor domain, if any.
    pub(crate) fn domain(&self) -> Option<&str> {
        (self.direction == Direction::Descriptor).then_some(self.service.as_str())
    }

    /// Builds the request from the arguments.
    pub(crate) fn from_args(args: &RequestArgs) -> Self {
        let mut spec = match &args.request {
            Some(line) => Self::new(line.clone()),
            None => Self::from_descriptor(&args.descriptor),
        };
        if args.outbound {
            spec.direction = Direction::Outbound;
        }
        spec.ip = args.ip.or(spec.ip);
        spec.cost = args.cost;
        spec.service = args.service.clone().unwrap_or_default();
        let mut headers: Vec<(String, String)> = Vec::new();
        for (name, value) in &args.headers {
            match headers.iter_mut().find(|(known, _)| known == name) {
                Some((_, first)) => *first = format!("{first}, {value}"),
                None => headers.push((name.clone(), value.clone())),
            }
        }
        let named = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        spec.host = args.host.as_deref().or_else(|| named("host")).unwrap_or_default().to_owned();
        let sent = named("cookie").unwrap_or_default().split(';').filter_map(|cookie| parse_pair(cookie, "").ok());
        let cookies: Vec<_> = sent.chain(args.cookies.iter().cloned()).collect();
        for (name, value) in cookies {
            spec.attributes.insert(Attribute::Cookie(name), value);
        }
        for (name, value) in headers {
            spec.attributes.insert(Attribute::Header(name), value);
        }
        for (name, value) in &args.attributes {
            spec.insert(name, value);
        }
        spec
    }

    /// Sets the client IP address.
    pub(crate) fn with_ip(mut self, ip: impl Into<IpAddr>) -> Self {
        self.ip = Some(ip.into());
        self
    }

    /// Sets an attribute by name.
    pub(crate) fn insert(&mut self, name: &str, value: &str) {
        self.attributes.insert(Attribute::custom(name), value);
    }

    /// The request for the engine.
    pub(crate) fn request(&self) -> Request<'_> {
        let request = Request::new(&self.line.method, &self.line.path)
            .with_direction(self.direction)
            .with_host(&self.host)
            .with_service(&self.service)
            .with_cost(self.cost)
            .with_attributes(&self.attributes);
        match self.ip {
            Some(ip) => request.with_client_ip(ip),
            None => request,
        }
    }

    /// Method and path.
    pub(crate) fn title(&self) -> String {
        match self.domain() {
            None => format!("{} {}", self.line.method, self.line.path),
            Some(domain) => {
                let entries: Vec<String> = self.entries().map(|(key, value)| format!("{key}={value}")).collect();
                let of = if domain.is_empty() { String::new() } else { format!(" in domain {domain}") };
                format!("descriptor {}{of}", entries.join(", "))
            }
        }
    }
}

/// Parses the parameters of a query and decodes `%20` and `+`. Invalid escapes stay unchanged.
fn parse_query(text: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            parse_query("q=red+shoes&p=%C3%A9&flag&%zz=%"),
            [pair("q", "red shoes"), pair("p", "\u{e9}"), pair("flag", ""), pair("%zz", "%"),]
        );
        assert!(parse_query("").is_empty());
    }

    #[test]
    fn first_query_value_wins() {
        let spec = RequestSpec::new(parse_request_line("GET /?page=1&page=2").unwrap());
        let page = "query['page']".parse().unwrap();
        assert_eq!(spec.request().value(&page, &Default::default()).as_deref(), Some("1"));
    }
}

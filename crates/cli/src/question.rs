//! The request that is asked about: arguments checked one by one, then put together.

use std::net::IpAddr;

use sluicegate_engine::rule::{Attribute, AttributeMap, Request, Side};

use crate::args::Explain;

/// Method, path and query of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) method: String,
    pub(crate) path: String,
    query: String,
}

/// A request with everything it owns, for the engine to borrow from.
pub(crate) struct Question {
    line: Line,
    side: Side,
    host: String,
    service: String,
    ip: Option<IpAddr>,
    cost: u64,
    attributes: AttributeMap,
    /// The entries of a descriptor, in their order.
    entries: Vec<(String, String)>,
}

/// Reads `POST /api/orders?draft=1`.
pub(crate) fn line(text: &str) -> Result<Line, String> {
    let mut words = text.split_whitespace();
    let (method, target) = match (words.next(), words.next(), words.next()) {
        (Some(path), None, _) if path.starts_with('/') => {
            return Err(format!("the method is missing: write 'GET {path}'"));
        }
        (Some(method), None, _) => return Err(format!("the path is missing: write '{method} /path'")),
        (Some(method), Some(target), None) => (method, target),
        (None, ..) => return Err("it is empty: write method and path, such as 'GET /api/orders'".to_owned()),
        _ => return Err("it has more than two words: write method and path; encode a space as %20".to_owned()),
    };
    if !method.bytes().all(|b| b.is_ascii_uppercase() || b == b'-') {
        let meant = method.to_ascii_uppercase();
        return Err(format!("methods are written in capital letters: did you mean '{meant} {target}'?"));
    }
    if !target.starts_with('/') && target != "*" {
        return Err(format!("the path must begin with /: '{target}' does not; give the host with --host"));
    }
    let target = target.split('#').next().unwrap_or(target);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Ok(Line { method: method.to_owned(), path: path.to_owned(), query: query.to_owned() })
}

/// Reads an address.
pub(crate) fn ip(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| "it is no address: write one such as 203.0.113.9 or 2001:db8::1, without port".to_owned())
}

/// Reads a cost.
pub(crate) fn cost(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "a cost is a whole number from 0 on, such as 1".to_owned())
}

/// Reads `x-tier: vip`.
pub(crate) fn header(text: &str) -> Result<(String, String), String> {
    let Some((name, value)) = text.split_once(':') else {
        return Err("the colon is missing: write 'name: value', such as 'x-tier: vip'".to_owned());
    };
    let name = name.trim();
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)) {
        return Err("what stands before the colon is no header name: letters, digits and - only".to_owned());
    }
    if value.bytes().any(|b| b.is_ascii_control()) {
        return Err("a header's value has no line breaks or control characters".to_owned());
    }
    Ok((name.to_ascii_lowercase(), value.trim().to_owned()))
}

/// Reads `sid=1`.
pub(crate) fn cookie(text: &str) -> Result<(String, String), String> {
    pair(text, "sid=1")
}

/// Reads `account=alice`.
pub(crate) fn attribute(text: &str) -> Result<(String, String), String> {
    let (name, value) = pair(text, "account=alice")?;
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
            Err(format!("{known} has a flag of its own: {flag}"))
        }
    }
}

/// Reads `remote_address=10.0.0.1`.
pub(crate) fn entry(text: &str) -> Result<(String, String), String> {
    pair(text, "remote_address=10.0.0.1")
}

fn pair(text: &str, example: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.to_owned())),
        Some(_) => Err(format!("the name is missing: write 'name=value', such as '{example}'")),
        None => Err(format!("the = is missing: write 'name=value', such as '{example}'")),
    }
}

impl Question {
    /// A request of a method and path, about which nothing else is known.
    pub(crate) fn new(line: Line) -> Self {
        let mut attributes = AttributeMap::new();
        for (name, value) in query(&line.query).into_iter().rev() {
            // Of several values the first counts: it was inserted last.
            attributes.insert(Attribute::Query(name), value);
        }
        let (host, service) = (String::new(), String::new());
        Self { line, side: Side::Inbound, host, service, ip: None, cost: 1, attributes, entries: Vec::new() }
    }

    /// A request that a proxy describes by these entries.
    fn described(entries: &[(String, String)]) -> Self {
        let mut question = Self::new(Line { method: String::new(), path: String::new(), query: String::new() });
        question.side = Side::Descriptor;
        for (key, value) in entries {
            if key == "remote_address" {
                question.ip = value.parse().ok();
            }
            question.attributes.insert(Attribute::Descriptor(key.clone()), value);
        }
        question.entries = entries.to_vec();
        question
    }

    /// The entries of the descriptor, if it is one.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        self.entries.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The domain of the descriptor, if it is one.
    pub(crate) fn domain(&self) -> Option<&str> {
        (self.side == Side::Descriptor).then_some(self.service.as_str())
    }

    /// The request that the arguments describe.
    pub(crate) fn from_args(args: &Explain) -> Self {
        let mut question = match &args.request {
            Some(line) => Self::new(line.clone()),
            None => Self::described(&args.descriptor),
        };
        if args.outbound {
            question.side = Side::Outbound;
        }
        question.ip = args.ip.or(question.ip);
        question.cost = args.cost;
        question.service = args.service.clone().unwrap_or_default();
        let mut headers: Vec<(String, String)> = Vec::new();
        for (name, value) in &args.headers {
            match headers.iter_mut().find(|(known, _)| known == name) {
                Some((_, first)) => *first = format!("{first}, {value}"),
                None => headers.push((name.clone(), value.clone())),
            }
        }
        let named = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        question.host = args.host.as_deref().or_else(|| named("host")).unwrap_or_default().to_owned();
        let sent = named("cookie").unwrap_or_default().split(';').filter_map(|cookie| pair(cookie, "").ok());
        let cookies: Vec<_> = sent.chain(args.cookies.iter().cloned()).collect();
        for (name, value) in cookies {
            question.attributes.insert(Attribute::Cookie(name), value);
        }
        for (name, value) in headers {
            question.attributes.insert(Attribute::Header(name), value);
        }
        for (name, value) in &args.attributes {
            question.insert(name, value);
        }
        question
    }

    /// The same request from this address.
    pub(crate) fn with_ip(mut self, ip: impl Into<IpAddr>) -> Self {
        self.ip = Some(ip.into());
        self
    }

    /// Adds an attribute by its name.
    pub(crate) fn insert(&mut self, name: &str, value: &str) {
        self.attributes.insert(Attribute::custom(name), value);
    }

    /// What the engine is asked.
    pub(crate) fn request(&self) -> Request<'_> {
        let request = Request::new(&self.line.method, &self.line.path)
            .with_side(self.side)
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
                let of = if domain.is_empty() { String::new() } else { format!(" of {domain}") };
                format!("descriptor {}{of}", entries.join(", "))
            }
        }
    }
}

/// The parameters of a query, decoded.
fn query(text: &str) -> Vec<(String, String)> {
    let parts = text.split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (decoded(name), decoded(value))
        })
        .collect()
}

/// A text with `%20` and `+` undone. What is not a code is left as it is.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
        match (first, tail) {
            (b'%', [high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                bytes.extend(code(&[*high, *low]));
                rest = after;
            }
            (b'+', _) => {
                bytes.push(b' ');
                rest = tail;
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            query("q=red+shoes&p=%C3%A9&flag&%zz=%"),
            [pair("q", "red shoes"), pair("p", "\u{e9}"), pair("flag", ""), pair("%zz", "%"),]
        );
        assert!(query("").is_empty());
    }

    #[test]
    fn the_first_of_several_values_counts() {
        let question = Question::new(line("GET /?page=1&page=2").unwrap());
        let page = "query['page']".parse().unwrap();
        assert_eq!(question.request().value(&page, &Default::default()).as_deref(), Some("1"));
    }
}

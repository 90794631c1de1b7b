//! The request that is asked about.

use std::net::IpAddr;

use serde::Deserialize;
use sluicegate_engine::rule::{Attribute, AttributeMap, Request, Side};
use sluicegate_http::normal_path;

use crate::http::fields::Pairs;
use crate::http::problem::{Kind, Problem, shown};

/// A request as it is described in a call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Question {
    #[serde(default)]
    method: String,
    #[serde(default)]
    path: String,
    ip: Option<String>,
    #[serde(default)]
    host: String,
    #[serde(default)]
    headers: Pairs,
    #[serde(default)]
    cookies: Pairs,
    #[serde(default)]
    attributes: Pairs,
    side: Option<String>,
    #[serde(default)]
    service: String,
    #[serde(default)]
    descriptor: Vec<(String, String)>,
    cost: Option<u64>,
}

/// The same, understood.
pub(super) struct Asked {
    method: String,
    path: String,
    host: String,
    service: String,
    side: Side,
    ip: Option<IpAddr>,
    cost: u64,
    attributes: AttributeMap,
}

impl Question {
    /// Understands it, or says what makes no sense.
    pub(super) fn checked(self) -> Result<Asked, Problem> {
        let side = side(self.side.as_deref(), !self.descriptor.is_empty())?;
        let mut ip = self.ip.as_deref().map(|text| address(text, "/ip")).transpose()?;
        let (path, query) = self.path.split_once('?').unwrap_or((&self.path, ""));
        if side == Side::Inbound && !path.starts_with('/') && path != "*" {
            let detail = format!("{} is no path: it must begin with /", shown(path));
            return Err(Problem::new(Kind::Unprocessable, detail).at("/path"));
        }
        let mut attributes = AttributeMap::new();
        let parameters: Vec<_> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        for (name, value) in parameters.into_iter().rev() {
            // Of several values the first counts: it is inserted last.
            attributes.insert(Attribute::Query(name), value);
        }
        let mut host = self.host;
        for (name, value) in self.headers.0 {
            if host.is_empty() && name.eq_ignore_ascii_case("host") {
                host.clone_from(&value);
            }
            attributes.insert(Attribute::header(name), value);
        }
        for (name, value) in self.cookies.0 {
            attributes.insert(Attribute::Cookie(name), value);
        }
        for (name, value) in self.attributes.0 {
            attributes.insert(Attribute::custom(name), value);
        }
        for (at, (key, value)) in self.descriptor.into_iter().enumerate() {
            if key == "remote_address" && ip.is_none() {
                ip = Some(address(&value, &format!("/descriptor/{at}/1"))?);
            }
            attributes.insert(Attribute::Descriptor(key), value);
        }
        let path = if path.is_empty() { String::new() } else { normal_path(path).into_owned() };
        Ok(Asked {
            method: self.method,
            path,
            host,
            service: self.service,
            side,
            ip,
            cost: self.cost.unwrap_or(1),
            attributes,
        })
    }
}

impl Asked {
    /// What the engine is asked.
    pub(super) fn request(&self) -> Request<'_> {
        let request = Request::new(&self.method, &self.path)
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
}

fn side(text: Option<&str>, is_described: bool) -> Result<Side, Problem> {
    match text {
        None if is_described => Ok(Side::Descriptor),
        None | Some("inbound") => Ok(Side::Inbound),
        Some("outbound") => Ok(Side::Outbound),
        Some("descriptor") => Ok(Side::Descriptor),
        Some(other) => {
            let detail = format!("{} is no side: write inbound, outbound or descriptor", shown(other));
            Err(Problem::new(Kind::Unprocessable, detail).at("/side"))
        }
    }
}

fn address(text: &str, at: &str) -> Result<IpAddr, Problem> {
    let detail = || format!("{} is no address: write one such as 203.0.113.9 or 2001:db8::1", shown(text));
    text.parse().map_err(|_| Problem::new(Kind::Unprocessable, detail()).at(at))
}

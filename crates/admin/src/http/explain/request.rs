//! Request description of an explain call.

use std::net::IpAddr;

use serde::Deserialize;
use sluicegate_engine::rule::{Attribute, AttributeMap, Direction, Request};
use sluicegate_http_adapter::normalize_path;
use utoipa::ToSchema;

use crate::http::fields::StringPairs;
use crate::http::problem::{Problem, ProblemKind, quote_input};
use crate::http::rules::DirectionName;

/// A request as described in the body.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ExplainRequest {
    #[serde(default)]
    method: String,
    /// Path with its query.
    #[serde(default)]
    path: String,
    ip: Option<String>,
    #[serde(default)]
    host: String,
    #[serde(default)]
    headers: StringPairs,
    #[serde(default)]
    cookies: StringPairs,
    #[serde(default)]
    attributes: StringPairs,
    #[schema(value_type = Option<DirectionName>)]
    direction: Option<String>,
    #[serde(default)]
    service: String,
    #[serde(default)]
    descriptor: Vec<(String, String)>,
    cost: Option<u64>,
}

/// A validated request description.
pub(super) struct ParsedRequest {
    method: String,
    path: String,
    host: String,
    service: String,
    direction: Direction,
    ip: Option<IpAddr>,
    cost: u64,
    attributes: AttributeMap,
}

impl ExplainRequest {
    /// Validates the description.
    pub(super) fn parse(self) -> Result<ParsedRequest, Problem> {
        let direction = parse_direction(self.direction.as_deref(), !self.descriptor.is_empty())?;
        let mut ip = self.ip.as_deref().map(|text| parse_address(text, "/ip")).transpose()?;
        let (path, query) = self.path.split_once('?').unwrap_or((&self.path, ""));
        if direction == Direction::Inbound && !path.starts_with('/') && path != "*" {
            let detail = format!("invalid path {}: it must start with /", quote_input(path));
            return Err(Problem::new(ProblemKind::Unprocessable, detail).at("/path"));
        }
        let mut attributes = AttributeMap::new();
        let parameters: Vec<_> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        for (name, value) in parameters.into_iter().rev() {
            // The first of several values counts, so it is inserted last.
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
                ip = Some(parse_address(&value, &format!("/descriptor/{at}/1"))?);
            }
            attributes.insert(Attribute::Descriptor(key), value);
        }
        let path = if path.is_empty() { String::new() } else { normalize_path(path).into_owned() };
        Ok(ParsedRequest {
            method: self.method,
            path,
            host,
            service: self.service,
            direction,
            ip,
            cost: self.cost.unwrap_or(1),
            attributes,
        })
    }
}

impl ParsedRequest {
    /// Returns the engine request.
    pub(super) fn to_request(&self) -> Request<'_> {
        let request = Request::new(&self.method, &self.path)
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
}

fn parse_direction(text: Option<&str>, has_descriptor: bool) -> Result<Direction, Problem> {
    match text {
        None if has_descriptor => Ok(Direction::Descriptor),
        None | Some("inbound") => Ok(Direction::Inbound),
        Some("outbound") => Ok(Direction::Outbound),
        Some("descriptor") => Ok(Direction::Descriptor),
        Some(other) => {
            let detail = format!("unknown direction {}: use inbound, outbound or descriptor", quote_input(other));
            Err(Problem::new(ProblemKind::Unprocessable, detail).at("/direction"))
        }
    }
}

fn parse_address(text: &str, at: &str) -> Result<IpAddr, Problem> {
    let detail = || format!("invalid IP address {}: use one such as 203.0.113.9 or 2001:db8::1", quote_input(text));
    text.parse().map_err(|_| Problem::new(ProblemKind::Unprocessable, detail()).at(at))
}

//! Resolves zone keys: variables, `geo` and `map`.
//!
//! A key is resolved into cases: a condition, and the key's pieces if it holds. Cases are disjoint and
//! exhaustive, so each becomes a rule; a case without pieces is not limited.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;
use sluicegate_engine::rule::Expr;

use super::condition::{Condition, all, any, not, text};
use super::directive::Directive;
use super::exclusion::innermost;

/// Maximum number of cases of a key; each becomes a rule.
const MAX_CASES: usize = 16;

/// Maximum number of networks or values in a condition.
const MAX_ENTRIES: usize = 256;

/// Maximum nesting of maps.
const MAX_DEPTH: usize = 8;

/// A piece of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyPiece {
    /// A constant text.
    Text(String),
    /// An attribute that every request has.
    Attribute(&'static str),
    /// An attribute that a request may lack.
    Optional(String),
}

/// The pieces of a key under a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyCase {
    pub(super) when: Condition,
    pub(super) pieces: Vec<KeyPiece>,
}

impl KeyCase {
    /// The attributes that requests are counted by.
    pub(super) fn attributes(&self) -> Vec<&str> {
        let mut attributes = Vec::new();
        for piece in &self.pieces {
            match piece {
                KeyPiece::Attribute(name) if !attributes.contains(name) => attributes.push(name),
                KeyPiece::Optional(name) if !attributes.contains(&name.as_str()) => attributes.push(name),
                _ => {}
            }
        }
        attributes
    }
}

/// Reason that a key cannot be converted.
type Reason = String;

/// Variables defined by the configuration.
#[derive(Debug, Default)]
pub(super) struct Variables<'a> {
    defined: HashMap<&'a str, &'a Directive>,
}

impl<'a> Variables<'a> {
    /// Adds a `geo` or `map`.
    pub(super) fn add(&mut self, directive: &'a Directive) {
        if let Some(name) = directive.args.last().and_then(|name| name.strip_prefix('$')) {
            self.defined.insert(name, directive);
        }
    }

    /// The cases of a key, without those in which it is empty.
    pub(super) fn key(&self, key: &str, server: &str) -> Result<Vec<KeyCase>, Reason> {
        let cases = self.template(key, server, 0)?;
        let mut split = Vec::new();
        for case in cases {
            split.extend(split_optional(case)?);
        }
        split.retain(|case| !case.pieces.is_empty());
        merge_cases(split)
    }

    fn template(&self, template: &str, server: &str, depth: usize) -> Result<Vec<KeyCase>, Reason> {
        let mut cases = vec![KeyCase { when: Condition::Always, pieces: Vec::new() }];
        for part in template_parts(template) {
            let next = match part {
                TemplatePart::Text(text) => {
                    vec![KeyCase { when: Condition::Always, pieces: vec![KeyPiece::Text(text.to_owned())] }]
                }
                TemplatePart::Variable(name) => self.variable(name, server, depth)?,
            };
            let mut product = Vec::new();
            for left in &cases {
                for right in &next {
                    let when = all([left.when.clone(), right.when.clone()]);
                    product.push(KeyCase { when, pieces: [left.pieces.as_slice(), &right.pieces].concat() });
                }
            }
            cases = merge_cases(product)?;
        }
        Ok(cases)
    }

    fn variable(&self, name: &str, server: &str, depth: usize) -> Result<Vec<KeyCase>, Reason> {
        if let Some(directive) = self.defined.get(name) {
            if depth == MAX_DEPTH {
                return Err(format!("${name} is nested too deeply"));
            }
            return match directive.name.as_str() {
                "geo" => geo(directive),
                _ => self.map(directive, server, depth + 1),
            };
        }
        let optional = |kind: &str, name: &str| KeyPiece::Optional(format!("{kind}['{name}']"));
        let piece = match name {
            "binary_remote_addr" | "remote_addr" => KeyPiece::Attribute("client.ip"),
            "server_name" => KeyPiece::Text(server.to_owned()),
            "host" | "http_host" => KeyPiece::Attribute("host"),
            "uri" | "document_uri" | "request_uri" => KeyPiece::Attribute("path"),
            "request_method" => KeyPiece::Attribute("method"),
            _ => match (name.strip_prefix("http_"), name.strip_prefix("cookie_"), name.strip_prefix("arg_")) {
                (Some(header), ..) if !header.is_empty() => {
                    optional("header", &header.to_ascii_lowercase().replace('_', "-"))
                }
                (_, Some(cookie), _) if !cookie.is_empty() => optional("cookie", cookie),
                (.., Some(arg)) if !arg.is_empty() => optional("query", arg),
                _ => {
                    return Err(format!(
                        "${name} cannot be a key; use the client address, a header, a cookie or a query parameter"
                    ));
                }
            },
        };
        Ok(vec![KeyCase { when: Condition::Always, pieces: vec![piece] }])
    }

    fn map(&self, directive: &Directive, server: &str, depth: usize) -> Result<Vec<KeyCase>, Reason> {
        let entries = MapEntries::read(directive)?;
        let mut cases = Vec::new();
        for source in self.template(directive.first_arg(), server, depth)? {
            match source.pieces.as_slice() {
                [KeyPiece::Attribute(name)] => entries.cases(name, false, &source.when, &mut cases)?,
                [KeyPiece::Optional(name)] => entries.cases(name, true, &source.when, &mut cases)?,
                pieces if pieces.iter().all(|piece| matches!(piece, KeyPiece::Text(_))) => {
                    let value: String = pieces.iter().filter_map(KeyPiece::text).collect();
                    cases.push((source.when.clone(), entries.lookup(&value)?));
                }
                _ => {
                    return Err(format!(
                        "{} depends on several variables; write the condition manually",
                        directive.name
                    ));
                }
            }
        }
        let mut resolved = Vec::new();
        for (when, result) in cases.into_iter().filter(|(when, _)| *when != Condition::Never) {
            for case in self.template(result, server, depth)? {
                resolved.push(KeyCase { when: all([when.clone(), case.when]), pieces: case.pieces });
            }
        }
        merge_cases(resolved)
    }
}

impl KeyPiece {
    fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

/// Merges cases with equal pieces.
fn merge_cases(cases: Vec<KeyCase>) -> Result<Vec<KeyCase>, Reason> {
    let mut merged: Vec<KeyCase> = Vec::new();
    for mut case in cases {
        case.pieces.retain(|piece| piece.text() != Some(""));
        match merged.iter_mut().find(|known| known.pieces == case.pieces) {
            Some(known) => known.when = any([known.when.clone(), case.when]),
            None => merged.push(case),
        }
    }
    merged.retain(|case| case.when != Condition::Never);
    if merged.len() > MAX_CASES {
        return Err(format!("the key has more than {MAX_CASES} cases; write the rules manually"));
    }
    Ok(merged)
}

/// Splits a case by its optional pieces. In nginx a missing piece leaves the rest of the key; in a rule the
/// key would be absent.
fn split_optional(case: KeyCase) -> Result<Vec<KeyCase>, Reason> {
    if case.pieces.len() < 2 {
        return Ok(vec![case]);
    }
    let mut cases = vec![KeyCase { when: case.when, pieces: Vec::new() }];
    for piece in case.pieces {
        let mut next = Vec::new();
        for case in cases {
            let with = KeyCase {
                when: case.when.clone(),
                pieces: [case.pieces.as_slice(), std::slice::from_ref(&piece)].concat(),
            };
            if let KeyPiece::Optional(name) = &piece {
                let has = Condition::Raw(format!("has({name})"));
                next.push(KeyCase { when: all([with.when, has.clone()]), ..with });
                next.push(KeyCase { when: all([case.when, not(has)]), pieces: case.pieces });
            } else {
                next.push(with);
            }
        }
        cases = next;
        if cases.len() > MAX_CASES {
            return Err(format!("the key has more than {MAX_CASES} cases; write the rules manually"));
        }
    }
    Ok(cases)
}

enum TemplatePart<'a> {
    Text(&'a str),
    Variable(&'a str),
}

/// Splits a template such as `a$b${c}d` into texts and variables.
fn template_parts(template: &str) -> Vec<TemplatePart<'_>> {
    let mut parts = Vec::new();
    let mut pieces = template.split('$');
    parts.extend(pieces.next().filter(|text| !text.is_empty()).map(TemplatePart::Text));
    for piece in pieces {
        let (name, rest) = match piece.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some(both) => both,
            None => piece.split_at(piece.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(piece.len())),
        };
        parts.push(TemplatePart::Variable(name));
        parts.extend((!rest.is_empty()).then_some(TemplatePart::Text(rest)));
    }
    parts
}

/// True if a text contains variables.
pub(super) fn has_variables(text: &str) -> bool {
    text.contains('$')
}

/// True if a key has a different value for each server.
pub(super) fn depends_on_server(key: &str) -> bool {
    template_parts(key).iter().any(|part| matches!(part, TemplatePart::Variable("server_name")))
}

/// Parses a network; a plain address is a network of one.
pub(super) fn network(text: &str) -> Option<IpNet> {
    match text.parse::<IpAddr>() {
        Ok(address) => Some(IpNet::from(address)),
        Err(_) => text.parse::<IpNet>().ok().map(|network| network.trunc()),
    }
}

fn geo(directive: &Directive) -> Result<Vec<KeyCase>, Reason> {
    if directive.args.len() > 1 && !["$remote_addr", "$binary_remote_addr"].contains(&directive.first_arg()) {
        return Err(format!("geo uses {}; only the client address is supported", directive.first_arg()));
    }
    let mut default = "";
    let mut networks: Vec<(IpNet, &str)> = Vec::new();
    for entry in directive.children() {
        match entry.name.as_str() {
            "default" => default = entry.first_arg(),
            "ranges" | "proxy" | "proxy_recursive" | "delete" => {
                return Err(format!("geo with `{}` cannot be converted; list the networks", entry.name));
            }
            text => {
                let network = network(text).ok_or_else(|| format!("geo: '{text}' is not a network"))?;
                networks.retain(|(known, _)| *known != network);
                networks.push((network, entry.first_arg()));
            }
        }
    }
    if networks.len() > MAX_ENTRIES {
        return Err(format!("geo has more than {MAX_ENTRIES} networks, the maximum of a condition"));
    }
    let mut values = vec![default];
    for (_, value) in &networks {
        if !values.contains(value) {
            values.push(value);
        }
    }
    if values.len() > MAX_CASES {
        return Err(format!("geo has more than {MAX_CASES} values; write the rules manually"));
    }
    let case = |value: &str| {
        let sets: Vec<(IpNet, bool)> = networks.iter().map(|(network, of)| (*network, *of == value)).collect();
        let within = |a: &IpNet, b: &IpNet| a != b && b.contains(a);
        let when = innermost(default == value, &sets, within, |network| Condition::Network(*network));
        KeyCase { when, pieces: vec![KeyPiece::Text(value.to_owned())] }
    };
    merge_cases(values.into_iter().map(case).collect())
}

/// The entries of a `map`.
struct MapEntries<'a> {
    default: &'a str,
    /// Exact values, compared without case.
    exact: Vec<(&'a str, &'a str)>,
    /// Regular expressions in order.
    patterns: Vec<(&'a str, &'a str)>,
    hostnames: bool,
}

impl<'a> MapEntries<'a> {
    fn read(directive: &'a Directive) -> Result<Self, Reason> {
        let mut entries = Self { default: "", exact: Vec::new(), patterns: Vec::new(), hostnames: false };
        for entry in directive.children() {
            match entry.name.as_str() {
                "default" => entries.default = entry.first_arg(),
                "hostnames" if entry.args.is_empty() => entries.hostnames = true,
                "volatile" if entry.args.is_empty() => {}
                text if text.starts_with('~') => entries.patterns.push((&text[1..], entry.first_arg())),
                text => entries.exact.push((text.strip_prefix('\\').unwrap_or(text), entry.first_arg())),
            }
        }
        if entries.exact.len() + entries.patterns.len() > MAX_ENTRIES {
            return Err(format!("the map has more than {MAX_ENTRIES} entries, the maximum of a condition"));
        }
        Ok(entries)
    }

    /// Maps a constant value.
    fn lookup(&self, value: &str) -> Result<&'a str, Reason> {
        if let Some((_, result)) = self.exact.iter().find(|(text, _)| text.eq_ignore_ascii_case(value)) {
            return Ok(result);
        }
        if !self.patterns.is_empty() {
            return Err("a map matches patterns on the result of another map; write the condition manually".to_owned());
        }
        Ok(self.default)
    }

    /// Maps an attribute: a condition for each result.
    fn cases(
        &self,
        attribute: &str,
        optional: bool,
        when: &Condition,
        cases: &mut Vec<(Condition, &'a str)>,
    ) -> Result<(), Reason> {
        let mut earlier: Vec<(Condition, &'a str)> = Vec::new();
        for (text, result) in &self.exact {
            earlier.push((self.equals(attribute, optional, text), result));
        }
        let exact = earlier.len();
        for (pattern, result) in &self.patterns {
            earlier.push((matches(attribute, pattern)?, result));
        }
        // Exact values are disjoint; a pattern applies only if nothing before it matched, and the default if
        // nothing matched.
        let mut cases_in_order = Vec::new();
        for (at, (condition, result)) in earlier.iter().enumerate() {
            let before = if at < exact { &[][..] } else { &earlier[..at] };
            let others = before.iter().filter(|(_, other)| other != result).map(|(other, _)| other.clone());
            cases_in_order.push((all([condition.clone(), not(any(others))]), *result));
        }
        cases_in_order.retain(|(_, result)| *result != self.default);
        let otherwise = not(any(cases_in_order.iter().map(|(condition, _)| condition.clone())));
        cases_in_order.push((otherwise, self.default));
        cases.extend(cases_in_order.into_iter().map(|(condition, result)| (all([when.clone(), condition]), result)));
        Ok(())
    }

    fn equals(&self, attribute: &str, optional: bool, value: &str) -> Condition {
        let lower = value.to_ascii_lowercase();
        match attribute {
            _ if value.is_empty() && optional => not(Condition::Raw(format!("has({attribute})"))),
            _ if value.is_empty() => Condition::Never,
            "client.ip" => network(value).filter(|_| !value.contains('/')).map_or(Condition::Never, Condition::Network),
            "host" if self.hostnames && value.starts_with("*.") => Condition::Subdomain(lower[2..].to_owned()),
            "host" if self.hostnames && value.starts_with('.') => {
                any([Condition::Host(lower[1..].to_owned()), Condition::Subdomain(lower[1..].to_owned())])
            }
            "host" => Condition::Host(lower),
            "method" => Condition::Raw(format!("method == {}", text(&value.to_ascii_uppercase()))),
            _ if value.contains(|c: char| c.is_ascii_alphabetic()) => {
                Condition::Raw(format!("{attribute}.matches({})", text(&format!("(?i)^{}$", regex_escape(value)))))
            }
            _ => Condition::Raw(format!("{attribute} == {}", text(value))),
        }
    }
}

/// Converts the part of a map pattern after `~`.
fn matches(attribute: &str, pattern: &str) -> Result<Condition, Reason> {
    let pattern = match pattern.strip_prefix('*') {
        Some(pattern) => format!("(?i){pattern}"),
        None => pattern.to_owned(),
    };
    let expression = format!("{attribute}.matches({})", text(&pattern));
    match Expr::parse(&expression) {
        Ok(_) => Ok(Condition::Raw(expression)),
        Err(error) => Err(format!("the pattern of a map cannot be converted: {error}")),
    }
}

/// Escapes a text for use in a regular expression.
fn regex_escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if c.is_ascii_punctuation() {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

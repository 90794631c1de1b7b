//! What a key is made of: variables, and what `geo` and `map` make of them.
//!
//! A key is resolved into cases: under this condition it is made of these pieces. The cases exclude each
//! other and leave nothing out, so each becomes a rule of its own; one without pieces is not limited.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;
use sluicegate_engine::rule::Expr;

use super::condition::{Condition, all, any, not, text};
use super::directive::Directive;
use super::nested::innermost;

/// The most cases a key may have: each becomes a rule.
const MOST_CASES: usize = 16;

/// The most networks or values that fit into a condition.
const MOST_ENTRIES: usize = 256;

/// How deep maps look at each other.
const DEEPEST: usize = 8;

/// A part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A text that is the same for all requests.
    Text(String),
    /// An attribute that every request has.
    Attribute(&'static str),
    /// An attribute that a request may lack.
    Optional(String),
}

/// What a key is made of, if the condition holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) when: Condition,
    pub(super) pieces: Vec<Piece>,
}

impl Case {
    /// The attributes that requests are told apart by.
    pub(super) fn attributes(&self) -> Vec<&str> {
        let mut attributes = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Attribute(name) if !attributes.contains(name) => attributes.push(name),
                Piece::Optional(name) if !attributes.contains(&name.as_str()) => attributes.push(name),
                _ => {}
            }
        }
        attributes
    }
}

/// Why a key cannot be carried over.
type Reason = String;

/// The variables that a configuration makes.
#[derive(Debug, Default)]
pub(super) struct Variables<'a> {
    made: HashMap<&'a str, &'a Directive>,
}

impl<'a> Variables<'a> {
    /// Takes up a `geo` or `map`.
    pub(super) fn add(&mut self, directive: &'a Directive) {
        if let Some(name) = directive.args.last().and_then(|name| name.strip_prefix('$')) {
            self.made.insert(name, directive);
        }
    }

    /// The cases of a key, without those in which it is empty.
    pub(super) fn key(&self, key: &str, server: &str) -> Result<Vec<Case>, Reason> {
        let cases = self.template(key, server, 0)?;
        let mut split = Vec::new();
        for case in cases {
            split.extend(without_gaps(case)?);
        }
        split.retain(|case| !case.pieces.is_empty());
        merged(split)
    }

    fn template(&self, template: &str, server: &str, depth: usize) -> Result<Vec<Case>, Reason> {
        let mut cases = vec![Case { when: Condition::Always, pieces: Vec::new() }];
        for part in parts(template) {
            let next = match part {
                Part::Text(text) => vec![Case { when: Condition::Always, pieces: vec![Piece::Text(text.to_owned())] }],
                Part::Variable(name) => self.variable(name, server, depth)?,
            };
            let mut product = Vec::new();
            for left in &cases {
                for right in &next {
                    let when = all([left.when.clone(), right.when.clone()]);
                    product.push(Case { when, pieces: [left.pieces.as_slice(), &right.pieces].concat() });
                }
            }
            cases = merged(product)?;
        }
        Ok(cases)
    }

    fn variable(&self, name: &str, server: &str, depth: usize) -> Result<Vec<Case>, Reason> {
        if let Some(directive) = self.made.get(name) {
            if depth == DEEPEST {
                return Err(format!("${name} is made of too many others"));
            }
            return match directive.name.as_str() {
                "geo" => geo(directive),
                _ => self.map(directive, server, depth + 1),
            };
        }
        let optional = |kind: &str, name: &str| Piece::Optional(format!("{kind}['{name}']"));
        let piece = match name {
            "binary_remote_addr" | "remote_addr" => Piece::Attribute("client.ip"),
            "server_name" => Piece::Text(server.to_owned()),
            "host" | "http_host" => Piece::Attribute("host"),
            "uri" | "document_uri" | "request_uri" => Piece::Attribute("path"),
            "request_method" => Piece::Attribute("method"),
            _ => match (name.strip_prefix("http_"), name.strip_prefix("cookie_"), name.strip_prefix("arg_")) {
                (Some(header), ..) if !header.is_empty() => {
                    optional("header", &header.to_ascii_lowercase().replace('_', "-"))
                }
                (_, Some(cookie), _) if !cookie.is_empty() => optional("cookie", cookie),
                (.., Some(arg)) if !arg.is_empty() => optional("query", arg),
                _ => {
                    return Err(format!(
                        "rules cannot be keyed by ${name}; key by an address, header, cookie or query"
                    ));
                }
            },
        };
        Ok(vec![Case { when: Condition::Always, pieces: vec![piece] }])
    }

    fn map(&self, directive: &Directive, server: &str, depth: usize) -> Result<Vec<Case>, Reason> {
        let entries = Entries::read(directive)?;
        let mut cases = Vec::new();
        for source in self.template(directive.first(), server, depth)? {
            match source.pieces.as_slice() {
                [Piece::Attribute(name)] => entries.cases(name, false, &source.when, &mut cases)?,
                [Piece::Optional(name)] => entries.cases(name, true, &source.when, &mut cases)?,
                pieces if pieces.iter().all(|piece| matches!(piece, Piece::Text(_))) => {
                    let value: String = pieces.iter().filter_map(Piece::text).collect();
                    cases.push((source.when.clone(), entries.look_up(&value)?));
                }
                _ => {
                    return Err(format!(
                        "{} looks at several things at once; write the condition by hand",
                        directive.name
                    ));
                }
            }
        }
        let mut resolved = Vec::new();
        for (when, result) in cases.into_iter().filter(|(when, _)| *when != Condition::Never) {
            for case in self.template(result, server, depth)? {
                resolved.push(Case { when: all([when.clone(), case.when]), pieces: case.pieces });
            }
        }
        merged(resolved)
    }
}

impl Piece {
    fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

/// Puts cases with the same pieces together.
fn merged(cases: Vec<Case>) -> Result<Vec<Case>, Reason> {
    let mut merged: Vec<Case> = Vec::new();
    for mut case in cases {
        case.pieces.retain(|piece| piece.text() != Some(""));
        match merged.iter_mut().find(|known| known.pieces == case.pieces) {
            Some(known) => known.when = any([known.when.clone(), case.when]),
            None => merged.push(case),
        }
    }
    merged.retain(|case| case.when != Condition::Never);
    if merged.len() > MOST_CASES {
        return Err(format!("the key has more than {MOST_CASES} cases; write the rules by hand"));
    }
    Ok(merged)
}

/// A missing piece leaves the rest of an nginx key, but no key of a rule: with and without become cases.
fn without_gaps(case: Case) -> Result<Vec<Case>, Reason> {
    if case.pieces.len() < 2 {
        return Ok(vec![case]);
    }
    let mut cases = vec![Case { when: case.when, pieces: Vec::new() }];
    for piece in case.pieces {
        let mut next = Vec::new();
        for case in cases {
            let with = Case {
                when: case.when.clone(),
                pieces: [case.pieces.as_slice(), std::slice::from_ref(&piece)].concat(),
            };
            if let Piece::Optional(name) = &piece {
                let has = Condition::Said(format!("has({name})"));
                next.push(Case { when: all([with.when, has.clone()]), ..with });
                next.push(Case { when: all([case.when, not(has)]), pieces: case.pieces });
            } else {
                next.push(with);
            }
        }
        cases = next;
        if cases.len() > MOST_CASES {
            return Err(format!("the key has more than {MOST_CASES} cases; write the rules by hand"));
        }
    }
    Ok(cases)
}

enum Part<'a> {
    Text(&'a str),
    Variable(&'a str),
}

/// The texts and variables of `a$b${c}d`.
fn parts(template: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut pieces = template.split('$');
    parts.extend(pieces.next().filter(|text| !text.is_empty()).map(Part::Text));
    for piece in pieces {
        let (name, rest) = match piece.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some(both) => both,
            None => piece.split_at(piece.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(piece.len())),
        };
        parts.push(Part::Variable(name));
        parts.extend((!rest.is_empty()).then_some(Part::Text(rest)));
    }
    parts
}

/// Whether a text names variables.
pub(super) fn has_variables(text: &str) -> bool {
    text.contains('$')
}

/// Whether a key has a value of its own for each server.
pub(super) fn names_server(key: &str) -> bool {
    parts(key).iter().any(|part| matches!(part, Part::Variable("server_name")))
}

/// A network, or an address as the network of it alone.
pub(super) fn network(text: &str) -> Option<IpNet> {
    match text.parse::<IpAddr>() {
        Ok(address) => Some(IpNet::from(address)),
        Err(_) => text.parse::<IpNet>().ok().map(|network| network.trunc()),
    }
}

fn geo(directive: &Directive) -> Result<Vec<Case>, Reason> {
    if directive.args.len() > 1 && !["$remote_addr", "$binary_remote_addr"].contains(&directive.first()) {
        return Err(format!("geo looks at {}; only the client's address can be looked at", directive.first()));
    }
    let mut default = "";
    let mut networks: Vec<(IpNet, &str)> = Vec::new();
    for entry in directive.inner() {
        match entry.name.as_str() {
            "default" => default = entry.first(),
            "ranges" | "proxy" | "proxy_recursive" | "delete" => {
                return Err(format!("geo with `{}` cannot be carried over; list networks", entry.name));
            }
            text => {
                let network = network(text).ok_or_else(|| format!("geo: '{text}' is no network"))?;
                networks.retain(|(known, _)| *known != network);
                networks.push((network, entry.first()));
            }
        }
    }
    if networks.len() > MOST_ENTRIES {
        return Err(format!("geo has more than {MOST_ENTRIES} networks, the most that fit into a condition"));
    }
    let mut values = vec![default];
    for (_, value) in &networks {
        if !values.contains(value) {
            values.push(value);
        }
    }
    if values.len() > MOST_CASES {
        return Err(format!("geo has more than {MOST_CASES} values; write the rules by hand"));
    }
    let case = |value: &str| {
        let sets: Vec<(IpNet, bool)> = networks.iter().map(|(network, of)| (*network, *of == value)).collect();
        let within = |a: &IpNet, b: &IpNet| a != b && b.contains(a);
        let when = innermost(default == value, &sets, within, |network| Condition::Network(*network));
        Case { when, pieces: vec![Piece::Text(value.to_owned())] }
    };
    merged(values.into_iter().map(case).collect())
}

/// The entries of a `map`.
struct Entries<'a> {
    default: &'a str,
    /// Values, compared without regard to case.
    exact: Vec<(&'a str, &'a str)>,
    /// Patterns, in their order.
    patterns: Vec<(&'a str, &'a str)>,
    hostnames: bool,
}

impl<'a> Entries<'a> {
    fn read(directive: &'a Directive) -> Result<Self, Reason> {
        let mut entries = Self { default: "", exact: Vec::new(), patterns: Vec::new(), hostnames: false };
        for entry in directive.inner() {
            match entry.name.as_str() {
                "default" => entries.default = entry.first(),
                "hostnames" if entry.args.is_empty() => entries.hostnames = true,
                "volatile" if entry.args.is_empty() => {}
                text if text.starts_with('~') => entries.patterns.push((&text[1..], entry.first())),
                text => entries.exact.push((text.strip_prefix('\\').unwrap_or(text), entry.first())),
            }
        }
        if entries.exact.len() + entries.patterns.len() > MOST_ENTRIES {
            return Err(format!("the map has more than {MOST_ENTRIES} entries, the most that fit into a condition"));
        }
        Ok(entries)
    }

    /// What a known value becomes.
    fn look_up(&self, value: &str) -> Result<&'a str, Reason> {
        if let Some((_, result)) = self.exact.iter().find(|(text, _)| text.eq_ignore_ascii_case(value)) {
            return Ok(result);
        }
        if !self.patterns.is_empty() {
            return Err("a map matches patterns with what another one made; write the condition by hand".to_owned());
        }
        Ok(self.default)
    }

    /// What an attribute becomes: for each result its condition.
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
        // Values exclude each other; a pattern holds only if nothing before it does, and the default if nothing does.
        let mut holding = Vec::new();
        for (at, (condition, result)) in earlier.iter().enumerate() {
            let before = if at < exact { &[][..] } else { &earlier[..at] };
            let others = before.iter().filter(|(_, other)| other != result).map(|(other, _)| other.clone());
            holding.push((all([condition.clone(), not(any(others))]), *result));
        }
        holding.retain(|(_, result)| *result != self.default);
        let otherwise = not(any(holding.iter().map(|(condition, _)| condition.clone())));
        holding.push((otherwise, self.default));
        cases.extend(holding.into_iter().map(|(condition, result)| (all([when.clone(), condition]), result)));
        Ok(())
    }

    fn equals(&self, attribute: &str, optional: bool, value: &str) -> Condition {
        let lower = value.to_ascii_lowercase();
        match attribute {
            _ if value.is_empty() && optional => not(Condition::Said(format!("has({attribute})"))),
            _ if value.is_empty() => Condition::Never,
            "client.ip" => network(value).filter(|_| !value.contains('/')).map_or(Condition::Never, Condition::Network),
            "host" if self.hostnames && value.starts_with("*.") => Condition::HostBelow(lower[2..].to_owned()),
            "host" if self.hostnames && value.starts_with('.') => {
                any([Condition::Host(lower[1..].to_owned()), Condition::HostBelow(lower[1..].to_owned())])
            }
            "host" => Condition::Host(lower),
            "method" => Condition::Said(format!("method == {}", text(&value.to_ascii_uppercase()))),
            _ if value.contains(|c: char| c.is_ascii_alphabetic()) => {
                Condition::Said(format!("{attribute}.matches({})", text(&format!("(?i)^{}$", escaped(value)))))
            }
            _ => Condition::Said(format!("{attribute} == {}", text(value))),
        }
    }
}

/// A pattern of a map, as it stands behind its `~`.
fn matches(attribute: &str, pattern: &str) -> Result<Condition, Reason> {
    let pattern = match pattern.strip_prefix('*') {
        Some(pattern) => format!("(?i){pattern}"),
        None => pattern.to_owned(),
    };
    let said = format!("{attribute}.matches({})", text(&pattern));
    match Expr::parse(&said) {
        Ok(_) => Ok(Condition::Said(said)),
        Err(error) => Err(format!("the pattern of a map cannot be carried over: {error}")),
    }
}

/// A text as the pattern that only it fits.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if c.is_ascii_punctuation() {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

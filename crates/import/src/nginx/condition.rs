//! Request conditions and their rule file form: in `match` if possible, otherwise in `when`.

use std::fmt::{self, Write};

use ipnet::IpNet;

/// A condition on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Always,
    Never,
    /// The request has this host.
    Host(String),
    /// The request's host is a subdomain of this name.
    Subdomain(String),
    /// The request has this path.
    Path(String),
    /// The request has this path or a subpath.
    PathPrefix(String),
    /// The client is in this network.
    Network(IpNet),
    /// A condition in rule file syntax, an expression that binds tighter than `!`.
    Raw(String),
    Not(Box<Condition>),
    All(Vec<Condition>),
    Any(Vec<Condition>),
}

use Condition::{All, Always, Any, Host, Network, Never, Not, Path, PathPrefix, Raw, Subdomain};

/// Conjunction of the conditions.
pub(super) fn all(parts: impl IntoIterator<Item = Condition>) -> Condition {
    let mut kept = Vec::new();
    for part in parts {
        match part {
            Always => {}
            Never => return Never,
            All(inner) => kept.extend(inner),
            part if kept.contains(&part) => {}
            part => kept.push(part),
        }
    }
    match kept.len() {
        0 => Always,
        1 => kept.remove(0),
        _ => All(kept),
    }
}

/// Disjunction of the conditions.
pub(super) fn any(parts: impl IntoIterator<Item = Condition>) -> Condition {
    let mut kept = Vec::new();
    for part in parts {
        match part {
            Never => {}
            Always => return Always,
            Any(inner) => kept.extend(inner),
            part if kept.contains(&part) => {}
            part => kept.push(part),
        }
    }
    match kept.len() {
        0 => Never,
        1 => kept.remove(0),
        _ => Any(kept),
    }
}

/// Negation of the condition.
pub(super) fn not(part: Condition) -> Condition {
    match part {
        Always => Never,
        Never => Always,
        Not(inner) => *inner,
        part => Not(Box::new(part)),
    }
}

impl Condition {
    /// The rule's `match` and `when`, each if needed.
    pub(super) fn into_match_and_when(self) -> (Option<String>, Option<String>) {
        let parts = match self {
            All(parts) => parts,
            part => vec![part],
        };
        let (mut host, mut path, mut rest) = (None, None, Vec::new());
        for part in parts {
            match part {
                Host(name) if host.is_none() => host = Some(format!("host {name}")),
                Path(text) if path.is_none() => path = Some(text),
                PathPrefix(text) if path.is_none() => path = Some(format!("{text}/**")),
                part => rest.push(part),
            }
        }
        let target: Vec<String> = host.into_iter().chain(path).collect();
        let when = all(rest);
        ((!target.is_empty()).then(|| target.join(" ")), (when != Always).then(|| when.to_string()))
    }
}

/// Precedence of the enclosing operator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Precedence {
    Nothing,
    And,
    Not,
}

/// Formats in `when` syntax.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&render(self, Precedence::Nothing))
    }
}

fn render(condition: &Condition, outer: Precedence) -> String {
    match condition {
        All(parts) => {
            let parts: Vec<String> = parts.iter().map(|part| render(part, Precedence::And)).collect();
            parenthesize(outer >= Precedence::Not, parts.join(" && "))
        }
        Any(parts) => match alternatives(parts).as_slice() {
            [one] => parenthesize(outer == Precedence::Not, one.clone()),
            many => parenthesize(outer != Precedence::Nothing, many.join(" || ")),
        },
        PathPrefix(path) => parenthesize(outer != Precedence::Nothing, path_prefix(path)),
        Not(inner) => match &**inner {
            Host(name) => parenthesize(outer == Precedence::Not, format!("host != {}", text(name))),
            Path(path) => parenthesize(outer == Precedence::Not, format!("path != {}", text(path))),
            inner => format!("!{}", render(inner, Precedence::Not)),
        },
        Raw(raw) if raw.starts_with("has(") => raw.clone(),
        plain => parenthesize(outer == Precedence::Not, comparison(plain)),
    }
}

fn parenthesize(parentheses: bool, text: String) -> String {
    if parentheses { format!("({text})") } else { text }
}

fn path_prefix(path: &str) -> String {
    format!("path == {} || path.startsWith({})", text(path), text(&format!("{path}/")))
}

/// A condition without nested conditions.
fn comparison(condition: &Condition) -> String {
    match condition {
        Always => "true".to_owned(),
        Host(name) => format!("host == {}", text(name)),
        Subdomain(name) => format!("host.endsWith({})", text(&format!(".{name}"))),
        Path(path) => format!("path == {}", text(path)),
        Network(network) => format!("client.ip in {}", format_network(network)),
        Raw(raw) => raw.clone(),
        _ => "false".to_owned(),
    }
}

/// Alternatives; hosts, paths and networks are merged into one list each.
fn alternatives(parts: &[Condition]) -> Vec<String> {
    let (mut hosts, mut paths, mut networks, mut others) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        match part {
            Host(name) => hosts.push(text(name)),
            Path(path) => paths.push(text(path)),
            Network(network) => networks.push(format_network(network)),
            PathPrefix(path) => others.push(path_prefix(path)),
            part => others.push(render(part, Precedence::And)),
        }
    }
    let mut terms = Vec::new();
    for (attribute, list) in [("host", hosts), ("path", paths), ("client.ip", networks)] {
        match list.as_slice() {
            [] => {}
            [one] if attribute == "client.ip" => terms.push(format!("client.ip in {one}")),
            [one] => terms.push(format!("{attribute} == {one}")),
            many => terms.push(format!("{attribute} in [{}]", many.join(", "))),
        }
    }
    terms.append(&mut others);
    terms
}

/// A network, or the plain address if it has one address.
fn format_network(network: &IpNet) -> String {
    if network.prefix_len() == network.max_prefix_len() { network.addr().to_string() } else { network.to_string() }
}

/// A quoted string in condition syntax.
pub(super) fn text(text: &str) -> String {
    let mut quoted = String::from("'");
    for c in text.chars() {
        match c {
            '\'' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}

//! Conditions on requests, and how a rule says them: as far as possible in `match`, the rest in `when`.

use std::fmt::{self, Write};

use ipnet::IpNet;

/// What can be true of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Always,
    Never,
    /// It is for this host.
    Host(String),
    /// It is for a host below this name.
    HostBelow(String),
    /// It has this path.
    Path(String),
    /// It has this path, or one below it.
    PathBelow(String),
    /// Its client is in this network.
    Network(IpNet),
    /// A condition in the words of the rule file, of a kind that binds tighter than `!`.
    Said(String),
    Not(Box<Condition>),
    All(Vec<Condition>),
    Any(Vec<Condition>),
}

use Condition::{All, Always, Any, Host, HostBelow, Network, Never, Not, Path, PathBelow, Said};

/// All of them hold.
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

/// At least one of them holds.
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

/// It does not hold.
pub(super) fn not(part: Condition) -> Condition {
    match part {
        Always => Never,
        Never => Always,
        Not(inner) => *inner,
        part => Not(Box::new(part)),
    }
}

impl Condition {
    /// The rule's `match` and `when`, each if it is needed.
    pub(super) fn said(self) -> (Option<String>, Option<String>) {
        let parts = match self {
            All(parts) => parts,
            part => vec![part],
        };
        let (mut host, mut path, mut rest) = (None, None, Vec::new());
        for part in parts {
            match part {
                Host(name) if host.is_none() => host = Some(format!("host {name}")),
                Path(text) if path.is_none() => path = Some(text),
                PathBelow(text) if path.is_none() => path = Some(format!("{text}/**")),
                part => rest.push(part),
            }
        }
        let target: Vec<String> = host.into_iter().chain(path).collect();
        let when = all(rest);
        ((!target.is_empty()).then(|| target.join(" ")), (when != Always).then(|| when.to_string()))
    }
}

/// How tightly what stands around a condition binds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Around {
    Nothing,
    And,
    Not,
}

/// In the notation of `when`.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&written(self, Around::Nothing))
    }
}

fn written(condition: &Condition, around: Around) -> String {
    match condition {
        All(parts) => {
            let parts: Vec<String> = parts.iter().map(|part| written(part, Around::And)).collect();
            within(around >= Around::Not, parts.join(" && "))
        }
        Any(parts) => match alternatives(parts).as_slice() {
            [one] => within(around == Around::Not, one.clone()),
            many => within(around != Around::Nothing, many.join(" || ")),
        },
        PathBelow(path) => within(around != Around::Nothing, below(path)),
        Not(inner) => match &**inner {
            Host(name) => within(around == Around::Not, format!("host != {}", text(name))),
            Path(path) => within(around == Around::Not, format!("path != {}", text(path))),
            inner => format!("!{}", written(inner, Around::Not)),
        },
        Said(said) if said.starts_with("has(") => said.clone(),
        plain => within(around == Around::Not, comparison(plain)),
    }
}

fn within(parentheses: bool, said: String) -> String {
    if parentheses { format!("({said})") } else { said }
}

fn below(path: &str) -> String {
    format!("path == {} || path.startsWith({})", text(path), text(&format!("{path}/")))
}

/// A condition that has no others within it.
fn comparison(condition: &Condition) -> String {
    match condition {
        Always => "true".to_owned(),
        Host(name) => format!("host == {}", text(name)),
        HostBelow(name) => format!("host.endsWith({})", text(&format!(".{name}"))),
        Path(path) => format!("path == {}", text(path)),
        Network(network) => format!("client.ip in {}", shown(network)),
        Said(said) => said.clone(),
        _ => "false".to_owned(),
    }
}

/// Alternatives; hosts, paths and networks in one list each.
fn alternatives(parts: &[Condition]) -> Vec<String> {
    let (mut hosts, mut paths, mut networks, mut others) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        match part {
            Host(name) => hosts.push(text(name)),
            Path(path) => paths.push(text(path)),
            Network(network) => networks.push(shown(network)),
            PathBelow(path) => others.push(below(path)),
            part => others.push(written(part, Around::And)),
        }
    }
    let mut said = Vec::new();
    for (attribute, list) in [("host", hosts), ("path", paths), ("client.ip", networks)] {
        match list.as_slice() {
            [] => {}
            [one] if attribute == "client.ip" => said.push(format!("client.ip in {one}")),
            [one] => said.push(format!("{attribute} == {one}")),
            many => said.push(format!("{attribute} in [{}]", many.join(", "))),
        }
    }
    said.append(&mut others);
    said
}

/// A network, or the address alone if it is of one address.
fn shown(network: &IpNet) -> String {
    if network.prefix_len() == network.max_prefix_len() { network.addr().to_string() } else { network.to_string() }
}

/// A text in quotes, as conditions write it.
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

//! Conditions on request attributes: a rule's `when`, and entries of allow and deny lists.
//!
//! The syntax is a subset of [CEL](https://cel.dev), with networks added:
//!
//! | syntax | true if |
//! |---|---|
//! | `account == 'alice'` | the attribute equals this text (or this whole number: `tries == 3`) |
//! | `account != 'alice'` | it does not |
//! | `method in ['GET', 'HEAD']` | it is one of these |
//! | `client.ip in 10.1.0.0/16`, `client.ip in [10.0.0.0/8, ::1]` | it is an address in one of these networks |
//! | `path.startsWith('/api')`, `.endsWith`, `.contains` | it starts with, ends with, contains this |
//! | `header['user-agent'].matches('(?i)bot[/ ]')` | it contains a match of the [pattern](regex) |
//! | `query['page'] > 100`, `<`, `<=`, `>=` | it is a whole number and the comparison holds |
//! | `has(cookie['sid'])` | it is present |
//! | `a && b`, `a \|\| b`, `!a`, `(a)`, `true`, `false` | as usual; `&&` binds tighter than `\|\|` |
//!
//! Every comparison with an absent attribute is false. `!=` is the negation of `==`, so it is true:
//! `header['x-tier'] != 'vip'` also matches requests without that header.
//!
//! A condition is parsed once. Evaluation time is bounded: patterns run in time linear in their input, and
//! nesting and length are limited.
//!
//! ```
//! use sluicegate_engine::rule::{Expr, Params, Request};
//!
//! let expr = Expr::parse("client.ip in 10.1.0.0/16 && !path.startsWith('/health')")?;
//! let request = Request::new("GET", "/api").with_client_ip([10, 1, 2, 3]);
//! assert!(expr.holds(&request, &Params::new()));
//!
//! let error = Expr::parse("account = 'alice'").unwrap_err();
//! assert_eq!((error.at, error.to_string().as_str()), (8, "'=' is not a comparison: use =="));
//! # Ok::<(), sluicegate_engine::rule::ExprError>(())
//! ```

mod parse;

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::num::IntErrorKind;
use std::str::FromStr;

use ipnet::IpNet;
use regex::Regex;
use thiserror::Error;

use super::quote::Quoted;
use super::{Attribute, Params, Request};

/// Maximum length of a condition, in bytes.
pub const MAX_LENGTH: usize = 4096;

/// Maximum nesting depth of parentheses and negations.
pub const MAX_DEPTH: usize = 64;

/// A condition. See the module documentation for the syntax.
#[derive(Clone, Debug)]
pub enum Expr {
    /// All are true.
    All(Vec<Expr>),
    /// At least one is true.
    Any(Vec<Expr>),
    /// Negation.
    Not(Box<Expr>),
    /// The attribute is present.
    Has(Attribute),
    /// The attribute is one of these texts.
    OneOf(Attribute, Vec<String>),
    /// The attribute starts with this.
    StartsWith(Attribute, String),
    /// The attribute ends with this.
    EndsWith(Attribute, String),
    /// The attribute contains this.
    Contains(Attribute, String),
    /// The attribute contains a match of this pattern.
    Matches(Attribute, Regex),
    /// The attribute is an address within one of these networks.
    InNetwork(Attribute, Vec<IpNet>),
    /// The attribute is a number, and the comparison with the bound holds.
    Number(Attribute, Relation, i64),
}

/// Comparison operator for numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

/// Error of parsing a condition.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ExprError {
    /// Byte offset of the error in the text.
    pub at: usize,
    /// Length of the invalid part in bytes, at least 1 if there is one.
    pub len: usize,
    /// Problem and remedy.
    pub message: String,
}

impl Expr {
    /// Parses a condition.
    pub fn parse(text: &str) -> Result<Self, ExprError> {
        parse::parse(text)
    }

    /// True if the condition holds for a request; `params` are those of the matched path pattern.
    pub fn holds(&self, request: &Request<'_>, params: &Params<'_>) -> bool {
        let value = |attribute| request.value(attribute, params);
        match self {
            Self::All(all) => all.iter().all(|expr| expr.holds(request, params)),
            Self::Any(any) => any.iter().any(|expr| expr.holds(request, params)),
            Self::Not(expr) => !expr.holds(request, params),
            Self::Has(Attribute::ClientIp) => request.client_ip.is_some(),
            Self::Has(attribute) => value(attribute).is_some(),
            Self::OneOf(attribute, texts) => {
                value(attribute).is_some_and(|value| texts.iter().any(|text| *text == value))
            }
            Self::StartsWith(attribute, text) => value(attribute).is_some_and(|value| value.starts_with(text)),
            Self::EndsWith(attribute, text) => value(attribute).is_some_and(|value| value.ends_with(text)),
            Self::Contains(attribute, text) => value(attribute).is_some_and(|value| value.contains(text)),
            Self::Matches(attribute, pattern) => value(attribute).is_some_and(|value| pattern.is_match(&value)),
            Self::InNetwork(attribute, networks) => address(attribute, request, params)
                .is_some_and(|address| networks.iter().any(|network| network.contains(&address))),
            Self::Number(attribute, relation, bound) => {
                value(attribute).and_then(number).is_some_and(|number| relation.holds(number, *bound))
            }
        }
    }
}

/// Value of an attribute as an address.
pub(super) fn address(attribute: &Attribute, request: &Request<'_>, params: &Params<'_>) -> Option<IpAddr> {
    match attribute {
        Attribute::ClientIp => request.canonical_ip(),
        _ => request.value(attribute, params)?.parse::<IpAddr>().ok().map(|address| address.to_canonical()),
    }
}

/// Value of an attribute as a whole number. On overflow it is still larger than any bound.
fn number(value: Cow<'_, str>) -> Option<i64> {
    match value.parse::<i64>() {
        Ok(number) => Some(number),
        Err(error) => match error.kind() {
            IntErrorKind::PosOverflow => Some(i64::MAX),
            IntErrorKind::NegOverflow => Some(i64::MIN),
            _ => None,
        },
    }
}

impl Relation {
    fn holds(self, number: i64, bound: i64) -> bool {
        match self {
            Self::Less => number < bound,
            Self::AtMost => number <= bound,
            Self::Greater => number > bound,
            Self::AtLeast => number >= bound,
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
        })
    }
}

impl FromStr for Expr {
    type Err = ExprError;

    fn from_str(text: &str) -> Result<Self, ExprError> {
        Self::parse(text)
    }
}

/// Two conditions are equal if they format the same.
impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Expr {}

/// Formats an equivalent text, the same for all spellings that differ only in spacing, quotes and redundant
/// parentheses.
impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(all) => {
                write_joined(f, all, " && ", "true", |part| matches!(part, Self::Any(any) if any.len() > 1))
            }
            Self::Any(any) => write_joined(f, any, " || ", "false", |_| false),
            Self::Not(expr) => write_negated(f, expr),
            Self::Has(attribute) => write!(f, "has({attribute})"),
            Self::OneOf(attribute, texts) => match texts.as_slice() {
                [] => f.write_str("false"),
                [text] => write!(f, "{attribute} == {}", Quoted(text)),
                texts => write_list(f, attribute, texts.iter().map(|text| Quoted(text))),
            },
            Self::StartsWith(attribute, text) => write!(f, "{attribute}.startsWith({})", Quoted(text)),
            Self::EndsWith(attribute, text) => write!(f, "{attribute}.endsWith({})", Quoted(text)),
            Self::Contains(attribute, text) => write!(f, "{attribute}.contains({})", Quoted(text)),
            Self::Matches(attribute, pattern) => write!(f, "{attribute}.matches({})", Quoted(pattern.as_str())),
            Self::InNetwork(attribute, networks) => match networks.as_slice() {
                [] => f.write_str("false"),
                [host] if is_host(host) => write!(f, "{attribute} == {}", host.addr()),
                [network] => write!(f, "{attribute} in {}", network.trunc()),
                networks => write_list(f, attribute, networks.iter().map(IpNet::trunc)),
            },
            Self::Number(attribute, relation, bound) => write!(f, "{attribute} {relation} {bound}"),
        }
    }
}

fn write_joined(
    f: &mut fmt::Formatter<'_>,
    parts: &[Expr],
    operator: &str,
    none: &str,
    in_parentheses: impl Fn(&Expr) -> bool,
) -> fmt::Result {
    let mut separator = "";
    for part in parts {
        f.write_str(separator)?;
        if in_parentheses(part) && parts.len() > 1 {
            write!(f, "({part})")?;
        } else {
            write!(f, "{part}")?;
        }
        separator = operator;
    }
    if parts.is_empty() { f.write_str(none) } else { Ok(()) }
}

fn write_negated(f: &mut fmt::Formatter<'_>, expr: &Expr) -> fmt::Result {
    match expr {
        Expr::OneOf(attribute, texts) if texts.len() == 1 => {
            texts.iter().try_for_each(|text| write!(f, "{attribute} != {}", Quoted(text)))
        }
        Expr::InNetwork(attribute, networks) if networks.len() == 1 && networks.iter().all(is_host) => {
            networks.iter().try_for_each(|host| write!(f, "{attribute} != {}", host.addr()))
        }
        Expr::All(one) | Expr::Any(one) if one.len() == 1 => one.iter().try_for_each(|expr| write_negated(f, expr)),
        Expr::Not(inner) if is_comparison(inner) => write!(f, "!({expr})"),
        Expr::All(parts) | Expr::Any(parts) if !parts.is_empty() => write!(f, "!({expr})"),
        expr if is_comparison(expr) => write!(f, "!({expr})"),
        expr => write!(f, "!{expr}"),
    }
}

/// True if it is formatted with an operator between an attribute and a value.
fn is_comparison(expr: &Expr) -> bool {
    match expr {
        Expr::OneOf(_, texts) => !texts.is_empty(),
        Expr::InNetwork(_, networks) => !networks.is_empty(),
        Expr::Number(..) => true,
        Expr::All(one) | Expr::Any(one) => matches!(one.as_slice(), [expr] if is_comparison(expr)),
        _ => false,
    }
}

fn is_host(network: &IpNet) -> bool {
    network.prefix_len() == network.max_prefix_len()
}

fn write_list<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    attribute: &Attribute,
    items: impl Iterator<Item = T>,
) -> fmt::Result {
    write!(f, "{attribute} in [")?;
    for (position, item) in items.enumerate() {
        let separator = if position == 0 { "" } else { ", " };
        write!(f, "{separator}{item}")?;
    }
    f.write_str("]")
}

#[cfg(test)]
mod tests;

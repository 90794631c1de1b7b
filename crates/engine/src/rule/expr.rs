//! Conditions on a request's attributes.

use ipnet::IpNet;
use regex::Regex;
use thiserror::Error;

use super::Attribute;

/// A condition. See the module's head for the notation.
#[derive(Clone, Debug)]
pub enum Expr {
    /// All hold.
    All(Vec<Expr>),
    /// At least one holds.
    Any(Vec<Expr>),
    /// Does not hold.
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
    /// The attribute matches this pattern.
    Matches(Attribute, Regex),
    /// The attribute is an address within one of these networks.
    InNetwork(Attribute, Vec<IpNet>),
    /// The attribute is a number in this relation to another.
    Number(Attribute, Relation, i64),
}

/// How two numbers compare.
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

/// Why a text is not a condition.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ExprError {
    /// Byte offset of the fault in the text.
    pub at: usize,
    /// Length of the faulty part in bytes, at least 1 where there is one.
    pub len: usize,
    /// What is wrong, and the remedy.
    pub message: String,
}

impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

//! Rules: which requests are limited, by which key, how, and what happens then.
//!
//! A [`Rule`] is plain data, made by hand or read from a rule file. A set of them is compiled into an
//! index that finds the rules of a request without looking at all of them.

pub mod attribute;
pub mod expr;
pub mod params;
pub mod pattern;
mod quote;
pub mod request;
mod spec;
pub mod target;

pub use attribute::{Attribute, AttributeError};
pub use expr::{Expr, ExprError};
pub use params::Params;
pub use pattern::PathPattern;
pub use request::{AttributeMap, Attributes, NoAttributes, Request, Side};
pub use spec::{
    Ban, ClusterMode, Cost, KeyPart, Mode, OnLimit, OnStoreFailure, Priority, Queue, Reply, ReplyBody, Rule, Scope,
};
pub use target::{Target, TargetError};

//! Rules: requests to match, key to count by, limits, and the action at the limit.
//!
//! A [`Rule`] is plain data, constructed or read from a rule file. A set of rules is compiled into a
//! [`RuleIndex`] that finds the rules of a request without checking all of them. In the order of a request:
//!
//! | step | module |
//! |---|---|
//! | the adapter describes the request | [`request`], [`attribute`] |
//! | lists admit or refuse it | [`lists`] |
//! | the index finds its rules by path, service, method, host | [`index`], [`target`], [`pattern`] |
//! | each rule's condition is evaluated | [`expr`] |
//! | each rule counts it by its key | [`key`], [`params`] |
//!
//! ```
//! use sluicegate_engine::rule::{Expr, Request, Rule, RuleIndex, Target};
//!
//! let mut orders = Rule::new("orders", ["10/s".parse()?]);
//! orders.target = Target::parse("POST /api/orders")?;
//! orders.when = Some(Expr::parse("client.ip in 203.0.113.0/24")?);
//! let rules = [Rule::new("everything", ["300/1m".parse()?]), orders];
//!
//! let index = RuleIndex::build(&rules);
//! let request = Request::new("POST", "/api/orders").with_client_ip([203, 0, 113, 9]);
//! let mut names = Vec::new();
//! index.matching(&rules, &request, |rule, _params| names.push(rules[rule].name.as_str()));
//! assert_eq!(names, ["everything", "orders"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod adaptive;
pub mod attribute;
mod definition;
pub mod expr;
pub mod index;
pub mod key;
pub(crate) mod key_values;
pub mod lists;
pub mod params;
pub mod pattern;
mod quote;
pub mod request;
pub mod target;

pub use adaptive::{Adaptive, Auto, Cap, Ceiling, Comparison, Condition, CpuGuard, Quorum, Signal, SignalUnit};
pub use attribute::{Attribute, AttributeError};
pub use definition::{
    Ban, ClusterMode, Cost, CostSource, KeyPart, Mode, OnLimit, OnStoreFailure, Priority, Queue, Reply, ReplyBody,
    Rule, Scope,
};
pub use expr::{Expr, ExprError};
pub use index::RuleIndex;
pub use key::{hash_key, readable_key};
pub use lists::{ListHit, ListIndex, Lists};
pub use params::Params;
pub use pattern::PathPattern;
pub use request::{AttributeMap, Attributes, Direction, NoAttributes, Request};
pub use target::{Target, TargetError};

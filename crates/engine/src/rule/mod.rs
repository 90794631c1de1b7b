//! Rules: which requests are limited, by which key, how, and what happens then.
//!
//! A [`Rule`] is plain data, made by hand or read from a rule file. A set of them is compiled into a
//! [`RuleIndex`] that finds the rules of a request without looking at all of them. In the order a
//! request meets them:
//!
//! | step | module |
//! |---|---|
//! | the adapter describes what came over the wire | [`request`], [`attribute`] |
//! | lists let it through or turn it away | [`lists`] |
//! | the index finds its rules by path, service, method, host | [`index`], [`target`], [`pattern`] |
//! | a rule's condition holds or not | [`expr`] |
//! | each rule counts it under its key | [`key`], [`params`] |
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
pub mod expr;
pub mod index;
pub mod key;
pub mod lists;
pub mod params;
pub mod pattern;
mod quote;
pub mod request;
mod spec;
pub mod target;
pub(crate) mod values;

pub use adaptive::{Adaptive, Auto, Ceiling, Comparison, Condition, CpuGuard, Most, Need, Signal, SignalUnit};
pub use attribute::{Attribute, AttributeError};
pub use expr::{Expr, ExprError};
pub use index::RuleIndex;
pub use key::{hash_key, readable_key};
pub use lists::{ListHit, ListIndex, Lists};
pub use params::Params;
pub use pattern::PathPattern;
pub use request::{AttributeMap, Attributes, NoAttributes, Request, Side};
pub use spec::{
    Actual, Ban, ClusterMode, Cost, KeyPart, Mode, OnLimit, OnStoreFailure, Priority, Queue, Reply, ReplyBody, Rule,
    Scope,
};
pub use target::{Target, TargetError};

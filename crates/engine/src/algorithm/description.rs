//! Description of an algorithm: its name, parameters and properties, written once in its file.
//!
//! The rule file with its schema and reference, the attribute macro, saved states, the admin API, headers, lints
//! and metrics read the [`Description`] and the values of its [`Parameter`]s, and name no algorithm themselves.

use std::time::Duration;

use super::gcra::Gcra;
use super::store_form::{StoreForm, StoreFormError};
use super::token_bucket::TokenBucket;
use crate::quota::parse::{HumanBytes, HumanDuration};
use crate::quota::{LimitError, Rate};

/// Maximum number of parameters, including the main one. A saved state has no room for more.
pub const MAX_PARAMETERS: usize = 3;

/// Constant properties of an algorithm.
#[derive(Debug)]
pub struct Description {
    /// Name in rule files: `token_bucket`.
    pub name: &'static str,
    /// Name in texts, with its article: `a token bucket`.
    pub title: &'static str,
    /// Description for the reference, in one line.
    pub doc: &'static str,
    /// Number in saved states. Never reused.
    pub code: u64,
    /// Quantity that the limit counts.
    pub unit: LimitUnit,
    /// Delays of admitted requests.
    pub pacing: Pacing,
    /// True if charges can be refunded later, at an unknown time.
    pub refundable: bool,
    /// True if the state can have room for reservations.
    pub reservable: bool,
    /// The parameters. The first one is the value of the algorithm's name.
    pub parameters: &'static [Parameter],
}

/// Quantity that a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitUnit {
    /// Cost of the requests.
    Requests,
    /// Requests in flight. Only the holder of a permit can release it.
    Permits,
    /// Bytes.
    Bytes,
}

/// Delays of admitted requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// Admitted requests proceed immediately.
    None,
    /// Requests are spread over time.
    Paced,
    /// Requests are spread over time, and wait in a queue of limited length.
    Queue,
}

/// A parameter of an algorithm.
#[derive(Debug)]
pub struct Parameter {
    /// Name in rule files.
    pub name: &'static str,
    /// Description for the reference, in one line.
    pub doc: &'static str,
    /// Type of the value.
    pub kind: ParameterKind,
    /// Description of the default; `None` if the parameter is required.
    pub default: Option<&'static str>,
    /// Example in rule file syntax.
    pub example: &'static str,
    /// Text of an option in the notation of a limit, with `{}` for the value: `, burst {}`.
    pub notation: &'static str,
}

/// Type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// A count per period: `10/s`.
    Rate,
    /// A count per window: `300/1m`.
    Window,
    /// Bytes per period: `2MiB/s`.
    ByteRate,
    /// An integer in this inclusive range.
    Count(u64, u64),
    /// Bytes: `8MiB`.
    Size,
    /// A duration: `10s`.
    Duration,
    /// One of these words, each with its meaning. The first one is the default and not part of the notation.
    Keyword(&'static [(&'static str, &'static str)]),
}

/// ParameterValue of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterValue {
    /// ParameterValue of a rate, a window or a byte rate.
    Rate(Rate),
    /// ParameterValue of a count or a size.
    Count(u64),
    /// ParameterValue of a duration.
    Duration(Duration),
    /// Index of a keyword.
    Keyword(usize),
}

/// Values of an algorithm's parameters, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitArguments([Option<ParameterValue>; MAX_PARAMETERS]);

/// Local share of a limit on one of several processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share<A> {
    /// A smaller limit of the same algorithm.
    Limit(A),
    /// A token bucket, where a share is too small for the algorithm.
    TokenBucket(TokenBucket),
    /// Nothing: fewer permits than processes.
    Nothing,
}

/// Form in which processes lease parts of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseForm {
    /// A token bucket.
    Bucket(Gcra),
    /// A count in the current cell and the `cells` before it; 0 for a window aligned to the epoch.
    Window {
        /// Maximum count.
        limit: u64,
        /// Length of the window.
        window: Duration,
        /// Cells of the window.
        cells: u32,
    },
}

/// Noticeable difference between a limit as written and as enforced, which is always stricter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imprecision {
    /// The difference.
    pub description: String,
    /// Change that reduces it.
    pub remedy: &'static str,
}

/// Parameters and properties of an algorithm's limits.
pub trait Describe: Copy + Sized {
    /// The constant properties.
    const DESCRIPTION: &'static Description;

    /// Limit with these parameters. Absent options have their defaults.
    fn from_arguments(arguments: &LimitArguments) -> Result<Self, LimitError>;

    /// All parameters.
    fn arguments(&self) -> LimitArguments;

    /// Maximum available at once; `u64::MAX` if a cost of any size is admitted.
    fn capacity(&self) -> u64;

    /// The limit in the status of every state.
    fn status_limit(&self) -> u64 {
        self.capacity()
    }

    /// Time span of the limit: its window, or the time its burst or queue takes at its rate.
    fn window(&self) -> Option<Duration>;

    /// One of `nodes` equal shares of the limit. All shares together admit no more than the limit, except that a
    /// burst is rounded up to one.
    fn share(&self, nodes: NodeShare) -> Result<Share<Self>, LimitError>;

    /// Parameters for the script of the shared store.
    fn store_form(&self) -> Result<StoreForm, StoreFormError>;

    /// Form for leases; `None` if each request has to be decided in the store.
    fn lease_form(&self) -> Option<LeaseForm> {
        None
    }

    /// GCRA of a limit that is a token bucket.
    fn token_bucket(&self) -> Option<&Gcra> {
        None
    }

    /// The same limit with a word for reservations, if its algorithm supports them.
    #[must_use]
    fn with_reservations(self) -> Self {
        self
    }

    /// Carries over the state of a limit that differs in its quota only, if the states are comparable.
    fn carry_over(&self, _state: &mut [u64], _old: &Self, _old_state: &[u64]) -> bool {
        false
    }

    /// True if `self` admits nothing that `other` refuses, by their parameters alone.
    fn implies(&self, _other: &Self) -> bool {
        false
    }

    /// Maximum that the limit admits in any span of this length, if it has such a bound.
    fn max_admitted(&self, _span: Duration) -> Option<u128> {
        None
    }

    /// Time for which a request can count. If at most the capacity arrives in any span of this length, the limit
    /// refuses nothing.
    fn counting_time(&self) -> Option<Duration> {
        None
    }

    /// Difference between the limit as written and as enforced, if noticeable.
    fn imprecision(&self) -> Option<Imprecision> {
        None
    }
}

impl Description {
    /// Index of the parameter with this name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.parameters.iter().position(|parameter| parameter.name == name)
    }
}

impl Parameter {
    /// True if the parameter must be given.
    pub const fn is_required(&self) -> bool {
        self.default.is_none()
    }

    /// ParameterValue in rule file syntax.
    pub fn format(&self, value: ParameterValue) -> String {
        match (self.kind, value) {
            (ParameterKind::Window, ParameterValue::Rate(rate)) => {
                format!("{}/{}", rate.count(), HumanDuration(rate.period()))
            }
            (ParameterKind::ByteRate, ParameterValue::Rate(rate)) => {
                format!("{}/{}", HumanBytes(rate.count()), HumanDuration(rate.period()))
            }
            (_, ParameterValue::Rate(rate)) => rate.to_string(),
            (ParameterKind::Size, ParameterValue::Count(bytes)) => HumanBytes(bytes).to_string(),
            (_, ParameterValue::Count(count)) => count.to_string(),
            (_, ParameterValue::Duration(duration)) => HumanDuration(duration).to_string(),
            (ParameterKind::Keyword(words), ParameterValue::Keyword(index)) => {
                words.get(index).map_or_else(String::new, |(word, _)| (*word).to_owned())
            }
            (_, ParameterValue::Keyword(_)) => String::new(),
        }
    }

    /// Text of an option in the notation of a limit; empty for a keyword that is the default.
    pub(crate) fn notation(&self, value: ParameterValue) -> String {
        match value {
            ParameterValue::Keyword(0) => String::new(),
            ParameterValue::Keyword(_) => self.notation.replace("{}", &self.format(value).replace('_', " ")),
            _ => self.notation.replace("{}", &self.format(value)),
        }
    }
}

impl LimitArguments {
    /// These values, in the order of the parameters.
    pub fn new(values: impl IntoIterator<Item = Option<ParameterValue>>) -> Self {
        let mut arguments = Self::default();
        for (argument, value) in arguments.0.iter_mut().zip(values) {
            *argument = value;
        }
        arguments
    }

    pub(super) fn of<const N: usize>(values: [ParameterValue; N]) -> Self {
        Self::new(values.map(Some))
    }

    /// ParameterValue of the parameter at this position.
    pub fn get(&self, index: usize) -> Option<ParameterValue> {
        self.0.get(index).copied().flatten()
    }

    /// The main parameter, if it is a rate.
    pub(super) fn rate(&self) -> Result<Rate, LimitError> {
        match self.get(0) {
            Some(ParameterValue::Rate(rate)) => Ok(rate),
            _ => Err(missing("rate")),
        }
    }

    pub(super) fn count(&self, index: usize) -> Option<u64> {
        match self.get(index) {
            Some(ParameterValue::Count(count)) => Some(count),
            _ => None,
        }
    }

    /// A count of 32 bits. A larger one is out of range, too.
    pub(super) fn count32(&self, index: usize) -> Option<u32> {
        self.count(index).map(|count| u32::try_from(count).unwrap_or(u32::MAX))
    }

    pub(super) fn duration(&self, index: usize) -> Option<Duration> {
        match self.get(index) {
            Some(ParameterValue::Duration(duration)) => Some(duration),
            _ => None,
        }
    }

    /// Index of a keyword; 0 by default.
    pub(super) fn keyword(&self, index: usize) -> usize {
        match self.get(index) {
            Some(ParameterValue::Keyword(keyword)) => keyword,
            _ => 0,
        }
    }
}

/// Error of a required parameter without a value. Parsers report it themselves, with the position.
pub(super) fn missing(field: &'static str) -> LimitError {
    LimitError::parameter(field, format!("missing parameter {field}"))
}

/// Equal shares of a limit for this number of processes; at least one.
#[derive(Clone, Copy, Debug)]
pub struct NodeShare(u32);

impl NodeShare {
    /// This number of processes; at least one.
    pub fn new(nodes: u32) -> Self {
        Self(nodes.max(1))
    }

    /// Equal part of an amount, rounded down.
    pub(super) fn divide(self, whole: u64) -> u64 {
        whole / u64::from(self.0)
    }

    /// Equal part of an amount, at least one.
    pub(super) fn part(self, whole: u64) -> u64 {
        self.divide(whole).max(1)
    }

    /// Equal part of a rate, without rounding if the period allows.
    pub(super) fn rate(self, rate: Rate) -> Result<Rate, LimitError> {
        let divide_count = || Rate::new(self.part(rate.count()), rate.period());
        match rate.period().checked_mul(self.0) {
            Some(period) => Rate::new(rate.count(), period).or_else(|_| divide_count()),
            None => divide_count(),
        }
    }

    /// Equal part of a count per window. If one per window is too much, the window is multiplied.
    pub(super) fn window(self, limit: u64, window: Duration) -> (u64, Duration) {
        let factor = match limit {
            0 => 1,
            limit => u64::from(self.0).div_ceil(limit).clamp(1, u64::from(u32::MAX)) as u32,
        };
        (self.part(limit), window.saturating_mul(factor))
    }
}

//! Rate limit headers for an ad hoc limit that is not part of a rule, such as one sent with the request.

use std::time::Duration;

use http::{HeaderName, HeaderValue};

use super::line::{HeaderLine, PushBytes};
use super::{FieldValues, HeaderStyle, LEGACY_NAMES, RateLimitFields, X_NAMES};
use crate::header_value::{MAX_INTEGER, quoted, seconds};

/// Quota of an ad hoc limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdHocQuota<'a> {
    /// Name of the limit.
    pub name: &'a str,
    /// Maximum per window.
    pub quota: u64,
    /// The window, if the limit has one.
    pub window: Option<Duration>,
    /// Remaining quota.
    pub remaining: u64,
    /// Time until the full quota is available again; `None` if it never is.
    pub reset: Option<Duration>,
}

impl RateLimitFields {
    /// Renders an ad hoc quota in the given style.
    pub(crate) fn ad_hoc(style: HeaderStyle, left: &AdHocQuota<'_>) -> Self {
        let kind = match style {
            HeaderStyle::Ietf => left.ietf(),
            HeaderStyle::Legacy => Some(left.triple(&LEGACY_NAMES)),
            HeaderStyle::X => Some(left.triple(&X_NAMES)),
            HeaderStyle::None => None,
        };
        Self(kind.unwrap_or_default())
    }
}

impl AdHocQuota<'_> {
    fn triple(&self, names: &'static [HeaderName; 3]) -> FieldValues {
        let [named @ .., _] = names;
        let remaining = self.remaining.min(self.quota);
        match self.reset {
            Some(reset) => FieldValues::Triple(names, [self.quota, remaining, seconds(reset)]),
            None => FieldValues::Triple(named, [self.quota, remaining, 0]),
        }
    }

    fn ietf(&self) -> Option<FieldValues> {
        let quota = self.quota.min(MAX_INTEGER);
        let name = quoted(self.name);
        let mut policy = HeaderLine::new();
        policy.push(&name);
        policy.push(b";q=");
        policy.push_number(quota);
        if let Some(window) = self.window {
            policy.push(b";w=");
            policy.push_number(seconds(window).max(1));
        }
        let mut remaining = HeaderLine::new();
        remaining.push(&name);
        remaining.push(b";r=");
        remaining.push_number(self.remaining.min(quota));
        if let Some(reset) = self.reset {
            remaining.push(b";t=");
            remaining.push_number(seconds(reset));
        }
        let value = |line: &HeaderLine| HeaderValue::from_bytes(line.as_bytes()).ok();
        Some(FieldValues::Ietf { policy: value(&policy)?, more_policies: Vec::new(), remaining: value(&remaining)? })
    }
}

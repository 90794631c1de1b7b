//! What is left of a limit that no rule stands for, such as one that came with the request.

use std::time::Duration;

use http::{HeaderName, HeaderValue};

use super::line::{Line, Pieces};
use super::number::{LARGEST, seconds};
use super::policy::quoted;
use super::{Fields, HeaderStyle, Kind, LEGACY, X};

/// What is left of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left<'a> {
    /// What the limit is called.
    pub name: &'a str,
    /// The most that can be had in its window.
    pub quota: u64,
    /// The window, if it has one.
    pub window: Option<Duration>,
    /// What can be had now.
    pub remaining: u64,
    /// Until everything is there again; `None` if that never comes.
    pub reset: Option<Duration>,
}

impl Fields {
    /// What is told of it, in the given style.
    pub(crate) fn left(style: HeaderStyle, left: &Left<'_>) -> Self {
        let kind = match style {
            HeaderStyle::Ietf => left.items(),
            HeaderStyle::Legacy => Some(left.three(&LEGACY)),
            HeaderStyle::X => Some(left.three(&X)),
            HeaderStyle::None => None,
        };
        Self(kind.unwrap_or_default())
    }
}

impl Left<'_> {
    fn three(&self, names: &'static [HeaderName; 3]) -> Kind {
        let [named @ .., _] = names;
        let remaining = self.remaining.min(self.quota);
        match self.reset {
            Some(reset) => Kind::Three(names, [self.quota, remaining, seconds(reset)]),
            None => Kind::Three(named, [self.quota, remaining, 0]),
        }
    }

    fn items(&self) -> Option<Kind> {
        let quota = self.quota.min(LARGEST);
        let name = quoted(self.name);
        let mut policy = Line::new();
        policy.push(&name);
        policy.push(b";q=");
        policy.push_number(quota);
        if let Some(window) = self.window {
            policy.push(b";w=");
            policy.push_number(seconds(window).max(1));
        }
        let mut left = Line::new();
        left.push(&name);
        left.push(b";r=");
        left.push_number(self.remaining.min(quota));
        if let Some(reset) = self.reset {
            left.push(b";t=");
            left.push_number(seconds(reset));
        }
        let value = |line: &Line| HeaderValue::from_bytes(line.as_bytes()).ok();
        Some(Kind::Ietf { policy: value(&policy)?, further: Vec::new(), left: value(&left)? })
    }
}

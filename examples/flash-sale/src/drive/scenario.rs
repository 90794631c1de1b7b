//! Scenarios of the comparison.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::Target;
use crate::shop::Step;

/// Sale with a step of the shop, directly or through the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// Directly to a step of the shop.
    Shop(Step),
    /// Through the gateway to the step `cache`.
    Gateway,
}

/// Unknown scenario.
#[derive(Debug, Error)]
#[error("unknown step `{0}`: use plain, lock, cache, limit, gateway or queue")]
pub struct UnknownScenario(String);

impl Scenario {
    /// All scenarios, in the order of the page.
    pub const ALL: [Self; 6] = [
        Self::Shop(Step::Plain),
        Self::Shop(Step::Lock),
        Self::Shop(Step::Cache),
        Self::Shop(Step::Limit),
        Self::Gateway,
        Self::Shop(Step::Queue),
    ];

    /// Name of the scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shop(step) => step.name(),
            Self::Gateway => "gateway",
        }
    }

    /// Number of stock updates in the original description of this sale: without a limit, and with one.
    pub(super) const fn reference_updates(self) -> Option<u32> {
        match self {
            Self::Shop(Step::Cache) => Some(157),
            Self::Shop(Step::Limit) => Some(36),
            Self::Shop(_) | Self::Gateway => None,
        }
    }

    /// URLs for the purchases.
    pub(super) fn urls(self, target: &Target) -> Vec<String> {
        let (hosts, step) = match self {
            Self::Shop(step) => (&target.shops, step),
            Self::Gateway => (&target.gateways, Step::Cache),
        };
        hosts.iter().map(|host| format!("{host}/sale/{step}")).collect()
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scenario {
    type Err = UnknownScenario;

    fn from_str(name: &str) -> Result<Self, UnknownScenario> {
        Self::ALL.into_iter().find(|scenario| scenario.name() == name).ok_or_else(|| UnknownScenario(name.to_owned()))
    }
}

//! The sales that are compared.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::Target;
use crate::shop::Step;

/// A sale: a step of the shop, or one of them behind the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// Straight to a step.
    Shop(Step),
    /// Through the gateway to the step `cache`.
    Gateway,
}

/// No such sale.
#[derive(Debug, Error)]
#[error("there is no step `{0}`: it is one of plain, lock, cache, limit, gateway, queue")]
pub struct UnknownScene(String);

impl Scene {
    /// All of them, from the plainest on.
    pub const ALL: [Self; 6] = [
        Self::Shop(Step::Plain),
        Self::Shop(Step::Lock),
        Self::Shop(Step::Cache),
        Self::Shop(Step::Limit),
        Self::Gateway,
        Self::Shop(Step::Queue),
    ];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shop(step) => step.name(),
            Self::Gateway => "gateway",
        }
    }

    /// How many updates of the stock the original of this sale needed: without a limit, and with it.
    pub(super) const fn original(self) -> Option<u32> {
        match self {
            Self::Shop(Step::Cache) => Some(157),
            Self::Shop(Step::Limit) => Some(36),
            Self::Shop(_) | Self::Gateway => None,
        }
    }

    /// Where its buyers go.
    pub(super) fn urls(self, target: &Target) -> Vec<String> {
        let (places, step) = match self {
            Self::Shop(step) => (&target.shops, step),
            Self::Gateway => (&target.gateways, Step::Cache),
        };
        places.iter().map(|place| format!("{place}/sale/{step}")).collect()
    }
}

impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scene {
    type Err = UnknownScene;

    fn from_str(name: &str) -> Result<Self, UnknownScene> {
        Self::ALL.into_iter().find(|scene| scene.name() == name).ok_or_else(|| UnknownScene(name.to_owned()))
    }
}

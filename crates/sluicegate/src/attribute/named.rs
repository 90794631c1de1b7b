//! Limits that operators write: the function knows only the rule's name.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use sluicegate_engine::gate::Ending;
use sluicegate_engine::sluice::{Admission, Cause};
use sluicegate_engine::{Outcome, Pass, Sluice};

use super::Limited;
use super::facts::{Fact, Told, as_request};
use super::line::{Asked, Line};
use crate::installed;

/// The rule a function is limited by.
pub struct Named {
    name: &'static str,
    missing: AtomicBool,
    listed: Once,
}

/// Functions whose rule was missing at least once. There are no more of them than the program has.
static LISTED: Mutex<Vec<&'static Named>> = Mutex::new(Vec::new());

/// Names of rules that functions are limited by and that were in force nowhere when they were asked for
/// last, or were keyed by an attribute that the function does not give. While a rule is missing so, the
/// limits written beside it hold, or 10 per second.
///
/// ```
/// use sluicegate::{Limited, attribute, limit};
///
/// #[limit(rule = "creat-order")] // a slip of the pen
/// fn order() -> Result<(), Limited> {
///     Ok(())
/// }
///
/// order()?;
/// assert_eq!(attribute::missing_rules(), ["creat-order"]);
/// # Ok::<(), Limited>(())
/// ```
pub fn missing_rules() -> Vec<&'static str> {
    let listed = LISTED.lock();
    let missing = listed.iter().filter(|rule| rule.missing.load(Ordering::Relaxed));
    missing.map(|rule| rule.name).collect::<BTreeSet<_>>().into_iter().collect()
}

impl Named {
    /// The rule of this name.
    pub const fn new(name: &'static str) -> Self {
        Self { name, missing: AtomicBool::new(false), listed: Once::new() }
    }

    /// Asks the rule in the sluice of the process, or the limits beside it if there is no such rule.
    pub fn ask<L: Asked>(
        &'static self,
        cost: u64,
        client_ip: Option<Option<IpAddr>>,
        facts: &[Fact<'_>],
        beside: impl FnOnce() -> Line<L>,
    ) -> Turn<L> {
        self.ask_any(installed::present().as_deref(), Told { cost, client_ip, facts }, beside)
    }

    /// Asks the rule in this sluice, or the limits beside it if there is no such rule.
    pub fn ask_in<L: Asked>(
        &'static self,
        sluice: &Sluice,
        cost: u64,
        client_ip: Option<Option<IpAddr>>,
        facts: &[Fact<'_>],
        beside: impl FnOnce() -> Line<L>,
    ) -> Turn<L> {
        self.ask_any(Some(sluice), Told { cost, client_ip, facts }, beside)
    }

    fn ask_any<L: Asked>(
        &'static self,
        sluice: Option<&Sluice>,
        told: Told<'_>,
        beside: impl FnOnce() -> Line<L>,
    ) -> Turn<L> {
        let admission = sluice.and_then(|sluice| as_request(told, |request| sluice.admit_named(self.name, request)));
        let admission = admission.filter(|admission| !admission.decided().is_some_and(|it| self.cannot_key(it, told)));
        self.note(admission.is_none());
        match admission {
            Some(admission) => Turn::Rule(self.name, admission),
            None => Turn::Beside(beside()),
        }
    }

    /// Whether the rule had no say because it counts by something that the function never gives. It would
    /// limit nothing, and nobody would know.
    fn cannot_key(&self, outcome: &Outcome, told: Told<'_>) -> bool {
        let rule = || outcome.rules().iter().find(|rule| rule.name == self.name);
        outcome.cause() == Cause::Rules
            && outcome.decisions().next().is_none()
            && rule().is_some_and(|rule| rule.key.iter().any(|part| !told.gives(&part.attribute)))
    }

    fn note(&'static self, missing: bool) {
        // Written only when it changes: every call reads it.
        if self.missing.load(Ordering::Relaxed) != missing {
            self.missing.store(missing, Ordering::Relaxed);
            self.listed.call_once(|| LISTED.lock().push(self));
        }
    }
}

/// A call on its way in, by a rule or by the limits beside it.
#[must_use = "nothing is asked for until it is awaited"]
#[expect(clippy::large_enum_variant, reason = "it lives for one call, and a box would be a detour on each")]
pub enum Turn<L> {
    /// The rule of this name decides.
    Rule(&'static str, Admission),
    /// There is no such rule.
    Beside(Line<L>),
}

/// What an admitted call holds until it ends.
pub enum Held {
    /// Nothing: the rule has neither permits nor estimates.
    Nothing,
    /// By a rule.
    Rule(Box<Outcome>),
    /// By the limits beside it.
    Beside(Pass),
}

impl Held {
    /// The call has ended: what was held goes back, and a rule that protects the process learns from it.
    pub fn ended(self, ending: Ending) {
        if let Self::Rule(mut outcome) = self {
            outcome.note(ending);
        }
    }
}

impl<L: Asked> Turn<L> {
    /// Waits for the turn.
    pub async fn admitted(self) -> Result<Held, Limited> {
        match self {
            Self::Rule(name, admission) => match admission.decided() {
                Some(outcome) if !outcome.is_held() => light(name, outcome),
                _ => held(name, admission.await),
            },
            Self::Beside(line) => line.admitted().await.map(Held::Beside),
        }
    }

    /// Waits for the turn on this thread.
    pub fn blocking(self) -> Result<Held, Limited> {
        match self {
            Self::Rule(name, admission) => match admission.decided() {
                Some(outcome) if !outcome.is_held() => light(name, outcome),
                _ => held(name, admission.blocking()),
            },
            Self::Beside(line) => line.blocking().map(Held::Beside),
        }
    }
}

/// What becomes of an outcome that holds nothing. It is large: it is looked at where it is.
fn light(name: &'static str, outcome: &Outcome) -> Result<Held, Limited> {
    if outcome.is_admitted() { Ok(Held::Nothing) } else { Err(Limited::rule(name, outcome)) }
}

fn held(name: &'static str, mut outcome: Outcome) -> Result<Held, Limited> {
    if !outcome.is_held() {
        return light(name, &outcome);
    }
    // A call that is dropped on the way, or panics, says nothing.
    outcome.note(Ending::Unknown);
    Ok(Held::Rule(Box::new(outcome)))
}

//! Limits defined by a rule: the function names the rule, operators write it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use sluicegate_engine::overload::Completion;
use sluicegate_engine::sluice::{Admission, Cause};
use sluicegate_engine::{Outcome, Permit, Sluice};

use super::Limited;
use super::attributes::{AttributeValue, CallAttributes, as_request};
use super::wait::{HasLimits, PendingAcquire};
use crate::global;

/// Rule that limits a function.
pub struct NamedRule {
    name: &'static str,
    missing: AtomicBool,
    registered: Once,
}

/// Functions whose rule was missing at least once. Bounded by the number of attributes in the program.
static REGISTERED_RULES: Mutex<Vec<&'static NamedRule>> = Mutex::new(Vec::new());

/// Names of rules that did not exist at the last call of their function, or whose key uses an attribute that the
/// function does not pass. Until the rule exists, the limits in the attribute apply, or 10 per second.
///
/// ```
/// use sluicegate::{Limited, attribute, limit};
///
/// #[limit(rule = "creat-order")] // a typo
/// fn order() -> Result<(), Limited> {
///     Ok(())
/// }
///
/// order()?;
/// assert_eq!(attribute::missing_rules(), ["creat-order"]);
/// # Ok::<(), Limited>(())
/// ```
pub fn missing_rules() -> Vec<&'static str> {
    let listed = REGISTERED_RULES.lock();
    let missing = listed.iter().filter(|rule| rule.missing.load(Ordering::Relaxed));
    missing.map(|rule| rule.name).collect::<BTreeSet<_>>().into_iter().collect()
}

impl NamedRule {
    /// Refers to the rule with this name.
    pub const fn new(name: &'static str) -> Self {
        Self { name, missing: AtomicBool::new(false), registered: Once::new() }
    }

    /// Checks the rule of the global sluice, or the inline limits if there is no such rule.
    pub fn check<L: HasLimits>(
        &'static self,
        cost: u64,
        client_ip: Option<Option<IpAddr>>,
        values: &[AttributeValue<'_>],
        inline: impl FnOnce() -> PendingAcquire<L>,
    ) -> PendingCall<L> {
        self.check_with(global::current().as_deref(), CallAttributes { cost, client_ip, values }, inline)
    }

    /// Checks the rule of this sluice, or the inline limits if there is no such rule.
    pub fn check_in<L: HasLimits>(
        &'static self,
        sluice: &Sluice,
        cost: u64,
        client_ip: Option<Option<IpAddr>>,
        values: &[AttributeValue<'_>],
        inline: impl FnOnce() -> PendingAcquire<L>,
    ) -> PendingCall<L> {
        self.check_with(Some(sluice), CallAttributes { cost, client_ip, values }, inline)
    }

    fn check_with<L: HasLimits>(
        &'static self,
        sluice: Option<&Sluice>,
        attributes: CallAttributes<'_>,
        inline: impl FnOnce() -> PendingAcquire<L>,
    ) -> PendingCall<L> {
        let admission = sluice.and_then(|sluice| {
            as_request(attributes, |request| sluice.rule(self.name).map(|rule| rule.admit(request)))
        });
        let admission =
            admission.filter(|admission| !admission.decided().is_some_and(|it| self.cannot_key(it, attributes)));
        self.record_missing(admission.is_none());
        match admission {
            Some(admission) => PendingCall::Rule(self.name, admission),
            None => PendingCall::Inline(inline()),
        }
    }

    /// True if the rule was not applied because the function does not pass an attribute of its key. Such a rule
    /// would silently limit nothing.
    fn cannot_key(&self, outcome: &Outcome, attributes: CallAttributes<'_>) -> bool {
        let rule = || outcome.rules().iter().find(|rule| rule.name == self.name);
        outcome.cause() == Cause::Rules
            && outcome.decisions().next().is_none()
            && rule().is_some_and(|rule| rule.key.iter().any(|part| !attributes.provides(&part.attribute)))
    }

    fn record_missing(&'static self, missing: bool) {
        // Written only on a change, because every call reads it.
        if self.missing.load(Ordering::Relaxed) != missing {
            self.missing.store(missing, Ordering::Relaxed);
            self.registered.call_once(|| REGISTERED_RULES.lock().push(self));
        }
    }
}

/// A pending call, decided by a rule or by the inline limits.
#[must_use = "nothing is acquired until this is awaited or `blocking` is called"]
#[expect(clippy::large_enum_variant, reason = "it lives for one call, and a box would cost an allocation per call")]
pub enum PendingCall<L> {
    /// The rule with this name decides.
    Rule(&'static str, Admission),
    /// There is no such rule; the inline limits decide.
    Inline(PendingAcquire<L>),
}

/// Guard of an admitted call, held until the call ends.
pub enum CallGuard {
    /// Nothing: the rule has neither permits nor estimates.
    Nothing,
    /// Permits and estimates of a rule.
    Rule(Box<Outcome>),
    /// Permit of the inline limits.
    Inline(Permit),
}

impl CallGuard {
    /// Releases the guard and records the completion for overload protection.
    pub fn complete(self, completion: Completion) {
        if let Self::Rule(mut outcome) = self {
            outcome.record(completion);
        }
    }
}

impl<L: HasLimits> PendingCall<L> {
    /// Waits until the call is admitted or refused.
    pub async fn admitted(self) -> Result<CallGuard, Limited> {
        match self {
            Self::Rule(name, admission) => match admission.decided() {
                Some(outcome) if !outcome.holds_resources() => without_guard(name, outcome),
                _ => with_guard(name, admission.await),
            },
            Self::Inline(pending) => pending.admitted().await.map(CallGuard::Inline),
        }
    }

    /// Blocks the thread until the call is admitted or refused.
    pub fn blocking(self) -> Result<CallGuard, Limited> {
        match self {
            Self::Rule(name, admission) => match admission.decided() {
                Some(outcome) if !outcome.holds_resources() => without_guard(name, outcome),
                _ => with_guard(name, admission.blocking()),
            },
            Self::Inline(pending) => pending.blocking().map(CallGuard::Inline),
        }
    }
}

/// Converts an outcome that holds nothing. By reference, because an outcome is large.
fn without_guard(name: &'static str, outcome: &Outcome) -> Result<CallGuard, Limited> {
    if outcome.is_admitted() { Ok(CallGuard::Nothing) } else { Err(Limited::rule(name, outcome)) }
}

fn with_guard(name: &'static str, mut outcome: Outcome) -> Result<CallGuard, Limited> {
    if !outcome.holds_resources() {
        return without_guard(name, &outcome);
    }
    // A call that is cancelled or panics has an unknown completion.
    outcome.record(Completion::Unknown);
    Ok(CallGuard::Rule(Box::new(outcome)))
}

//! Bandwidth: how many bytes of a request's bodies may pass, and when.
//!
//! A rule that limits nothing but bandwidth has no say in whether a request is let in: at that time nobody
//! knows how many bytes there will be. It meters them as they pass. All bodies of one key share the
//! rule's bucket, however many connections they go over.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use smallvec::SmallVec;

use super::snapshot::Counters;
use crate::algorithm::Check;
use crate::decision::{Decision, Verdict};
use crate::limit::{Limit, Rate};
use crate::limiter::{Inner, NO_STATE, Reason};
use crate::plan::Ruling;
use crate::rule::{Rule, Scope};
use crate::table::KeyHash;
use crate::time::Timestamp;
use crate::wait::{Asked, InLine, Turn};

/// What the rate gives in this time is worth waiting for: less would make many small pieces of a body, more
/// would hold back what may pass.
const STEP: Duration = Duration::from_millis(50);

impl Rule {
    /// Whether it paces the bytes of bodies instead of deciding about requests: all its limits are
    /// bandwidth, and each process counts for itself.
    pub fn is_metering(&self) -> bool {
        let paces = |limit: &Limit| matches!(limit, Limit::Bandwidth(_));
        self.scope == Scope::Local && !self.limits.is_empty() && self.limits.iter().all(paces)
    }
}

/// What a rule meters with. Downloads that are under way keep it, through all changes of the rule.
pub(super) struct Pacer {
    limiter: Arc<Inner>,
    counters: Arc<Counters>,
    /// The least that is worth waiting for.
    step: AtomicU64,
    /// Whether everything may pass: the rule is gone, or only watches.
    lifted: AtomicBool,
}

impl Pacer {
    /// The pacer of a rule with this limiter: the one it had before, if it is still the same limiter.
    pub(super) fn take_up(
        rule: &Rule,
        limiter: &Arc<Inner>,
        counters: &Arc<Counters>,
        old: Option<&Arc<Self>>,
    ) -> Arc<Self> {
        let step = step(rule);
        if let Some(old) = old.filter(|old| Arc::ptr_eq(&old.limiter, limiter)) {
            old.step.store(step, Ordering::Relaxed);
            return Arc::clone(old);
        }
        let (step, lifted) = (AtomicU64::new(step), AtomicBool::new(false));
        Arc::new(Self { limiter: Arc::clone(limiter), counters: Arc::clone(counters), step, lifted })
    }

    /// Lets everything pass from now on, or no longer.
    pub(super) fn lift(&self, lifted: bool) {
        self.lifted.store(lifted, Ordering::Relaxed);
        if lifted {
            self.limiter.room.disturb();
        }
    }

    fn is_lifted(&self) -> bool {
        self.lifted.load(Ordering::Relaxed)
    }
}

/// The least that is worth waiting for.
fn step(rule: &Rule) -> u64 {
    let of_limit = |limit: &Limit| match limit {
        Limit::Bandwidth(bucket) => Some(within(STEP, bucket.rate()).clamp(1, bucket.burst())),
        _ => None,
    };
    rule.limits.iter().filter_map(of_limit).min().unwrap_or(1)
}

/// What a rate gives in a span of time.
fn within(span: Duration, rate: Rate) -> u64 {
    let given = u128::from(rate.count()) * span.as_nanos() / rate.period().as_nanos().max(1);
    u64::try_from(given).unwrap_or(u64::MAX)
}

/// What meters the bytes of one request: the buckets of its key in every rule that paces it. Clones take
/// from the same buckets. Without any, everything passes.
///
/// ```
/// use sluicegate_engine::{Limit, Rate, Sluice, rule::{Request, Rule}};
///
/// let download = Limit::bandwidth(Rate::per_second(1_000)?, 4_000)?;
/// let sluice = Sluice::builder().rule(Rule::new("download", [download])).build()?;
/// let outcome = sluice.decide(&Request::new("GET", "/film"));
/// assert!(outcome.is_admitted());
///
/// let meters = outcome.meters();
/// assert_eq!(meters.try_take(3_000), 3_000);
/// assert!((1_000..1_050).contains(&meters.try_take(3_000)), "no more than is left");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Meters(SmallVec<[Meter; 1]>);

#[derive(Clone)]
struct Meter {
    pacer: Arc<Pacer>,
    key: KeyHash,
}

impl Meters {
    pub(super) fn new<'a>(buckets: impl Iterator<Item = (&'a Arc<Pacer>, KeyHash)>) -> Self {
        let mut meters: SmallVec<_> = buckets.map(|(pacer, key)| Meter { pacer: Arc::clone(pacer), key }).collect();
        // Everybody takes limiters in the same order, so nobody waits in a circle.
        meters.sort_unstable_by_key(|meter: &Meter| meter.pacer.limiter.id());
        Self(meters)
    }

    /// Whether nothing is metered.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes as many bytes as may pass now, `most` at most. None while others wait for the same key, and
    /// none if there are so few that they are not worth a piece of their own.
    pub fn try_take(&self, most: u64) -> u64 {
        let Some(first) = self.0.first() else { return most };
        if most == 0 || self.0.iter().any(Meter::has_line) {
            return 0;
        }
        grant(&self.0, first.pacer.limiter.clock.now(), self.worth_taking(most), most)
    }

    /// Waits until bytes may pass, first in, first out per key, and takes some of them: `most` at most. Who
    /// wants more asks again, behind those who came meanwhile, so that all get about the same.
    pub fn take(&self, most: u64) -> TakingBytes {
        if self.is_empty() || most == 0 {
            return TakingBytes(State::Granted(most));
        }
        TakingBytes(State::InLine(InLine::new(MeterTurn { meters: self.clone(), most, at: 0 }, None)))
    }

    /// The least that is worth taking for somebody who wants `most`.
    fn worth_taking(&self, most: u64) -> u64 {
        let steps = self.0.iter().map(|meter| meter.pacer.step.load(Ordering::Relaxed));
        steps.min().unwrap_or(1).min(most)
    }

    /// The meter that makes wait longest for so many bytes, and how long that is.
    fn slowest(&self, now: Timestamp, bytes: u64) -> (usize, Duration) {
        let wait = |meter: &Meter| match meter.pacer.is_lifted() {
            true => Duration::ZERO,
            false => meter.pacer.limiter.least_wait(meter.key, now, bytes),
        };
        let waits = self.0.iter().map(wait).enumerate();
        waits.max_by_key(|(_, wait)| *wait).unwrap_or_default()
    }
}

impl Meter {
    fn has_line(&self) -> bool {
        !self.pacer.is_lifted() && self.pacer.limiter.has_line(self.key)
    }
}

/// Takes `least` to `most` bytes from all these meters, the same from each, or nothing from any. Each is
/// held while the next is asked.
fn grant(meters: &[Meter], now: Timestamp, least: u64, most: u64) -> u64 {
    let Some((Meter { pacer, key }, others)) = meters.split_first() else { return most };
    if pacer.is_lifted() {
        return grant(others, now, least, most);
    }
    let mut granted = 0;
    pacer.limiter.visit(*key, now, &mut |plan, state| {
        let left = plan.report(&mut Ruling { check: Check::Now, limit: 0 }, state, now).remaining;
        if left >= least {
            granted = grant(others, now, least, left.min(most));
        }
        if granted > 0 {
            plan.take(state, now, granted, false, &mut None);
        }
        granted > 0
    });
    if granted > 0 {
        pacer.counters.bytes.fetch_add(granted, Ordering::Relaxed);
    }
    granted
}

/// Bytes that are waited for. Resolves to how many may pass now; until then nothing is taken, and dropping
/// it leaves the line.
#[must_use = "futures do nothing unless polled"]
pub struct TakingBytes(State);

enum State {
    InLine(InLine<MeterTurn>),
    Granted(u64),
    Done,
}

impl Future for TakingBytes {
    type Output = u64;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u64> {
        let granted = match &mut self.0 {
            State::Granted(bytes) => *bytes,
            // Polled again after it was ready: there is nothing more to come.
            State::Done => return Poll::Pending,
            State::InLine(line) => match poll_lines(line, context) {
                Poll::Ready(bytes) => bytes,
                Poll::Pending => return Poll::Pending,
            },
        };
        self.0 = State::Done;
        Poll::Ready(granted)
    }
}

/// Stands in the line of the meter that makes wait longest. That may become another one meanwhile.
fn poll_lines(line: &mut InLine<MeterTurn>, context: &mut Context<'_>) -> Poll<u64> {
    for _ in 0..=line.turn_mut().meters.0.len() {
        match Pin::new(&mut *line).poll(context) {
            Poll::Ready(Ok(bytes)) => return Poll::Ready(bytes),
            Poll::Ready(Err(at)) => {
                let MeterTurn { meters, most, .. } = line.turn_mut();
                let turn = MeterTurn { meters: std::mem::take(meters), most: *most, at };
                *line = InLine::new(turn, None);
            }
            Poll::Pending => return Poll::Pending,
        }
    }
    // It changes as fast as one can look.
    context.waker().wake_by_ref();
    Poll::Pending
}

/// Somebody in the line of one of its meters.
struct MeterTurn {
    meters: Meters,
    most: u64,
    /// Which of them.
    at: usize,
}

impl Turn for MeterTurn {
    type Pass = u64;
    /// The meter to wait for instead.
    type Refusal = usize;

    fn limiter(&self) -> &Arc<Inner> {
        &self.meters.0[self.at].pacer.limiter
    }

    fn key(&self) -> KeyHash {
        self.meters.0[self.at].key
    }

    fn cost(&self) -> u64 {
        self.meters.worth_taking(self.most)
    }

    /// Bodies have nowhere else to wait, and requests are bounded by other means.
    fn even_if_full(&self) -> bool {
        true
    }

    fn ask(&mut self, now: Timestamp, _waker: &Waker) -> Asked<u64> {
        let bytes = self.cost();
        let granted = grant(&self.meters.0, now, bytes, bytes);
        if granted > 0 {
            return Asked::Admitted(granted);
        }
        let (slowest, wait) = self.meters.slowest(now, bytes);
        let decision = Decision { verdict: Verdict::Denied { retry_after: Some(wait) }, ..NO_STATE };
        if slowest == self.at { Asked::NotYet(decision) } else { Asked::Refused(decision) }
    }

    fn refuse(&mut self, _decision: Decision, _reason: Reason) -> usize {
        let now = self.limiter().clock.now();
        self.meters.slowest(now, self.cost()).0
    }
}

impl std::fmt::Debug for Meters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meters").field("rules", &self.0.len()).finish()
    }
}

impl std::fmt::Debug for TakingBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TakingBytes").finish_non_exhaustive()
    }
}

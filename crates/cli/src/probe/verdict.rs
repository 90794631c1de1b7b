//! Whether a service bore a step: the conditions, and who is to blame.
//!
//! A step is good if the service answered what was asked (97 %), no slower than it should (p99), and without failing
//! (0.1 %). If it is not, the load generator may be to blame just as well: requests that left late look like a slow
//! service. Then the step is *unclear*, and no peak is made of it.

use std::fmt;
use std::time::Duration;

use super::figures::{latency, percent, rate};
use super::step::Step;

/// A good step answers at least so much of what was due.
const ENOUGH: f64 = 0.97;
/// So many requests may hang over the edges of what is measured, and be missing without meaning anything.
const EDGES: f64 = 2.0;
/// A good step fails less often than this.
const FAILURES: f64 = 0.001;
/// More failures than this are distress: the service is left alone.
const DISTRESS: f64 = 0.5;
/// A p99 of so many times the unloaded one is too slow, ...
const SLOWER: u32 = 3;
/// ... but never less than this.
const FLOOR: Duration = Duration::from_millis(10);
/// How many steps of the lowest rates tell what the service does unloaded.
const UNLOADED: usize = 3;
/// With this much of the processor taken, the load generator has no more to give.
const BUSY: f64 = 0.9;

/// What is asked of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Demands {
    /// The p99 that was asked for. Without it, it is learnt from the steps.
    pub(super) p99: Option<Duration>,
    /// The p99 of lateness at which the load generator is to blame.
    pub(super) late: Duration,
}

/// What is thought of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    Good,
    Bad(Cause),
    /// It was not good, but the service need not be to blame.
    Unclear(Blame),
}

/// The condition that did not hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cause {
    /// Refused with status 429: so much of what was due.
    Limited { share: f64 },
    /// So much of what was due has failed.
    Failures { share: f64 },
    /// Fewer good answers than there should be, per second.
    Goodput { goodput: f64, offered: f64 },
    /// The p99, and what it may be.
    Latency { p99: Duration, most: Duration },
}

/// What ails the load generator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Blame {
    /// Requests left late: the p99.
    Late(Duration),
    /// It took so much of the processor.
    Processor(f64),
    /// This machine had no more files or ports.
    Exhausted,
}

/// A step and what is thought of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Judged {
    pub(super) step: Step,
    pub(super) verdict: Verdict,
}

/// Judges all steps, by what all of them together tell of the unloaded service.
pub(super) fn judge(steps: &[Step], demands: Demands) -> Vec<Judged> {
    let most = most_p99(steps, demands);
    steps.iter().map(|step| Judged { step: step.clone(), verdict: verdict(step, most, demands.late) }).collect()
}

/// The p99 that a good step may have: as asked for, or three times the median of the three steps of the lowest rates, 10 ms
/// at least.
pub(super) fn most_p99(steps: &[Step], demands: Demands) -> Duration {
    if let Some(asked) = demands.p99 {
        return asked;
    }
    // A step that left late tells how slow the load generator is.
    let timely = steps.iter().filter(|step| step.late <= demands.late);
    let mut answered: Vec<(f64, Duration)> = timely.filter_map(|step| Some((step.offered, step.p99?))).collect();
    answered.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let mut unloaded: Vec<Duration> = answered.into_iter().take(UNLOADED).map(|(_, p99)| p99).collect();
    unloaded.sort_unstable();
    let median = unloaded.get(unloaded.len().saturating_sub(1) / 2).copied().unwrap_or_default();
    (median * SLOWER).max(FLOOR)
}

fn verdict(step: &Step, most: Duration, late: Duration) -> Verdict {
    let failures = &step.failures;
    let (limited, failed) = (step.share(failures.limited), step.share(failures.of_service()));
    // Refusals may come of the bursts that a late load generator sends. This comes of nothing but the service.
    if step.share(failures.server_errors) >= FAILURES {
        return Verdict::Bad(Cause::Failures { share: failed });
    }
    let missing = step.due as f64 * ENOUGH - EDGES - step.good as f64;
    let cause = if limited >= FAILURES && limited >= failed {
        Cause::Limited { share: limited }
    } else if failed >= FAILURES {
        Cause::Failures { share: failed }
    } else if missing > 0.0 {
        Cause::Goodput { goodput: step.goodput, offered: step.offered }
    } else {
        match step.p99 {
            Some(p99) if p99 > most => Cause::Latency { p99, most },
            _ if failures.exhausted > 0 => return Verdict::Unclear(Blame::Exhausted),
            _ => return Verdict::Good,
        }
    };
    match step.processor {
        _ if failures.exhausted > 0 => Verdict::Unclear(Blame::Exhausted),
        _ if step.late > late => Verdict::Unclear(Blame::Late(step.late)),
        Some(share) if share >= BUSY => Verdict::Unclear(Blame::Processor(share)),
        _ => Verdict::Bad(cause),
    }
}

/// Whether so much fails that the service should be left alone. A limit that refuses is no distress, nor is a load
/// generator that stood still until nobody waited for an answer any more.
pub(super) fn is_distress(Judged { step, verdict }: &Judged) -> bool {
    matches!(verdict, Verdict::Bad(_)) && step.share(step.failures.of_service()) > DISTRESS
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Good => f.write_str("good"),
            Self::Bad(cause) => write!(f, "{cause}"),
            Self::Unclear(blame) => write!(f, "unclear: {blame}"),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Limited { share } => write!(f, "{} refused with 429", percent(share)),
            Self::Failures { share } => write!(f, "{} failed", percent(share)),
            Self::Goodput { goodput, offered } => {
                write!(f, "{} good answers/s of {}/s", rate(goodput), rate(offered))
            }
            Self::Latency { p99, most } => write!(f, "p99 {} is over {}", latency(p99), latency(most)),
        }
    }
}

impl fmt::Display for Blame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Late(late) => write!(f, "requests left {} late", latency(late)),
            Self::Processor(share) => write!(f, "the load generator took {} of the processor", percent(share)),
            Self::Exhausted => f.write_str("no more files or ports for connections"),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::step::Failures;
    use super::*;

    pub(in crate::probe) const DEMANDS: Demands = Demands { p99: None, late: Duration::from_millis(10) };

    /// A step of 4 seconds in which everything went well.
    pub(in crate::probe) fn well(offered: f64, p99_ms: u64) -> Step {
        let due = (offered * 4.0) as u64;
        Step {
            offered,
            goodput: offered,
            due,
            good: due,
            p50: Some(Duration::from_millis(p99_ms / 2)),
            p99: Some(Duration::from_millis(p99_ms)),
            late: Duration::from_millis(1),
            processor: Some(0.2),
            statuses: [(200, due)].into(),
            failures: Failures::default(),
        }
    }

    /// A step of 4 seconds that asked for more than there was.
    pub(in crate::probe) fn behind(offered: f64, goodput: f64) -> Step {
        Step { goodput, good: (goodput * 4.0) as u64, ..well(offered, 8) }
    }

    fn judged(step: Step) -> Judged {
        judge(&[well(10.0, 4), well(15.0, 4), well(22.0, 5), step], DEMANDS).pop().unwrap()
    }

    fn of(step: Step) -> Verdict {
        judged(step).verdict
    }

    #[test]
    fn each_condition_is_asked() {
        assert_eq!(of(well(100.0, 12)), Verdict::Good);
        let most = Duration::from_millis(12);
        let p99 = Duration::from_millis(13);
        assert_eq!(of(well(100.0, 13)), Verdict::Bad(Cause::Latency { p99, most }));
        assert_eq!(of(behind(100.0, 96.75)), Verdict::Good, "a request or two hang over the edges");
        assert_eq!(of(behind(100.0, 96.0)), Verdict::Bad(Cause::Goodput { goodput: 96.0, offered: 100.0 }));
        let failures = Failures { timed_out: 4, ..Failures::default() };
        assert_eq!(of(Step { failures, ..well(1_000.0, 5) }), Verdict::Bad(Cause::Failures { share: 0.001 }));
        let failures = Failures { timed_out: 3, ..Failures::default() };
        assert_eq!(of(Step { failures, ..well(1_000.0, 5) }), Verdict::Good);
    }

    #[test]
    fn the_unloaded_service_says_what_is_slow() {
        let ms = Duration::from_millis;
        assert_eq!(most_p99(&[well(10.0, 1)], DEMANDS), ms(10), "never less than this");
        let steps = [well(10.0, 300), well(15.0, 40), well(22.0, 50), well(33.0, 9_000)];
        assert_eq!(most_p99(&steps, DEMANDS), ms(150), "a cold start is no measure");
        assert_eq!(most_p99(&steps, Demands { p99: Some(ms(7)), ..DEMANDS }), ms(7));
        assert_eq!(most_p99(&[], DEMANDS), ms(10));
        let late = Step { late: ms(2_000), ..well(5.0, 2_100) };
        assert_eq!(most_p99(&[late, well(10.0, 20)], DEMANDS), ms(60), "a slow load generator is no slow service");
    }

    #[test]
    fn a_late_generator_is_no_bad_service() {
        let late = Duration::from_millis(30);
        assert_eq!(of(Step { late, ..well(100.0, 5) }), Verdict::Good, "it was borne all the same");
        assert_eq!(of(Step { late, ..behind(100.0, 80.0) }), Verdict::Unclear(Blame::Late(late)));
        assert_eq!(of(Step { late, ..well(100.0, 50) }), Verdict::Unclear(Blame::Late(late)));
        let busy = Step { processor: Some(0.97), ..behind(100.0, 80.0) };
        assert_eq!(of(busy), Verdict::Unclear(Blame::Processor(0.97)));
        let failures = Failures { exhausted: 1, ..Failures::default() };
        assert_eq!(of(Step { failures, ..well(100.0, 5) }), Verdict::Unclear(Blame::Exhausted));
        let failures = Failures { limited: 40, ..Failures::default() };
        let said = of(Step { late, failures, ..well(100.0, 5) });
        assert_eq!(said, Verdict::Unclear(Blame::Late(late)), "late requests leave in bursts, which a limit refuses");
        let failures = Failures { server_errors: 40, ..Failures::default() };
        let said = of(Step { late, failures, ..well(100.0, 5) });
        assert_eq!(said, Verdict::Bad(Cause::Failures { share: 0.1 }), "errors are the service's own");
    }

    #[test]
    fn a_limit_that_stands_there_is_told_from_failures() {
        let failures = Failures { limited: 300, unavailable: 4, ..Failures::default() };
        let limited = judged(Step { failures, ..behind(100.0, 24.0) });
        assert_eq!(limited.verdict, Verdict::Bad(Cause::Limited { share: 0.75 }));
        assert!(!is_distress(&limited), "a limit that refuses is no distress");
        let failures = Failures { unavailable: 300, ..Failures::default() };
        assert!(is_distress(&judged(Step { failures, ..behind(100.0, 24.0) })));
    }

    /// A machine that held the program up for seconds made it call a healthy service distressed: everything had timed
    /// out before it left.
    #[test]
    fn a_generator_that_stood_still_is_no_distress() {
        let failures = Failures { timed_out: 390, ..Failures::default() };
        let stopped = Step { late: Duration::from_secs(4), failures, ..behind(100.0, 0.0) };
        assert!(!is_distress(&judged(stopped.clone())));
        assert!(is_distress(&judged(Step { late: Duration::ZERO, ..stopped })));
    }
}

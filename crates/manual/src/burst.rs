//! One burst before one limiter, in virtual time.
//!
//! The requests are always the same ([`arrivals`]): ten just before a full second of the clock and ten just after it,
//! then a second with twice what the limits allow. So every picture answers the same two questions: what happens
//! at the seam of a window, and what is left of a steady overload.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::{Limit, LimitError, Limiter, Pass, Refused, Verdict};

/// How long is played, in milliseconds.
pub const LASTS: u64 = 4_500;

/// When requests come, in milliseconds.
pub fn arrivals() -> Vec<u64> {
    let before = (0..10).map(|nth| 900 + nth * 10);
    let after = (0..10).map(|nth| 1_000 + nth * 10);
    let steady = (0..20).map(|nth| 2_500 + nth * 50);
    before.chain(after).chain(steady).collect()
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It went on when it came.
    Passed,
    /// It went on at this millisecond.
    Waited(u64),
    /// It was told to come back later.
    Refused,
}

/// A request that came, and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// When it came, in milliseconds.
    pub came: u64,
    /// What became of it.
    pub fate: Fate,
}

impl Told {
    /// When it went on, if it did.
    pub fn started(&self) -> Option<u64> {
        match self.fate {
            Fate::Passed => Some(self.came),
            Fate::Waited(until) => Some(until),
            Fate::Refused => None,
        }
    }
}

/// How requests are put before a limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// How long a request may stand in line; not at all if nothing is said.
    pub patience: Option<Duration>,
    /// How long a request is inside, and holds its permit.
    pub inside: Duration,
}

type Waiting = Pin<Box<dyn Future<Output = Result<Pass, Refused>>>>;

/// What becomes of each of the [`arrivals`] before a limiter with this limit, in the order in which they came.
///
/// # Errors
///
/// If the limit makes no limiter.
pub fn play(limit: Limit, manner: Manner) -> Result<Vec<Told>, LimitError> {
    let clock = ManualClock::new();
    let limiter = Limiter::builder().limit(limit).clock(clock.clone()).build()?;
    let (begin, step) = (clock.now(), Duration::from_millis(1));
    let mut told: Vec<Told> = Vec::new();
    let mut line: Vec<(usize, Waiting)> = Vec::new();
    let mut inside: Vec<(u64, Pass)> = Vec::new();
    let mut coming = arrivals().into_iter().peekable();
    for now in 0..=LASTS {
        clock.set(begin + step * u32::try_from(now).unwrap_or(u32::MAX));
        inside.retain(|(until, _)| *until > now);
        line.retain_mut(|(nth, waiting)| {
            let Poll::Ready(answer) = poll(waiting) else { return true };
            let fate = if answer.is_ok() { Fate::Waited(now) } else { Fate::Refused };
            told[*nth].fate = fate;
            false
        });
        while coming.next_if_eq(&now).is_some() {
            let fate = match manner.patience {
                Some(patience) => {
                    let mut waiting: Waiting = Box::pin(limiter.acquire().within(patience).into_future());
                    match poll(&mut waiting) {
                        Poll::Ready(Ok(_)) => Fate::Passed,
                        Poll::Ready(Err(_)) => Fate::Refused,
                        Poll::Pending => {
                            line.push((told.len(), waiting));
                            Fate::Refused // until its turn comes
                        }
                    }
                }
                None if manner.inside.is_zero() => match limiter.check().verdict {
                    Verdict::Allowed => Fate::Passed,
                    Verdict::Wait(pause) => Fate::Waited(now + milliseconds(pause)),
                    Verdict::Denied { .. } | Verdict::Never => Fate::Refused,
                },
                None => match limiter.enter(1) {
                    Ok(pass) => {
                        inside.push((now + milliseconds(manner.inside), pass));
                        Fate::Passed
                    }
                    Err(_) => Fate::Refused,
                },
            };
            told.push(Told { came: now, fate });
        }
    }
    Ok(told)
}

fn poll(waiting: &mut Waiting) -> Poll<Result<Pass, Refused>> {
    waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_engine::Rate;
    use sluicegate_engine::algorithm::Alignment;

    const SECOND: Duration = Duration::from_secs(1);

    fn most_in_any_second(told: &[Told]) -> usize {
        let started: Vec<u64> = told.iter().filter_map(Told::started).collect();
        let within = |from: u64| started.iter().filter(|at| (from..from + 1_000).contains(*at)).count();
        started.iter().map(|at| within(*at)).max().unwrap_or(0)
    }

    #[test]
    fn only_the_fixed_window_lets_twenty_through_its_seam() {
        let fixed = Limit::fixed_window(10, SECOND, Alignment::Epoch).unwrap();
        assert_eq!(most_in_any_second(&play(fixed, Manner::default()).unwrap()), 20);
        for limit in [Limit::sliding_window(10, SECOND, 10).unwrap(), Limit::sliding_log(10, SECOND).unwrap()] {
            assert_eq!(most_in_any_second(&play(limit, Manner::default()).unwrap()), 10);
        }
    }

    #[test]
    fn whoever_stands_in_line_goes_on_later_or_is_refused_at_once() {
        let bucket = Limit::token_bucket(Rate::per_second(10).unwrap(), 10).unwrap();
        let manner = Manner { patience: Some(SECOND / 2), ..Manner::default() };
        let told = play(bucket, manner).unwrap();
        let waits: Vec<u64> = told
            .iter()
            .filter_map(|it| match it.fate {
                Fate::Waited(until) => Some(until - it.came),
                Fate::Passed | Fate::Refused => None,
            })
            .collect();
        assert!(!waits.is_empty() && waits.iter().all(|wait| *wait <= 500), "{waits:?}");
    }
}

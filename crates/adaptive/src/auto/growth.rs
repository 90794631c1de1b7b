//! More places on trial.
//!
//! All places are taken, and fewer are answered than in calm. A crowd does not do that: a server that is busy answers
//! what it can, and that was more a moment ago. Slow work does, and then the same number is answered again with more
//! places, as many as the longer time takes. So they are given at once, and then it is watched whether they are of use.
//! If they are not, the server itself has become weaker, and they are taken back.

use std::time::Duration;

use sluicegate_engine::Timestamp;

use super::estimate::Window;
use super::{AutoLaw, BRIEF, OVERLOAD, SLOWER, STALLED, State};

/// So many times as many answers show that places were of use.
const OF_USE: f64 = 1.4;
/// There are at most so many times as many places: it may be a mistake.
const MOST: f64 = 4.0;
/// Its effect is not waited for longer.
const LONGEST: Duration = Duration::from_secs(2);

/// Places that were given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth {
    /// How many there were before.
    limit: f64,
    /// Answers per second before.
    pace: f64,
    /// From when on those who end came in after it.
    counts_from: Timestamp,
}

impl AutoLaw {
    /// Goes on with more places that are on trial, or begins with it. Answers whether any are.
    pub(super) fn try_growth(&mut self, now: Timestamp, window: &Window) -> bool {
        if let Some(growth) = self.growth {
            let whole = Duration::from_secs_f64(window.lasted.min(STALLED));
            if now < growth.counts_from + whole {
                return true;
            }
            self.growth = None;
            if window.pace >= OF_USE * growth.pace {
                self.unloaded = Some(window.time());
                self.calm.outdated();
                (self.tried, self.due) = (false, now);
            } else {
                self.calm_pace = 0.0;
                self.set_limit(growth.limit);
            }
            return false;
        }
        let slower = window.full >= OVERLOAD && self.crowd.is_slower_than(SLOWER * self.calm_pace);
        if !slower || self.tried || self.cut.is_some() {
            return false;
        }
        let time = window.time();
        let shows_after = Duration::try_from_secs_f64(time).unwrap_or(BRIEF).min(LONGEST);
        self.growth = Some(Growth { limit: self.limit, pace: window.pace, counts_from: now + shows_after });
        self.set_limit(self.places_for(self.calm_pace, time).min(MOST * self.limit));
        self.state = State::Growing;
        true
    }
}

//! More places on trial.
//!
//! All places are taken, and fewer are answered than in calm. A crowd does not do that: a server that is busy answers
//! what it can, and that was more a moment ago. Slow work does, and then the same number is answered again with more
//! places, as many as the longer time takes. So they are given at once, and then it is watched whether they are of use.
//! If they are not, the server itself has become weaker, and they are taken back.
//!
//! **When nothing is known** at all, as after a start in overload, there are twice as many for the same trial. If they are
//! of use, those inside did not queue, and what they took is the unloaded time: from there the formula leads on, by more
//! than half in every window, for as long as more are answered. Only if they are not, there may be a queue, and places are
//! withdrawn to find out.

use std::time::Duration;

use sluicegate_engine::Timestamp;

use super::estimate::Window;
use super::{AutoLaw, BRIEF, OVERLOAD, SLOWER, STALLED, State};

/// So many times as many answers show that places were of use.
const OF_USE: f64 = 1.4;
/// And so many if nothing was known before: then what there was before is known from little, and nothing that follows from
/// a mistake is doubted for a while.
const OF_USE_AT_FIRST: f64 = 1.7;
/// There are at most so many times as many places: it may be a mistake.
const MOST: f64 = 4.0;
/// For so long no experiment is made if they were of use and nothing was known before.
const FIRST: Duration = Duration::from_millis(1_500);
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
            let of_use = if self.unloaded.is_none() { OF_USE_AT_FIRST } else { OF_USE };
            if window.pace >= of_use * growth.pace {
                if self.unloaded.is_none() {
                    // Nobody queued before, or hardly: there is time to grow by what is known now, before it is doubted.
                    self.rests_until = now + self.jitter.around(FIRST);
                }
                self.unloaded = Some(window.time());
                self.calm.outdated();
                (self.tried, self.due) = (false, now);
            } else {
                (self.calm_pace, self.outgrown) = (0.0, true);
                self.set_limit(growth.limit);
            }
            return false;
        }
        let slower = window.full >= OVERLOAD && self.crowd.is_slower_than(SLOWER * self.calm_pace);
        if !slower || self.tried || self.cut.is_some() {
            return false;
        }
        let places = self.places_for(self.calm_pace, window.time()).min(MOST * self.limit);
        self.begin_growth(now, window, places, window.pace);
        true
    }

    /// Gives so many places, and sees whether more are answered than now, which is so many per second.
    pub(super) fn begin_growth(&mut self, now: Timestamp, window: &Window, places: f64, pace: f64) {
        let shows_after = Duration::try_from_secs_f64(window.time()).unwrap_or(BRIEF).min(LONGEST);
        self.growth = Some(Growth { limit: self.limit, pace, counts_from: now + shows_after });
        self.set_limit(places);
        self.state = State::Growing;
    }
}

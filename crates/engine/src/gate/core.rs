//! A gate's state and everything that can happen to it, without waiting, waking or locking.

use std::time::Duration;

use super::line::{Bounds, Joined, Line};
use super::meter::{Lap, Meter, Passing};
use super::rate::{Height, RateWindow};
use crate::rule::Priority;
use crate::time::Timestamp;

/// What holds at a gate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Orders {
    /// The most that may be inside at once.
    pub places: Option<usize>,
    /// The most that may come in a time.
    pub rate: Option<Height>,
    /// How long and how many may wait for a place.
    pub line: Bounds,
}

impl Orders {
    /// Everybody may pass.
    pub const OPEN: Self =
        Self { places: None, rate: None, line: Bounds { patience: Duration::ZERO, target: Duration::ZERO, most: 0 } };
}

/// What a gate says to a request.
#[derive(Debug, PartialEq)]
pub enum Offered<T> {
    /// Come in.
    Enter,
    /// Wait; leave with this ticket. Whoever had to make room is told that it was in vain.
    Wait {
        /// To leave with.
        ticket: u64,
        /// Who was sent away for it.
        sent_away: Option<T>,
    },
    /// Go away. If the clock alone decides, it may be tried again after so long.
    Refused(Option<Duration>),
}

/// What becomes of somebody who waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Comes in after so long.
    Enters(Duration),
    /// Was sent away.
    SentAway,
}

/// The state. `T` stands for somebody who waits.
///
/// Requests are [offered](Self::offer); those who come in [finish](Self::finish) one day. Whenever a place may have
/// become free, [call](Self::call) those who wait.
pub struct Core<T> {
    orders: Orders,
    in_flight: usize,
    line: Line<T>,
    rate: RateWindow,
    meter: Meter,
}

impl<T> Core<T> {
    /// An open gate with nobody inside.
    pub fn new(now: Timestamp) -> Self {
        let rate = RateWindow::new(Duration::from_secs(1));
        Self { orders: Orders::OPEN, in_flight: 0, line: Line::new(), rate, meter: Meter::new(now) }
    }

    /// What holds.
    pub const fn orders(&self) -> &Orders {
        &self.orders
    }

    /// How many are inside.
    pub const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.line.len()
    }

    fn is_full(&self) -> bool {
        self.orders.places.is_some_and(|places| self.in_flight >= places)
    }

    fn note_inside(&mut self, now: Timestamp) {
        let full = self.is_full();
        self.meter.inside(now, self.in_flight, full);
    }

    /// Changes what holds. [Call](Self::call) afterwards: there may be more places.
    pub fn order(&mut self, now: Timestamp, orders: Orders) {
        self.note_inside(now);
        if let Some(height) = &orders.rate
            && !self.rate.is_for(height.window)
        {
            self.rate = RateWindow::new(height.window);
        }
        self.orders = orders;
    }

    /// A request comes. `who` is kept if it has to wait; `None`: it does not want to.
    pub fn offer(&mut self, now: Timestamp, class: Priority, who: Option<T>) -> Offered<T> {
        self.meter.arrived(now);
        if let Err(wait) = self.pass_rate(now, class) {
            self.meter.refused(now);
            return Offered::Refused(Some(wait));
        }
        if !self.is_full() && !self.line.is_before(class) {
            self.enter(now);
            return Offered::Enter;
        }
        let joined = who.map(|who| self.line.join(now, class, &self.orders.line, who));
        match joined {
            Some(Joined::Waits { ticket, sent_away }) => {
                if sent_away.is_some() {
                    self.meter.refused(now);
                }
                Offered::Wait { ticket, sent_away }
            }
            Some(Joined::Full(_)) | None => {
                self.meter.refused(now);
                Offered::Refused(None)
            }
        }
    }

    /// A request comes of which nobody will tell when it ends: it takes no place, and only the rate holds it back.
    pub fn offer_untimed(&mut self, now: Timestamp, class: Priority) -> Result<(), Duration> {
        self.meter.arrived(now);
        let passed = self.pass_rate(now, class);
        if passed.is_err() {
            self.meter.refused(now);
        }
        passed
    }

    /// What [`Core::offer`] would say to somebody who does not want to wait, and nothing happens.
    pub fn look(&self, now: Timestamp, class: Priority) -> Result<(), Option<Duration>> {
        if let Some(height) = self.orders.rate {
            self.rate.look(now, class, height).map_err(Some)?;
        }
        if self.is_full() || self.line.is_before(class) { Err(None) } else { Ok(()) }
    }

    /// Lets one in whatever holds, for those who only watch.
    pub fn enter(&mut self, now: Timestamp) {
        self.note_inside(now);
        self.in_flight += 1;
    }

    fn pass_rate(&mut self, now: Timestamp, class: Priority) -> Result<(), Duration> {
        match self.orders.rate {
            Some(height) => self.rate.enter(now, class, height),
            None => Ok(()),
        }
    }

    /// One who came in is done; `well`: with an answer that says something about the service. [Call](Self::call)
    /// afterwards.
    pub fn finish(&mut self, now: Timestamp, took: Duration, well: bool) {
        self.leave_inside(now);
        self.meter.finished(now, took, well);
    }

    /// One who came in is gone, and nothing can be learned from that. [Call](Self::call) afterwards.
    pub fn leave_inside(&mut self, now: Timestamp) {
        self.note_inside(now);
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Somebody does not want to wait any more. Answers whether they still waited; if not, their fate is decided.
    pub fn leave(&mut self, now: Timestamp, ticket: u64) -> bool {
        let waited = self.line.leave(ticket);
        if waited {
            self.meter.refused(now);
        }
        waited
    }

    /// Decides about those who wait, as far as there is something to decide.
    pub fn call(&mut self, now: Timestamp, mut each: impl FnMut(T, Fate)) {
        if self.line.len() == 0 {
            return;
        }
        let mut sent_away = 0;
        self.line.send_away_late(now, &self.orders.line, |who| {
            sent_away += 1;
            each(who, Fate::SentAway);
        });
        (0..sent_away).for_each(|_| self.meter.refused(now));
        while !self.is_full()
            && let Some((who, waited)) = self.line.next(now, &self.orders.line)
        {
            self.enter(now);
            each(who, Fate::Enters(waited));
        }
    }

    /// The last second, and now.
    pub fn passing(&self, now: Timestamp) -> Passing {
        Passing { in_flight: self.in_flight, waiting: self.line.len(), ..self.meter.passing(now) }
    }

    /// The lap so far.
    pub fn look_at_lap(&mut self, now: Timestamp) -> Lap {
        self.note_inside(now);
        self.meter.look_at_lap(now)
    }

    /// Ends the lap and begins the next.
    pub fn take_lap(&mut self, now: Timestamp) -> Lap {
        self.note_inside(now);
        self.meter.take_lap(now)
    }
}

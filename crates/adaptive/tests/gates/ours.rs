//! Ours before a simulated server: a gate's state, turned by the law.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use sluicegate_adaptive::auto::AutoLaw;
use sluicegate_adaptive::law::{Laps, Law, MachineFacts, Seen};
use sluicegate_adaptive::readings::Readings;
use sluicegate_engine::Timestamp;
use sluicegate_engine::gate::{Core, Fate, Lap, Offered};
use sluicegate_engine::rule::{Auto, Priority};
use sluicegate_testkit::overload::{Answer, Class, Front};

/// The gate and its law.
pub(crate) struct Ours {
    core: Core<u32>,
    law: AutoLaw,
    /// Of those who wait, or did.
    tickets: HashMap<u32, u64>,
    called: VecDeque<(u32, bool)>,
}

/// The gate's clock does not start at nothing.
fn moment(now: u64) -> Timestamp {
    Timestamp::from_nanos(1_000_000_000_000 + now)
}

struct LapsAt<'a>(&'a mut Core<u32>, Timestamp);

impl Laps for LapsAt<'_> {
    fn look(&mut self) -> Lap {
        self.0.look_at_lap(self.1)
    }

    fn take(&mut self) -> Lap {
        self.0.take_lap(self.1)
    }
}

impl Ours {
    /// A rule with these bounds; the seed is for the law's own chance.
    pub(crate) fn new(spec: Auto, seed: u64) -> Self {
        let law = AutoLaw::with_seed(spec, seed);
        let mut ours = Self { core: Core::new(moment(0)), law, tickets: HashMap::new(), called: VecDeque::new() };
        ours.turn(0);
        ours
    }

    fn turn(&mut self, now: u64) {
        let at = moment(now);
        let seen = Seen {
            now: at,
            passing: self.core.passing(at),
            readings: &Readings::UNKNOWN,
            machine: MachineFacts::default(),
        };
        let turn = self.law.turn(&seen, &mut LapsAt(&mut self.core, at));
        self.core.order(at, turn.orders);
        self.call(now);
    }

    fn call(&mut self, now: u64) {
        let called = &mut self.called;
        self.core.call(moment(now), |who, fate| called.push_back((who, matches!(fate, Fate::Enters(_)))));
    }
}

impl Front for Ours {
    fn offer(&mut self, now: u64, who: u32, class: Class) -> Answer {
        let class = match class {
            Class::Background => Priority::Background,
            Class::Normal => Priority::Normal,
            Class::Vip => Priority::Vip,
        };
        match self.core.offer(moment(now), class, Some(who)) {
            Offered::Enter => Answer::Enter,
            Offered::Refused(_) => Answer::Refuse,
            Offered::Wait { ticket, sent_away } => {
                self.called.extend(sent_away.map(|who| (who, false)));
                let patience = self.core.orders().line.patience;
                let until = now + patience.as_nanos() as u64 + 1;
                self.tickets.insert(who, ticket);
                Answer::Wait { until }
            }
        }
    }

    fn finish(&mut self, now: u64, _: u32, took: u64, well: bool) {
        self.core.finish(moment(now), Duration::from_nanos(took), well);
        self.call(now);
    }

    fn leave(&mut self, now: u64, who: u32) -> bool {
        self.tickets.remove(&who).is_some_and(|ticket| self.core.leave(moment(now), ticket))
    }

    fn called(&mut self) -> Option<(u32, bool)> {
        self.called.pop_front()
    }

    fn tick(&mut self, now: u64, _: f64) {
        self.turn(now);
    }

    fn limit(&self) -> Option<f64> {
        self.core.orders().places.map(|places| places as f64)
    }
}

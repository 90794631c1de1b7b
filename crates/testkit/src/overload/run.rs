//! Playing a scenario.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::chance::Chance;
use super::load::Arrivals;
use super::server::Running;
use super::story::{Ending, Record, Story};
use super::{Answer, Front, Load, Pace, SECOND, Server, TICK, Work};

/// What happens, apart from what stands before the server.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The server.
    pub server: Server,
    /// What requests are to it.
    pub work: Work,
    /// How its pace changes.
    pub pace: Pace,
    /// Who comes.
    pub load: Load,
    /// After how many seconds a caller is gone.
    pub patience: f64,
    /// How many seconds it all lasts.
    pub lasting: f64,
}

impl Scenario {
    /// A server at its usual pace and callers who wait for two seconds.
    pub const fn new(server: Server, work: Work, load: Load, lasting: f64) -> Self {
        Self { server, work, pace: Pace::usual(), load, patience: 2.0, lasting }
    }

    /// How many requests the server can do per second, at the pace of this moment.
    pub fn capacity(&self, at: f64) -> f64 {
        self.usual_capacity() / self.pace.at(at)
    }

    /// How many requests the server can do per second at its usual pace: what loads are multiples of.
    pub fn usual_capacity(&self) -> f64 {
        f64::from(self.server.width()) / self.work.mean()
    }

    /// Plays it with the random numbers of a seed.
    pub fn run(&self, seed: u64, front: &mut dyn Front) -> Story {
        let mut arrivals = Arrivals::new(&self.load, self.usual_capacity(), seed);
        let end = (self.lasting * SECOND as f64) as u64;
        let mut play = Play {
            scenario: self,
            server: self.server.start(),
            work: Chance::new(seed, 4),
            records: Vec::new(),
            entered: Vec::new(),
            gives_up: BinaryHeap::new(),
        };
        let mut limits = Vec::new();
        let (mut arrival, mut tick) = (arrivals.next(), TICK);
        loop {
            let at = arrival.map_or(u64::MAX, |it| it.0);
            let ends = play.server.next_end().unwrap_or(u64::MAX);
            let gives_up = play.gives_up.peek().map_or(u64::MAX, |it| it.0.0);
            let now = at.min(ends).min(gives_up).min(tick);
            if now >= end {
                break;
            }
            if now == ends {
                play.end(now, front);
            } else if now == gives_up {
                play.give_up(now, front);
            } else if now == tick {
                let cpu = play.server.take_busy(now, now - TICK);
                front.tick(now, cpu);
                limits.extend(front.limit().map(|limit| (now as f64 / SECOND as f64, limit)));
                tick += TICK;
            } else if let Some((now, class)) = arrival {
                play.arrive(now, class, front);
                arrival = arrivals.next();
            }
            while let Some((who, enters)) = front.called() {
                play.called(now, who, enters);
            }
        }
        Story::new(play.records, limits, self.patience)
    }
}

/// What goes on.
struct Play<'a> {
    scenario: &'a Scenario,
    server: Running,
    work: Chance,
    records: Vec<Record>,
    /// When each came in, and how much work it is.
    entered: Vec<(u64, f32)>,
    /// Who stops waiting at the front when.
    gives_up: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Play<'_> {
    fn arrive(&mut self, now: u64, class: super::Class, front: &mut dyn Front) {
        let who = self.records.len() as u32;
        let work = self.scenario.work.draw(&mut self.work);
        self.records.push(Record { arrived: now, took: 0, class, ending: Ending::Unfinished });
        self.entered.push((0, work as f32));
        match front.offer(now, who, class) {
            Answer::Enter => self.enter(now, who),
            Answer::Wait { until } => self.gives_up.push(Reverse((until.max(now), who))),
            Answer::Refuse => self.refuse(now, who),
        }
    }

    fn enter(&mut self, now: u64, who: u32) {
        let entered = &mut self.entered[who as usize];
        entered.0 = now;
        let slower = self.scenario.pace.at(now as f64 / SECOND as f64);
        let work = f64::from(entered.1) * slower;
        self.server.enter(now, who, work);
    }

    fn refuse(&mut self, now: u64, who: u32) {
        let record = &mut self.records[who as usize];
        (record.took, record.ending) = (now - record.arrived, Ending::Refused);
    }

    fn called(&mut self, now: u64, who: u32, enters: bool) {
        if enters { self.enter(now, who) } else { self.refuse(now, who) }
    }

    fn give_up(&mut self, now: u64, front: &mut dyn Front) {
        if let Some(Reverse((_, who))) = self.gives_up.pop()
            && front.leave(now, who)
        {
            self.refuse(now, who);
        }
    }

    fn end(&mut self, now: u64, front: &mut dyn Front) {
        let Some(who) = self.server.end(now) else { return };
        let record = &mut self.records[who as usize];
        record.took = now - record.arrived;
        let in_time = record.took as f64 <= self.scenario.patience * SECOND as f64;
        record.ending = if in_time { Ending::InTime } else { Ending::TooLate };
        front.finish(now, who, now - self.entered[who as usize].0, in_time);
    }
}

#[cfg(test)]
mod tests {
    use super::super::peers::Nothing;
    use super::*;

    #[test]
    fn a_seed_always_tells_the_same_story() {
        let scenario = Scenario::new(Server::shared(4), Work::Exponential { mean: 0.01 }, Load::steady(0.9), 20.0);
        let [first, again, other] = [1, 1, 2].map(|seed| scenario.run(seed, &mut Nothing));
        assert_eq!(first.answered(0.0..20.0), again.answered(0.0..20.0));
        assert_ne!(first.answered(0.0..20.0), other.answered(0.0..20.0));
    }

    /// What queueing theory knows of M/M/1: the time inside is exponential with mean 1 / (capacity - load).
    #[test]
    fn one_worker_behaves_as_the_books_say() {
        for server in [Server::queue(1), Server::shared(1)] {
            let mut scenario = Scenario::new(server, Work::Exponential { mean: 0.01 }, Load::steady(0.5), 2_000.0);
            scenario.patience = 100.0;
            let story = scenario.run(1, &mut Nothing);
            let answered = story.answered(0.0..2_000.0);
            let mean = answered.average;
            assert!((mean / 0.02 - 1.0).abs() < 0.03, "{server:?}: {mean}");
            if server == Server::queue(1) {
                let p99 = story.percentile(0.0..2_000.0, 0.99);
                assert!((p99 / 0.0921 - 1.0).abs() < 0.05, "{p99}");
            }
        }
    }

    #[test]
    fn work_for_callers_who_are_gone_is_in_vain() {
        let scenario = Scenario::new(Server::queue(2), Work::Fixed(0.01), Load::steady(2.0), 30.0);
        let story = scenario.run(1, &mut Nothing);
        assert_eq!(story.goodput(10.0..20.0), 0.0);
        assert!(story.answered(0.0..5.0).too_late > 0);
    }
}

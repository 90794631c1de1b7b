//! A front put to the test: the figures that protections are compared by.
//!
//! A figure is taken over several seeds at once: the answers of all runs are pooled before anything is divided or
//! sorted, so that chance weighs less. Runs begin with some seconds that do not count.

use std::ops::Range;

use super::peers::Nothing;
use super::{Class, Front, Load, Pace, Scenario, Server, Story, Work, percentile};

/// A kind of server with a kind of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// What it is called.
    pub name: &'static str,
    /// The server.
    pub server: Server,
    /// The work.
    pub work: Work,
}

impl Shape {
    /// Eight workers, first come, first served, as queueing theory likes them: M/M/8.
    pub const QUEUE: Self = Self { name: "M/M/8", server: Server::queue(8), work: Work::Exponential { mean: 0.010 } };
    /// The same with nine short requests to each that takes ten times longer.
    pub const BIMODAL: Self = Self {
        name: "bimodal",
        server: Server::queue(8),
        work: Work::Bimodal { short: 0.005, long: 0.050, share: 0.1 },
    };
    /// Eight cores that all requests inside share.
    pub const SHARED: Self =
        Self { name: "shared cores", server: Server::shared(8), work: Work::Exponential { mean: 0.010 } };
    /// The same with work of two kinds.
    pub const SHARED_BIMODAL: Self = Self {
        name: "shared, bimodal",
        server: Server::shared(8),
        work: Work::Bimodal { short: 0.005, long: 0.050, share: 0.1 },
    };
    /// Two cores only.
    pub const SMALL: Self =
        Self { name: "two cores", server: Server::shared(2), work: Work::Exponential { mean: 0.005 } };
    /// Many workers.
    pub const WIDE: Self = Self { name: "M/M/64", server: Server::queue(64), work: Work::Exponential { mean: 0.040 } };
    /// Two workers and 100 ms of work: there is little to learn from.
    pub const LOW_RATE: Self =
        Self { name: "20 per second", server: Server::queue(2), work: Work::Exponential { mean: 0.1 } };
    /// Those with hundreds of requests a second.
    pub const BUSY: [Self; 6] =
        [Self::QUEUE, Self::BIMODAL, Self::SHARED, Self::SHARED_BIMODAL, Self::SMALL, Self::WIDE];
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::QUEUE, Self::BIMODAL, Self::SHARED, Self::SHARED_BIMODAL, Self::SMALL, Self::WIDE, Self::LOW_RATE];

    /// How many runs have as many answers as one of the others, where requests are few.
    fn runs(&self) -> u64 {
        const BUSY: f64 = 400.0;
        (BUSY / self.under(Load::steady(0.0), 0.0).usual_capacity()).ceil().max(1.0) as u64
    }

    /// A scenario of this shape.
    pub const fn under(&self, load: Load, lasting: f64) -> Scenario {
        Scenario::new(self.server, self.work, load, lasting)
    }

    /// Its requests take so many times longer.
    #[must_use]
    pub const fn slower(mut self, times: f64) -> Self {
        self.work = match self.work {
            Work::Exponential { mean } => Work::Exponential { mean: mean * times },
            Work::Bimodal { short, long, share } => Work::Bimodal { short: short * times, long: long * times, share },
            Work::Fixed(mean) => Work::Fixed(mean * times),
        };
        self
    }

    /// The time that 99 in 100 stay within at four fifths of what the server can do, with nothing in front of it.
    pub fn usual_p99(&self, seeds: u64) -> f64 {
        let bare = Trial::new(|_| Box::new(Nothing), seeds * self.runs());
        bare.run(&self.under(Load::steady(0.8), 35.0)).percentile(5.0..33.0, 0.99)
    }
}

/// A front to be tried.
pub struct Trial<F> {
    front: F,
    first: u64,
    seeds: u64,
}

impl<F: Fn(u64) -> Box<dyn Front>> Trial<F> {
    /// What `front` makes for a seed, with so many seeds.
    pub const fn new(front: F, seeds: u64) -> Self {
        Self { front, first: 1, seeds }
    }

    /// The same with seeds from this one on: what was tuned on some seeds has to hold for others.
    #[must_use]
    pub fn from_seed(self, first: u64) -> Self {
        Self { first, ..self }
    }

    /// The same with as many seeds as it takes to tell a tenth of a p99 from chance in half a second, at this share of
    /// the capacity.
    fn with_answers_for_bins(&self, shape: &Shape, share: f64) -> Trial<&F> {
        const ANSWERS: f64 = 12_000.0;
        let seeds = ANSWERS / (0.5 * share * shape.under(Load::steady(0.0), 0.0).usual_capacity());
        Trial { front: &self.front, first: self.first, seeds: seeds.ceil() as u64 }
    }

    /// Plays a scenario with all seeds.
    pub fn run(&self, scenario: &Scenario) -> Stories {
        let stories = (self.first..self.first + self.seeds).map(|seed| scenario.run(seed, (self.front)(seed).as_mut()));
        Stories { stories: stories.collect(), scenario: scenario.clone() }
    }

    /// A steady load with a tenth of the highest and three tenths of the lowest class. Where requests are few, there are
    /// more seeds.
    pub fn steady(&self, shape: &Shape, load: f64) -> Stories {
        let trial = Trial { front: &self.front, first: self.first, seeds: self.seeds * shape.runs() };
        trial.run(&shape.under(Load::steady(load).classes(0.3, 0.6, 0.1), 30.0))
    }

    /// Seconds after a step from half to three times the capacity until goodput and p99 stay within a tenth of what
    /// they are in the end. `None`: they never do.
    pub fn settling(&self, shape: &Shape) -> Option<f64> {
        let step = 10.0;
        let stories = self.with_answers_for_bins(shape, 1.0).run(&shape.under(Load::step(0.5, step, 3.0), step + 14.0));
        let end = step + 4.0..step + 12.0;
        let (goodput, p99) = (stories.goodput(end.clone()), stories.percentile(end, 0.99));
        let close = |value: f64, to: f64| (value / to - 1.0).abs() <= 0.1;
        stories.calm_from(step, step + 10.0, |bin| {
            goodput > 0.0 && close(stories.goodput(bin.clone()), goodput) && close(stories.percentile(bin, 0.99), p99)
        })
    }

    /// Seconds after the load has dropped from three times to half of the capacity until nobody is refused and p99 is
    /// at most a quarter over what it is without overload.
    pub fn back(&self, shape: &Shape) -> Option<f64> {
        let drop = 15.0;
        let stories = self.with_answers_for_bins(shape, 0.5).run(&shape.under(Load::step(3.0, drop, 0.5), drop + 12.0));
        let bare = Trial::new(|_| Box::new(Nothing), 1);
        let usual = bare.run(&shape.under(Load::steady(0.5), 300.0)).percentile(5.0..298.0, 0.99);
        stories.calm_from(drop, drop + 10.0, |bin| {
            stories.refused(bin.clone()) < 0.001 && stories.percentile(bin, 0.99) <= 1.25 * usual
        })
    }

    /// By which share the limit of the last five of thirty minutes of twofold overload differs from that of the first
    /// ones, after the first minute. `None`: there is no limit.
    pub fn drift(&self, shape: &Shape) -> Option<f64> {
        let stories = self.run(&shape.slower(4.0).under(Load::steady(2.0), 1_800.0));
        let (early, late) = (stories.limit(60.0..360.0)?, stories.limit(1_500.0..1_800.0)?);
        Some((late / early - 1.0).abs())
    }
}

/// What came of a scenario with several seeds.
pub struct Stories {
    stories: Vec<Story>,
    scenario: Scenario,
}

impl Stories {
    fn average(&self, of: impl Fn(&Story) -> f64) -> f64 {
        self.stories.iter().map(of).sum::<f64>() / self.stories.len().max(1) as f64
    }

    /// The single ones.
    pub fn each(&self) -> &[Story] {
        &self.stories
    }

    /// Answers in time per second.
    pub fn goodput(&self, span: Range<f64>) -> f64 {
        self.average(|story| story.goodput(span.clone()))
    }

    /// Answers in time, of those that could have been: as many as came, or as the server can do.
    pub fn goodput_share(&self, span: Range<f64>) -> f64 {
        self.goodput(span.clone()) / self.possible(span)
    }

    /// Answers per second that were possible in a span in which neither load nor pace change: as many as came, or as
    /// the server can do.
    pub fn possible(&self, span: Range<f64>) -> f64 {
        let offered = self.average(|story| story.offered(span.clone()));
        match self.scenario.server {
            Server::Waiting { .. } => offered,
            _ => offered.min(self.scenario.capacity(span.start)),
        }
    }

    /// The share of those who came in a span that was refused.
    pub fn refused(&self, span: Range<f64>) -> f64 {
        self.average(|story| story.refused(span.clone()))
    }

    /// The share of a class's requests that was answered in time.
    pub fn served(&self, class: Class, span: Range<f64>) -> f64 {
        self.average(|story| story.served(class, span.clone()))
    }

    /// The seconds that this share of the admitted stays within, from arrival to answer.
    pub fn percentile(&self, span: Range<f64>, share: f64) -> f64 {
        percentile(self.stories.iter().flat_map(|story| story.times(span.clone())).collect(), share)
    }

    /// The average limit.
    pub fn limit(&self, span: Range<f64>) -> Option<f64> {
        let limits: Vec<f64> = self.stories.iter().filter_map(|story| story.limit(span.clone())).collect();
        (!limits.is_empty()).then(|| limits.iter().sum::<f64>() / limits.len() as f64)
    }

    /// The first half second after `from`, in seconds from there, since which all are well. `None`: not even the last.
    fn calm_from(&self, from: f64, to: f64, well: impl Fn(Range<f64>) -> bool) -> Option<f64> {
        let bins = ((to - from) * 2.0) as u32;
        let unwell = (0..bins).rev().find(|nth| {
            let start = from + f64::from(*nth) / 2.0;
            !well(start..start + 0.5)
        });
        match unwell {
            Some(last) if last + 1 >= bins => None,
            Some(last) => Some(f64::from(last + 1) / 2.0),
            None => Some(0.0),
        }
    }
}

/// Work that takes twice as long from the fifteenth second on, in one and a half times the load the server could do.
pub fn twice_the_work(shape: &Shape) -> Scenario {
    Scenario { pace: Pace::slower_from(15.0, 2.0), ..shape.under(Load::steady(1.5), 40.0) }
}

/// Everything takes five times as long in the first five seconds, in overload from the start.
pub fn cold_start(shape: &Shape) -> Scenario {
    Scenario { pace: Pace::slower_until(5.0, 5.0), ..shape.under(Load::steady(1.5), 30.0) }
}

/// From half to three times the capacity in twenty seconds, and back.
pub fn ramp(shape: &Shape) -> Scenario {
    shape.under(Load::through([(0.0, 0.5), (10.0, 0.5), (30.0, 3.0), (50.0, 0.5)]), 60.0)
}

/// 400 requests a second that wait for something else for 10 ms, for 200 ms from the tenth to the thirtieth second. No
/// CPU is used, and any number may wait.
pub fn slow_dependency() -> Scenario {
    let work = Work::Exponential { mean: 0.010 };
    let pace = Pace::slower_between(10.0, 30.0, 20.0);
    Scenario { pace, ..Scenario::new(Server::waiting(4), work, Load::steady(1.0), 45.0) }
}

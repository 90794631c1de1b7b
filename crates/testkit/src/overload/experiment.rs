//! Experiments that compare admission policies.
//!
//! A figure pools the responses of runs with several seeds before it divides or sorts anything, to reduce
//! noise. The first seconds of each run are a warm-up and do not count.

use std::ops::Range;

use super::peers::NoProtection;
use super::{AdmissionPolicy, Class, LoadProfile, Scenario, ServerModel, SimReport, Slowdown, Workload, percentile};

/// Server model combined with a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerShape {
    /// Display name.
    pub name: &'static str,
    /// Server model.
    pub server: ServerModel,
    /// Work per request.
    pub work: Workload,
}

impl ServerShape {
    /// M/M/8: eight workers with a first-come, first-served queue.
    pub const QUEUE: Self =
        Self { name: "M/M/8", server: ServerModel::queue(8), work: Workload::Exponential { mean: 0.010 } };
    /// Eight workers with a bimodal workload: one request in ten takes ten times longer.
    pub const BIMODAL: Self = Self {
        name: "bimodal",
        server: ServerModel::queue(8),
        work: Workload::Bimodal { short: 0.005, long: 0.050, share: 0.1 },
    };
    /// Eight cores with processor sharing.
    pub const SHARED: Self =
        Self { name: "shared cores", server: ServerModel::shared(8), work: Workload::Exponential { mean: 0.010 } };
    /// Eight cores with processor sharing and a bimodal workload.
    pub const SHARED_BIMODAL: Self = Self {
        name: "shared, bimodal",
        server: ServerModel::shared(8),
        work: Workload::Bimodal { short: 0.005, long: 0.050, share: 0.1 },
    };
    /// Two cores with processor sharing.
    pub const SMALL: Self =
        Self { name: "two cores", server: ServerModel::shared(2), work: Workload::Exponential { mean: 0.005 } };
    /// M/M/64.
    pub const WIDE: Self =
        Self { name: "M/M/64", server: ServerModel::queue(64), work: Workload::Exponential { mean: 0.040 } };
    /// Two workers and 100 ms of work: few samples to learn from.
    pub const LOW_RATE: Self =
        Self { name: "20 per second", server: ServerModel::queue(2), work: Workload::Exponential { mean: 0.1 } };
    /// Shapes with hundreds of requests per second.
    pub const BUSY: [Self; 6] =
        [Self::QUEUE, Self::BIMODAL, Self::SHARED, Self::SHARED_BIMODAL, Self::SMALL, Self::WIDE];
    /// All shapes.
    pub const ALL: [Self; 7] =
        [Self::QUEUE, Self::BIMODAL, Self::SHARED, Self::SHARED_BIMODAL, Self::SMALL, Self::WIDE, Self::LOW_RATE];

    /// Number of runs that gives a low-rate shape as many responses as one run of the others.
    fn seed_factor(&self) -> u64 {
        const BUSY: f64 = 400.0;
        (BUSY / self.scenario(LoadProfile::steady(0.0), 0.0).nominal_capacity()).ceil().max(1.0) as u64
    }

    /// Scenario of this shape with a load profile and a duration in seconds.
    pub const fn scenario(&self, load: LoadProfile, duration: f64) -> Scenario {
        Scenario::new(self.server, self.work, load, duration)
    }

    /// Multiplies the work per request by `factor`.
    #[must_use]
    pub const fn slowed(mut self, factor: f64) -> Self {
        self.work = match self.work {
            Workload::Exponential { mean } => Workload::Exponential { mean: mean * factor },
            Workload::Bimodal { short, long, share } => {
                Workload::Bimodal { short: short * factor, long: long * factor, share }
            }
            Workload::Fixed(mean) => Workload::Fixed(mean * factor),
        };
        self
    }

    /// p99 latency at 80 % load without any protection.
    pub fn baseline_p99(&self, seeds: u64) -> f64 {
        let baseline = PolicyExperiment::new(|_| Box::new(NoProtection), seeds * self.seed_factor());
        baseline.run(&self.scenario(LoadProfile::steady(0.8), 35.0)).percentile(5.0..33.0, 0.99)
    }
}

/// Admission policy under test.
pub struct PolicyExperiment<F> {
    policy: F,
    first_seed: u64,
    seeds: u64,
}

impl<F: Fn(u64) -> Box<dyn AdmissionPolicy>> PolicyExperiment<F> {
    /// Experiment with `seeds` seeds; `policy` creates the policy for each seed.
    pub const fn new(policy: F, seeds: u64) -> Self {
        Self { policy, first_seed: 1, seeds }
    }

    /// Starts at another seed: a policy tuned on some seeds has to hold for others.
    #[must_use]
    pub fn from_seed(self, first_seed: u64) -> Self {
        Self { first_seed, ..self }
    }

    /// Uses as many seeds as needed to distinguish a 10 % change of p99 from noise in half-second bins, at this
    /// share of the capacity.
    fn with_samples_for_bins(&self, shape: &ServerShape, share: f64) -> PolicyExperiment<&F> {
        const SAMPLES: f64 = 12_000.0;
        let seeds = SAMPLES / (0.5 * share * shape.scenario(LoadProfile::steady(0.0), 0.0).nominal_capacity());
        PolicyExperiment { policy: &self.policy, first_seed: self.first_seed, seeds: seeds.ceil() as u64 }
    }

    /// Runs a scenario with all seeds.
    pub fn run(&self, scenario: &Scenario) -> SimReports {
        let reports = (self.first_seed..self.first_seed + self.seeds)
            .map(|seed| scenario.run(seed, (self.policy)(seed).as_mut()));
        SimReports { reports: reports.collect(), scenario: scenario.clone() }
    }

    /// Runs a steady load with 10 % of the highest and 30 % of the lowest class. Low-rate shapes use more seeds.
    pub fn steady(&self, shape: &ServerShape, load: f64) -> SimReports {
        let experiment = PolicyExperiment {
            policy: &self.policy,
            first_seed: self.first_seed,
            seeds: self.seeds * shape.seed_factor(),
        };
        experiment.run(&shape.scenario(LoadProfile::steady(load).classes(0.3, 0.6, 0.1), 30.0))
    }

    /// Seconds after a load step from 0.5 to 3 times the capacity until goodput and p99 stay within 10 % of their
    /// final values. `None` if they never do.
    pub fn settling_time(&self, shape: &ServerShape) -> Option<f64> {
        let step = 10.0;
        let reports =
            self.with_samples_for_bins(shape, 1.0).run(&shape.scenario(LoadProfile::step(0.5, step, 3.0), step + 14.0));
        let end = step + 4.0..step + 12.0;
        let (goodput, p99) = (reports.goodput(end.clone()), reports.percentile(end, 0.99));
        let close = |value: f64, to: f64| (value / to - 1.0).abs() <= 0.1;
        reports.settled_after(step, step + 10.0, |bin| {
            goodput > 0.0 && close(reports.goodput(bin.clone()), goodput) && close(reports.percentile(bin, 0.99), p99)
        })
    }

    /// Seconds after the load drops from 3 to 0.5 times the capacity until no request is refused and p99 is at
    /// most 25 % above its value without overload.
    pub fn recovery_time(&self, shape: &ServerShape) -> Option<f64> {
        let drop = 15.0;
        let reports =
            self.with_samples_for_bins(shape, 0.5).run(&shape.scenario(LoadProfile::step(3.0, drop, 0.5), drop + 12.0));
        let baseline = PolicyExperiment::new(|_| Box::new(NoProtection), 1);
        let baseline_p99 = baseline.run(&shape.scenario(LoadProfile::steady(0.5), 300.0)).percentile(5.0..298.0, 0.99);
        reports.settled_after(drop, drop + 10.0, |bin| {
            reports.refused_share(bin.clone()) < 0.001 && reports.percentile(bin, 0.99) <= 1.25 * baseline_p99
        })
    }

    /// Relative change of the limit over thirty minutes of twofold overload: the last five minutes against the
    /// first five after a one-minute warm-up. `None` if the policy has no limit.
    pub fn limit_drift(&self, shape: &ServerShape) -> Option<f64> {
        let reports = self.run(&shape.slowed(4.0).scenario(LoadProfile::steady(2.0), 1_800.0));
        let (start, end) = (reports.limit(60.0..360.0)?, reports.limit(1_500.0..1_800.0)?);
        Some((end / start - 1.0).abs())
    }
}

/// Reports of one scenario run with several seeds.
pub struct SimReports {
    reports: Vec<SimReport>,
    scenario: Scenario,
}

impl SimReports {
    fn average(&self, of: impl Fn(&SimReport) -> f64) -> f64 {
        self.reports.iter().map(of).sum::<f64>() / self.reports.len().max(1) as f64
    }

    /// Report of each seed.
    pub fn reports(&self) -> &[SimReport] {
        &self.reports
    }

    /// In-time responses per second.
    pub fn goodput(&self, span: Range<f64>) -> f64 {
        self.average(|report| report.goodput(span.clone()))
    }

    /// Goodput as a share of the achievable goodput.
    pub fn goodput_share(&self, span: Range<f64>) -> f64 {
        self.goodput(span.clone()) / self.achievable(span)
    }

    /// Achievable responses per second in a span with constant load and slowdown: the minimum of offered load and
    /// capacity.
    pub fn achievable(&self, span: Range<f64>) -> f64 {
        let offered = self.average(|report| report.offered(span.clone()));
        match self.scenario.server {
            ServerModel::Waiting { .. } => offered,
            _ => offered.min(self.scenario.capacity(span.start)),
        }
    }

    /// Share of refused requests in a span.
    pub fn refused_share(&self, span: Range<f64>) -> f64 {
        self.average(|report| report.refused_share(span.clone()))
    }

    /// Share of in-time responses of a class.
    pub fn success_share(&self, class: Class, span: Range<f64>) -> f64 {
        self.average(|report| report.success_share(class, span.clone()))
    }

    /// Latency percentile of the admitted requests, in seconds.
    pub fn percentile(&self, span: Range<f64>, share: f64) -> f64 {
        percentile(self.reports.iter().flat_map(|report| report.latencies(span.clone())).collect(), share)
    }

    /// Average limit.
    pub fn limit(&self, span: Range<f64>) -> Option<f64> {
        let limits: Vec<f64> = self.reports.iter().filter_map(|report| report.limit(span.clone())).collect();
        (!limits.is_empty()).then(|| limits.iter().sum::<f64>() / limits.len() as f64)
    }

    /// Seconds after `from` until every remaining half-second bin is settled. `None` if the last bin is not.
    fn settled_after(&self, from: f64, to: f64, is_settled: impl Fn(Range<f64>) -> bool) -> Option<f64> {
        let bins = ((to - from) * 2.0) as u32;
        let last_unsettled = (0..bins).rev().find(|bin| {
            let start = from + f64::from(*bin) / 2.0;
            !is_settled(start..start + 0.5)
        });
        match last_unsettled {
            Some(last) if last + 1 >= bins => None,
            Some(last) => Some(f64::from(last + 1) / 2.0),
            None => Some(0.0),
        }
    }
}

/// Service time doubles at second 15, at 1.5 times the nominal capacity.
pub fn doubled_service_time(shape: &ServerShape) -> Scenario {
    Scenario { slowdown: Slowdown::slower_from(15.0, 2.0), ..shape.scenario(LoadProfile::steady(1.5), 40.0) }
}

/// Service time is five times longer in the first five seconds, in overload from the start.
pub fn cold_start(shape: &ServerShape) -> Scenario {
    Scenario { slowdown: Slowdown::slower_until(5.0, 5.0), ..shape.scenario(LoadProfile::steady(1.5), 30.0) }
}

/// Ramp from 0.5 to 3 times the capacity in twenty seconds, and back.
pub fn ramp(shape: &ServerShape) -> Scenario {
    shape.scenario(LoadProfile::piecewise([(0.0, 0.5), (10.0, 0.5), (30.0, 3.0), (50.0, 0.5)]), 60.0)
}

/// Slow dependency: 400 requests per second wait 10 ms each, and 200 ms between seconds 10 and 30. No CPU is
/// used, and any number may wait.
pub fn slow_dependency() -> Scenario {
    let work = Workload::Exponential { mean: 0.010 };
    let slowdown = Slowdown::slower_between(10.0, 30.0, 20.0);
    Scenario { slowdown, ..Scenario::new(ServerModel::waiting(4), work, LoadProfile::steady(1.0), 45.0) }
}

//! Simulation loop of a scenario.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::load::PoissonArrivals;
use super::report::{RequestOutcome, RequestRecord, SimReport};
use super::rng::SimRng;
use super::server::SimulatedServer;
use super::{AdmissionPolicy, LoadProfile, PolicyDecision, SECOND, ServerModel, Slowdown, TICK, Workload};

/// Simulated scenario: everything except the admission policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Server model.
    pub server: ServerModel,
    /// Work per request.
    pub work: Workload,
    /// Slowdown of the server over time.
    pub slowdown: Slowdown,
    /// Offered load over time.
    pub load: LoadProfile,
    /// Client timeout in seconds.
    pub timeout: f64,
    /// Simulated time in seconds.
    pub duration: f64,
}

impl Scenario {
    /// Scenario without slowdown and with a client timeout of two seconds.
    pub const fn new(server: ServerModel, work: Workload, load: LoadProfile, duration: f64) -> Self {
        Self { server, work, slowdown: Slowdown::none(), load, timeout: 2.0, duration }
    }

    /// Requests per second the server can process, with the slowdown at second `at`.
    pub fn capacity(&self, at: f64) -> f64 {
        self.nominal_capacity() / self.slowdown.at(at)
    }

    /// Requests per second the server can process without slowdown. Loads are multiples of this.
    pub fn nominal_capacity(&self) -> f64 {
        f64::from(self.server.parallelism()) / self.work.mean()
    }

    /// Runs the simulation with a seed and an admission policy.
    pub fn run(&self, seed: u64, policy: &mut dyn AdmissionPolicy) -> SimReport {
        let mut arrivals = PoissonArrivals::new(&self.load, self.nominal_capacity(), seed);
        let end = (self.duration * SECOND as f64) as u64;
        let mut sim = Simulation {
            scenario: self,
            server: self.server.start(),
            work: SimRng::new(seed, 4),
            records: Vec::new(),
            admissions: Vec::new(),
            wait_deadlines: BinaryHeap::new(),
        };
        let mut limits = Vec::new();
        let (mut arrival, mut tick) = (arrivals.next(), TICK);
        loop {
            let at = arrival.map_or(u64::MAX, |it| it.0);
            let completion = sim.server.next_completion().unwrap_or(u64::MAX);
            let wait_deadline = sim.wait_deadlines.peek().map_or(u64::MAX, |it| it.0.0);
            let now = at.min(completion).min(wait_deadline).min(tick);
            if now >= end {
                break;
            }
            if now == completion {
                sim.complete(now, policy);
            } else if now == wait_deadline {
                sim.expire_wait(now, policy);
            } else if now == tick {
                let cpu = sim.server.take_utilization(now, now - TICK);
                policy.on_tick(now, cpu);
                limits.extend(policy.limit().map(|limit| (now as f64 / SECOND as f64, limit)));
                tick += TICK;
            } else if let Some((now, class)) = arrival {
                sim.arrive(now, class, policy);
                arrival = arrivals.next();
            }
            while let Some((id, admitted)) = policy.next_released() {
                sim.release(now, id, admitted);
            }
        }
        SimReport::new(sim.records, limits, self.timeout)
    }
}

/// State of a running simulation.
struct Simulation<'a> {
    scenario: &'a Scenario,
    server: SimulatedServer,
    work: SimRng,
    records: Vec<RequestRecord>,
    /// Admission time and work of each request, by request id.
    admissions: Vec<(u64, f32)>,
    /// Wait deadlines of queued requests.
    wait_deadlines: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Simulation<'_> {
    fn arrive(&mut self, now: u64, class: super::Class, policy: &mut dyn AdmissionPolicy) {
        let id = self.records.len() as u32;
        let work = self.scenario.work.sample(&mut self.work);
        self.records.push(RequestRecord { arrived_at: now, latency: 0, class, outcome: RequestOutcome::Unfinished });
        self.admissions.push((0, work as f32));
        match policy.on_arrival(now, id, class) {
            PolicyDecision::Admit => self.admit(now, id),
            PolicyDecision::Wait { until } => self.wait_deadlines.push(Reverse((until.max(now), id))),
            PolicyDecision::Refuse => self.refuse(now, id),
        }
    }

    fn admit(&mut self, now: u64, id: u32) {
        let admission = &mut self.admissions[id as usize];
        admission.0 = now;
        let slowdown = self.scenario.slowdown.at(now as f64 / SECOND as f64);
        let work = f64::from(admission.1) * slowdown;
        self.server.admit(now, id, work);
    }

    fn refuse(&mut self, now: u64, id: u32) {
        let record = &mut self.records[id as usize];
        (record.latency, record.outcome) = (now - record.arrived_at, RequestOutcome::Refused);
    }

    fn release(&mut self, now: u64, id: u32, admitted: bool) {
        if admitted { self.admit(now, id) } else { self.refuse(now, id) }
    }

    fn expire_wait(&mut self, now: u64, policy: &mut dyn AdmissionPolicy) {
        if let Some(Reverse((_, id))) = self.wait_deadlines.pop()
            && policy.on_wait_timeout(now, id)
        {
            self.refuse(now, id);
        }
    }

    fn complete(&mut self, now: u64, policy: &mut dyn AdmissionPolicy) {
        let Some(id) = self.server.complete(now) else { return };
        let record = &mut self.records[id as usize];
        record.latency = now - record.arrived_at;
        let in_time = record.latency as f64 <= self.scenario.timeout * SECOND as f64;
        record.outcome = if in_time { RequestOutcome::InTime } else { RequestOutcome::TimedOut };
        policy.on_complete(now, id, now - self.admissions[id as usize].0, in_time);
    }
}

#[cfg(test)]
mod tests {
    use super::super::peers::NoProtection;
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_report() {
        let scenario =
            Scenario::new(ServerModel::shared(4), Workload::Exponential { mean: 0.01 }, LoadProfile::steady(0.9), 20.0);
        let [first, again, other] = [1, 1, 2].map(|seed| scenario.run(seed, &mut NoProtection));
        assert_eq!(first.outcomes(0.0..20.0), again.outcomes(0.0..20.0));
        assert_ne!(first.outcomes(0.0..20.0), other.outcomes(0.0..20.0));
    }

    /// M/M/1 queueing theory: the time in the system is exponential with mean 1 / (capacity - load).
    #[test]
    fn one_worker_matches_mm1_queueing_theory() {
        for server in [ServerModel::queue(1), ServerModel::shared(1)] {
            let mut scenario =
                Scenario::new(server, Workload::Exponential { mean: 0.01 }, LoadProfile::steady(0.5), 2_000.0);
            scenario.timeout = 100.0;
            let report = scenario.run(1, &mut NoProtection);
            let outcomes = report.outcomes(0.0..2_000.0);
            let mean = outcomes.mean_latency;
            assert!((mean / 0.02 - 1.0).abs() < 0.03, "{server:?}: {mean}");
            if server == ServerModel::queue(1) {
                let p99 = report.percentile(0.0..2_000.0, 0.99);
                assert!((p99 / 0.0921 - 1.0).abs() < 0.05, "{p99}");
            }
        }
    }

    #[test]
    fn work_after_the_client_timeout_is_wasted() {
        let scenario = Scenario::new(ServerModel::queue(2), Workload::Fixed(0.01), LoadProfile::steady(2.0), 30.0);
        let report = scenario.run(1, &mut NoProtection);
        assert_eq!(report.goodput(10.0..20.0), 0.0);
        assert!(report.outcomes(0.0..5.0).timed_out > 0);
    }
}

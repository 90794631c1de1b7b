//! Threshold limits in a closed loop.

use std::time::Duration;

use proptest::prelude::*;
use sluicegate_adaptive::conditions::ThresholdLaw;
use sluicegate_adaptive::control_law::{Adjustment, ControlLaw, HostInfo, Observation};
use sluicegate_adaptive::readings::{Reading, Readings};
use sluicegate_engine::Timestamp;
use sluicegate_engine::overload::{Gate, Throughput};
use sluicegate_engine::rule::{Cap, Ceiling, Comparison, Condition, Quorum, Signal};

use super::simulated_service::SimulatedService;

const SECOND: Duration = Duration::from_secs(1);

fn above(signal: Signal, value: f64) -> Condition {
    Condition::new(signal, Comparison::Above, value)
}

/// load5 > 4 and avg RT > 100 ms and in flight > 50: at most 100/s.
fn example_rule() -> Ceiling {
    let conditions =
        [above(Signal::Load5, 4.0), above(Signal::AverageResponseTime, 0.1), above(Signal::InFlight, 50.0)];
    Ceiling::new(conditions, Cap::Rate { count: 100, window: SECOND })
}

/// A control law with given measurements, without a service.
struct LawFixture {
    law: ThresholdLaw,
    gate: Gate,
    millis: u64,
    readings: Readings,
    throughput: Throughput,
}

impl LawFixture {
    fn new(rule: Ceiling) -> Self {
        let throughput = Throughput { arrivals: 500.0, responses: 300.0, in_flight: 10, ..Throughput::default() };
        Self { law: ThresholdLaw::new(rule), gate: Gate::default(), millis: 0, readings: Readings::UNKNOWN, throughput }
    }

    /// Advances by 250 ms.
    fn tick(&mut self) -> Adjustment {
        self.millis += 250;
        let now = Timestamp::from_nanos(self.millis * 1_000_000);
        let (throughput, readings, host) = (self.throughput, &self.readings, HostInfo::default());
        self.law.step(&Observation { now, throughput, readings, host }, &mut self.gate)
    }

    fn states(&mut self, ticks: usize) -> Vec<&'static str> {
        (0..ticks).map(|_| self.tick().notice.state).collect()
    }
}

#[test]
fn example_rule_walks_through_all_states() {
    let mut fixture = LawFixture::new(example_rule());
    // High load, but fast responses.
    fixture.readings.set(Signal::Load5, Some(5.2));
    fixture.throughput = Throughput { in_flight: 71, average: Some(0.03), ..fixture.throughput };
    assert_eq!(fixture.states(8), ["closed"; 8]);
    assert!(fixture.tick().limits.rate.is_none());
    // Responses become slow and all three conditions hold, but only for half a second.
    fixture.throughput.average = Some(0.13);
    assert_eq!(fixture.states(3), ["entering"; 3]);
    fixture.throughput.in_flight = 49;
    assert_eq!(fixture.states(1), ["closed"]);
    // Now they hold for three quarters of a second.
    fixture.throughput.in_flight = 71;
    let entering = fixture.tick();
    assert_eq!(entering.notice.state, "entering");
    assert!(entering.limits.rate.is_none());
    assert_eq!(fixture.states(2), ["entering"; 2]);
    let limited = fixture.tick();
    assert_eq!(limited.notice.state, "limited");
    assert_eq!(limited.notice.reason, "load5 5.2 > 4, avg_rt 130ms > 100ms, in_flight 71 > 50: at most 100 per 1s");
    assert_eq!(
        limited.notice.readings,
        [(Signal::Load5, Some(5.2)), (Signal::AverageResponseTime, Some(0.13)), (Signal::InFlight, Some(71.0))]
    );
    let rate = limited.limits.rate.unwrap();
    assert_eq!((rate.count, rate.window), (100.0, SECOND));
    // The limit works: response times and requests in flight fall below the enter values, but not beyond the
    // exit values.
    fixture.throughput = Throughput { in_flight: 45, average: Some(0.09), refusals: 400.0, ..fixture.throughput };
    assert_eq!(fixture.states(40), ["limited"; 40]);
    let still = fixture.tick();
    assert!(
        still.notice.reason.starts_with("load5 5.2 > 4, avg_rt 130ms"),
        "the initial reason: {}",
        still.notice.reason
    );
    // Then beyond the exit values. The load over five minutes stays high, but all three must hold. Two seconds
    // later the limit begins to rise.
    fixture.throughput = Throughput { in_flight: 2, average: Some(0.02), ..fixture.throughput };
    assert_eq!(fixture.states(8), ["limited"; 8]);
    let mut rates = Vec::new();
    for _ in 0..12 {
        let adjustment = fixture.tick();
        assert_eq!(adjustment.notice.state, "recovering");
        rates.push(adjustment.limits.rate.unwrap().count);
    }
    assert_eq!(rates[0], 100.0);
    assert!((rates[4] - 110.0).abs() < 1e-9, "a tenth per second: {rates:?}");
    assert!((rates[8] - 121.0).abs() < 1e-9, "a tenth per second: {rates:?}");
    // Relapse: the limit falls back and holds twice as long.
    fixture.throughput = Throughput { in_flight: 90, average: Some(0.2), ..fixture.throughput };
    assert_eq!(fixture.states(3), ["recovering"; 3]);
    let again = fixture.tick();
    assert_eq!((again.notice.state, again.limits.rate.unwrap().count), ("limited", 100.0));
    fixture.throughput = Throughput { in_flight: 2, average: Some(0.02), ..fixture.throughput };
    assert_eq!(fixture.states(15), ["limited"; 15]);
    assert_eq!(fixture.states(1), ["recovering"]);
    // The load drops. No request is refused any more, and after two seconds the limit ends.
    fixture.throughput = Throughput { refusals: 0.0, arrivals: 40.0, ..fixture.throughput };
    assert_eq!(fixture.states(8), ["recovering"; 8]);
    let over = fixture.tick();
    assert_eq!(over.notice.state, "closed");
    assert!(over.limits.rate.is_none() && over.notice.reason.is_empty());
}

#[test]
fn unreadable_signals_do_not_hold_and_are_reported() {
    let mut fixture = LawFixture::new(example_rule());
    fixture.throughput = Throughput { in_flight: 71, average: Some(0.2), ..fixture.throughput };
    let adjustment = fixture.tick();
    assert_eq!(
        (adjustment.notice.state, adjustment.notice.reason.as_str()),
        ("closed", ""),
        "the next sample may give it"
    );
    fixture.readings.record(Signal::Load5, Reading::Unreadable);
    let adjustment = fixture.tick();
    assert_eq!((adjustment.notice.state, adjustment.notice.reason.as_str()), ("closed", "load5 cannot be read"));
    let adjustment = (0..10).map(|_| fixture.tick()).last().unwrap();
    assert_eq!((adjustment.notice.state, adjustment.notice.reason.as_str()), ("closed", "load5 cannot be read"));
    assert_eq!(adjustment.notice.readings[0], (Signal::Load5, None));
    // With `any`, the other conditions still count.
    let mut fixture = LawFixture::new(Ceiling { quorum: Quorum::Any, ..example_rule() });
    fixture.readings.record(Signal::Load5, Reading::Unreadable);
    fixture.throughput = Throughput { in_flight: 71, average: Some(0.02), ..fixture.throughput };
    let adjustment = (0..10).map(|_| fixture.tick()).last().unwrap();
    assert_eq!(adjustment.notice.state, "limited");
    assert_eq!(adjustment.notice.reason, "load5 cannot be read, in_flight 71 > 50: at most 100 per 1s");
}

#[test]
fn each_condition_has_its_own_duration() {
    let quick = Condition { min_duration: Some(Duration::ZERO), ..above(Signal::InFlight, 50.0) };
    let slow = Condition { min_duration: Some(SECOND * 2), ..above(Signal::Cpu, 0.9) };
    let cap = Cap::Rate { count: 5, window: SECOND };
    let mut fixture = LawFixture::new(Ceiling::new([quick, slow], cap));
    fixture.readings.set(Signal::Cpu, Some(0.95));
    assert_eq!(fixture.states(12), ["closed"; 12]);
    fixture.throughput.in_flight = 51;
    assert_eq!(fixture.states(1), ["limited"], "both minimum durations are met");
    let mut fixture = LawFixture::new(Ceiling { quorum: Quorum::Any, ..Ceiling::new([slow], cap) });
    fixture.readings.set(Signal::Cpu, Some(0.95));
    assert_eq!(fixture.states(8), ["entering"; 8]);
    assert_eq!(fixture.states(1), ["limited"]);
}

#[test]
fn conditions_below_a_value_and_wrong_exit_values() {
    let scarce = Condition { exit: 1.0, ..Condition::new(Signal::RequestsPerSecond, Comparison::AtMost, 10.0) };
    let mut fixture = LawFixture::new(Ceiling::new([scarce], Cap::Rate { count: 5, window: SECOND }));
    fixture.throughput = Throughput { arrivals: 10.0, refusals: 1.0, ..fixture.throughput };
    assert_eq!(fixture.states(20)[3..], ["limited"; 17], "a wrong exit value does not end it");
    fixture.throughput.arrivals = 11.0;
    assert_eq!(*fixture.states(10).last().unwrap(), "recovering");
}

#[test]
fn missing_responses_do_not_end_an_overload() {
    let rule = Ceiling::new([above(Signal::AverageResponseTime, 0.1)], Cap::Rate { count: 5, window: SECOND });
    let mut fixture = LawFixture::new(rule);
    fixture.throughput = Throughput { average: Some(3.0), refusals: 100.0, ..fixture.throughput };
    fixture.states(10);
    fixture.throughput.average = None;
    assert_eq!(fixture.states(40), ["limited"; 40], "requests are in flight and none completes");
    fixture.throughput = Throughput { in_flight: 0, arrivals: 0.0, refusals: 0.0, ..fixture.throughput };
    assert_eq!(*fixture.states(40).last().unwrap(), "closed", "no requests are in flight");
}

#[test]
fn a_rule_without_conditions_never_limits() {
    for quorum in [Quorum::All, Quorum::Any] {
        let rule = Ceiling { quorum, ..Ceiling::new([], Cap::Rate { count: 1, window: SECOND }) };
        assert_eq!(LawFixture::new(rule).states(20), ["closed"; 20]);
    }
}

#[test]
fn a_capacity_share_uses_the_measured_capacity() {
    let rule = Ceiling::new([above(Signal::Cpu, 0.9)], Cap::ShareOfCapacity(0.8));
    let mut fixture = LawFixture::new(rule);
    fixture.readings.set(Signal::Cpu, Some(0.5));
    fixture.throughput = Throughput { arrivals: 400.0, responses: 400.0, ..fixture.throughput };
    fixture.states(40);
    // Arrivals exceed the capacity, and the service completes fewer than it can.
    fixture.readings.set(Signal::Cpu, Some(1.0));
    fixture.throughput = Throughput { arrivals: 900.0, responses: 250.0, ..fixture.throughput };
    let adjustment = (0..4).map(|_| fixture.tick()).last().unwrap();
    assert_eq!(adjustment.notice.reason, "cpu 100% > 90%: at most 320 per 1s");
    // Under the limit it completes all admitted requests: nothing to correct, for any time.
    fixture.throughput = Throughput { responses: 320.0, refusals: 580.0, ..fixture.throughput };
    let adjustment = (0..400).map(|_| fixture.tick()).last().unwrap();
    assert_eq!(adjustment.limits.rate.unwrap().count, 320.0);
    // It becomes slower than ever before.
    fixture.throughput.responses = 100.0;
    let adjustment = (0..9).map(|_| fixture.tick()).last().unwrap();
    assert_eq!(adjustment.limits.rate.unwrap().count, 80.0);
    fixture.throughput.responses = 80.0;
    let adjustment = (0..400).map(|_| fixture.tick()).last().unwrap();
    assert_eq!(adjustment.limits.rate.unwrap().count, 80.0, "no further decrease");
}

#[test]
fn a_capacity_share_falls_back_to_the_current_rate() {
    let rule = Ceiling::new([above(Signal::Cpu, 0.9)], Cap::ShareOfCapacity(0.5));
    let mut fixture = LawFixture::new(rule.clone());
    fixture.readings.set(Signal::Cpu, Some(1.0));
    fixture.throughput.responses = 60.0;
    let adjustment = (0..4).map(|_| fixture.tick()).last().unwrap();
    assert_eq!(adjustment.limits.rate.unwrap().count, 30.0);
    let mut fixture = LawFixture::new(rule);
    fixture.readings.set(Signal::Cpu, Some(1.0));
    fixture.throughput.responses = 0.0;
    let adjustment = (0..4).map(|_| fixture.tick()).last().unwrap();
    assert_eq!(adjustment.limits.rate.unwrap().count, 1.0, "at least one per second");
}

/// With no requests the capacity is unknown: later requests are not refused by a share of zero.
#[test]
fn an_unknown_capacity_does_not_limit() {
    let mut fixture = LawFixture::new(Ceiling::new([above(Signal::Cpu, 0.9)], Cap::ShareOfCapacity(0.8)));
    fixture.readings.set(Signal::Cpu, Some(1.0));
    fixture.throughput = Throughput::default();
    let adjustment = (0..40).map(|_| fixture.tick()).last().unwrap();
    assert!(adjustment.limits.rate.is_none(), "{adjustment:?}");
    assert_eq!(adjustment.notice.reason, "cpu 100% > 90%: capacity not known yet");
    fixture.throughput = Throughput { arrivals: 100.0, in_flight: 5, ..Throughput::default() };
    assert!(fixture.tick().limits.rate.is_none(), "no request can have completed yet");
    fixture.throughput = Throughput { responses: 100.0, average: Some(0.05), ..fixture.throughput };
    assert_eq!(fixture.tick().limits.rate.unwrap().count, 80.0);
}

/// Requests are decided for other processes, and completions are not reported.
#[test]
fn capacity_uses_admitted_requests_without_completions() {
    let mut fixture = LawFixture::new(Ceiling::new([above(Signal::Cpu, 0.9)], Cap::ShareOfCapacity(0.8)));
    fixture.readings.set(Signal::Cpu, Some(0.5));
    fixture.throughput = Throughput { arrivals: 50.0, ..Throughput::default() };
    fixture.states(40);
    fixture.readings.set(Signal::Cpu, Some(1.0));
    fixture.throughput.arrivals = 200.0;
    let adjustment = (0..4).map(|_| fixture.tick()).last().unwrap();
    assert!(adjustment.limits.rate.is_some_and(|rate| rate.count >= 40.0), "{adjustment:?}");
}

/// An outage of some seconds is no measure of the capacity.
#[test]
fn an_outage_does_not_lower_the_capacity_below_a_tenth() {
    let mut fixture = LawFixture::new(Ceiling::new([above(Signal::Cpu, 0.9)], Cap::ShareOfCapacity(0.8)));
    fixture.readings.set(Signal::Cpu, Some(0.5));
    fixture.throughput = Throughput { arrivals: 100.0, responses: 100.0, ..fixture.throughput };
    fixture.states(40);
    fixture.readings.set(Signal::Cpu, Some(1.0));
    fixture.states(4);
    fixture.throughput = Throughput { responses: 0.0, refusals: 20.0, ..fixture.throughput };
    let adjustment = (0..240).map(|_| fixture.tick()).last().unwrap();
    assert_eq!(adjustment.limits.rate.unwrap().count, 8.0, "a tenth, regardless of the duration");
}

/// A hanging service completes no request, so there are no response times: they count as the time since the
/// last completion.
#[test]
fn a_hanging_service_counts_as_slow() {
    let mut fixture = LawFixture::new(example_rule());
    fixture.readings.set(Signal::Load5, Some(5.0));
    fixture.throughput =
        Throughput { arrivals: 100.0, responses: 100.0, in_flight: 3, average: Some(0.03), ..fixture.throughput };
    assert_eq!(fixture.states(8), ["closed"; 8]);
    fixture.throughput = Throughput { responses: 0.0, in_flight: 300, average: None, ..fixture.throughput };
    let states = fixture.states(8);
    assert_eq!(states[..2], ["closed", "entering"], "a short stall does not count");
    assert_eq!(*states.last().unwrap(), "limited");
    assert!(fixture.tick().notice.reason.contains("avg_rt 2s > 100ms"), "{}", fixture.tick().notice.reason);
    // With no requests in flight nothing is awaited.
    fixture.throughput = Throughput::default();
    assert_eq!(*fixture.states(40).last().unwrap(), "closed");
}

/// Runs a law against a service for some seconds; returns the number of entries and of relapses.
fn count_transitions(
    service: &mut SimulatedService,
    law: &mut ThresholdLaw,
    seconds: u64,
    load5: f64,
) -> (usize, usize) {
    let (mut entries, mut relapses) = (0, 0);
    for _ in 0..seconds * 4 {
        let before = law.state();
        service.tick(law, &[(Signal::Load5, load5)]);
        if law.state() == "limited" && before != "limited" {
            if before == "recovering" { relapses += 1 } else { entries += 1 }
        }
    }
    (entries, relapses)
}

#[test]
fn example_rule_keeps_the_service_stable() {
    // Capacity 300/s, offered 900/s.
    let mut service = SimulatedService::new(6.0, 0.02, 1);
    let mut law = ThresholdLaw::new(example_rule());
    service.offered = 150.0;
    assert_eq!(count_transitions(&mut service, &mut law, 20, 3.0), (0, 0));
    service.offered = 900.0;
    let (entries, relapses) = count_transitions(&mut service, &mut law, 120, 6.0);
    assert_eq!(entries, 1);
    assert!(relapses <= 8, "{relapses} relapses in two minutes");
    assert!(service.in_flight() < 400, "{} in flight", service.in_flight());
    service.offered = 150.0;
    assert_eq!(count_transitions(&mut service, &mut law, 30, 5.0), (0, 0));
    assert_eq!(law.state(), "closed");
}

/// In a slight, sustained overload few requests are refused, so a rising limit soon refuses none, and
/// without it the overload returns.
#[test]
fn slight_sustained_overload_does_not_oscillate() {
    for (seed, overload) in (1..=4).flat_map(|seed| [1.05, 1.1, 1.2, 1.3].map(|overload| (seed, overload))) {
        let mut service = SimulatedService::new(4.0, 0.02, seed);
        let conditions = [above(Signal::AverageResponseTime, 0.2), above(Signal::InFlight, 30.0)];
        let mut law = ThresholdLaw::new(Ceiling::new(conditions, Cap::ShareOfCapacity(0.8)));
        service.offered = 100.0;
        assert_eq!(count_transitions(&mut service, &mut law, 20, 0.0), (0, 0));
        service.offered = 200.0 * overload;
        let (entries, relapses) = count_transitions(&mut service, &mut law, 180, 0.0);
        assert!(
            entries + relapses <= 7,
            "{overload}, {seed}: {entries} entries and {relapses} relapses in three minutes"
        );
        // After the load has dropped, the longer hold time does not apply.
        service.offered = 100.0;
        count_transitions(&mut service, &mut law, 15, 0.0);
        assert_eq!(law.state(), "closed", "{overload}, {seed}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// The limit lowers response times and requests in flight, and must not oscillate because of that.
    #[test]
    fn one_overload_is_entered_once(
        seed in any::<u64>(),
        overload in 1.3f64..6.0,
        ceiling in 0.2f64..0.9,
        capacity in 100.0f64..300.0,
        any_condition in any::<bool>(),
        share in any::<bool>(),
    ) {
        let mut service = SimulatedService::new(4.0, 4.0 / capacity, seed);
        let conditions = [
            above(Signal::AverageResponseTime, 40.0 / capacity),
            above(Signal::InFlight, 30.0),
        ];
        let cap = if share {
            Cap::ShareOfCapacity(ceiling)
        } else {
            Cap::Rate { count: (capacity * ceiling) as u64, window: SECOND }
        };
        let quorum = if any_condition { Quorum::Any } else { Quorum::All };
        let mut law = ThresholdLaw::new(Ceiling { quorum, ..Ceiling::new(conditions, cap) });
        for _ in 0..2 {
            service.offered = capacity * 0.5;
            prop_assert_eq!(count_transitions(&mut service, &mut law, 10, 0.0), (0, 0), "no overload");
            service.offered = capacity * overload;
            let (entries, relapses) = count_transitions(&mut service, &mut law, 60, 0.0);
            prop_assert_eq!(entries, 1);
            prop_assert!(relapses <= 6, "{} relapses in a minute", relapses);
            service.offered = capacity * 0.3;
            // The backlog of the last second of overload may still trigger the conditions.
            let (entries, relapses) = count_transitions(&mut service, &mut law, 60, 0.0);
            prop_assert!(entries == 0 && relapses <= 1, "{} and {}", entries, relapses);
            prop_assert_eq!(law.state(), "closed");
        }
    }
}

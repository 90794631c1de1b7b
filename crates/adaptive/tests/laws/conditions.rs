//! Ceilings by conditions.

use std::time::Duration;

use proptest::prelude::*;
use sluicegate_adaptive::conditions::Strain;
use sluicegate_adaptive::law::{Law, MachineFacts, Seen, Turn};
use sluicegate_adaptive::readings::{Reading, Readings};
use sluicegate_engine::Timestamp;
use sluicegate_engine::gate::{Gate, Passing};
use sluicegate_engine::rule::{Ceiling, Comparison, Condition, Most, Need, Signal};

use crate::plant::Plant;

const SECOND: Duration = Duration::from_secs(1);

fn above(signal: Signal, value: f64) -> Condition {
    Condition::new(signal, Comparison::Above, value)
}

/// load5 > 4 and avg RT > 100 ms and in flight > 50: at most 100/s.
fn the_example() -> Ceiling {
    let conditions =
        [above(Signal::Load5, 4.0), above(Signal::AverageResponseTime, 0.1), above(Signal::InFlight, 50.0)];
    Ceiling::new(conditions, Most::Rate { count: 100, window: SECOND })
}

/// A law that is told what was measured, without a service.
struct Told {
    law: Strain,
    gate: Gate,
    millis: u64,
    readings: Readings,
    passing: Passing,
}

impl Told {
    fn new(rule: Ceiling) -> Self {
        let passing = Passing { arrivals: 500.0, answers: 300.0, in_flight: 10, ..Passing::default() };
        Self { law: Strain::new(rule), gate: Gate::default(), millis: 0, readings: Readings::UNKNOWN, passing }
    }

    /// A quarter of a second later.
    fn tick(&mut self) -> Turn {
        self.millis += 250;
        let now = Timestamp::from_nanos(self.millis * 1_000_000);
        let (passing, readings, machine) = (self.passing, &self.readings, MachineFacts::default());
        self.law.turn(&Seen { now, passing, readings, machine }, &mut self.gate)
    }

    fn states(&mut self, ticks: usize) -> Vec<&'static str> {
        (0..ticks).map(|_| self.tick().notice.state).collect()
    }
}

#[test]
fn the_example_tells_its_story() {
    let mut told = Told::new(the_example());
    // A busy day: the load is high, but requests are quick.
    told.readings.set(Signal::Load5, Some(5.2));
    told.passing = Passing { in_flight: 71, average: Some(0.03), ..told.passing };
    assert_eq!(told.states(8), ["closed"; 8]);
    assert!(told.tick().orders.rate.is_none());
    // They become slow, all three hold together, but for half a second only.
    told.passing.average = Some(0.13);
    assert_eq!(told.states(3), ["entering"; 3]);
    told.passing.in_flight = 49;
    assert_eq!(told.states(1), ["closed"]);
    // And now they last: three quarters of a second.
    told.passing.in_flight = 71;
    let entering = told.tick();
    assert_eq!(entering.notice.state, "entering");
    assert!(entering.orders.rate.is_none());
    assert_eq!(told.states(2), ["entering"; 2]);
    let limited = told.tick();
    assert_eq!(limited.notice.state, "limited");
    assert_eq!(limited.notice.reason, "load5 5.2 > 4, avg_rt 130ms > 100ms, in_flight 71 > 50: at most 100 per 1s");
    assert_eq!(
        limited.notice.readings,
        [(Signal::Load5, Some(5.2)), (Signal::AverageResponseTime, Some(0.13)), (Signal::InFlight, Some(71.0))]
    );
    let rate = limited.orders.rate.unwrap();
    assert_eq!((rate.count, rate.window), (100.0, SECOND));
    // The ceiling works: times and places fall below the values that let it in, but not beyond those that let it go.
    told.passing = Passing { in_flight: 45, average: Some(0.09), refusals: 400.0, ..told.passing };
    assert_eq!(told.states(40), ["limited"; 40]);
    let still = told.tick();
    assert!(still.notice.reason.starts_with("load5 5.2 > 4, avg_rt 130ms"), "why it began: {}", still.notice.reason);
    // Then beyond those. The load over five minutes stays, but all three must hold together. Two seconds later it
    // begins to rise.
    told.passing = Passing { in_flight: 2, average: Some(0.02), ..told.passing };
    assert_eq!(told.states(8), ["limited"; 8]);
    let mut heights = Vec::new();
    for _ in 0..12 {
        let turn = told.tick();
        assert_eq!(turn.notice.state, "recovering");
        heights.push(turn.orders.rate.unwrap().count);
    }
    assert_eq!(heights[0], 100.0);
    assert!((heights[4] - 110.0).abs() < 1e-9, "a tenth per second: {heights:?}");
    assert!((heights[8] - 121.0).abs() < 1e-9, "a tenth per second: {heights:?}");
    // Too much already: it falls back to where it was, and stays twice as long.
    told.passing = Passing { in_flight: 90, average: Some(0.2), ..told.passing };
    assert_eq!(told.states(3), ["recovering"; 3]);
    let again = told.tick();
    assert_eq!((again.notice.state, again.orders.rate.unwrap().count), ("limited", 100.0));
    told.passing = Passing { in_flight: 2, average: Some(0.02), ..told.passing };
    assert_eq!(told.states(15), ["limited"; 15]);
    assert_eq!(told.states(1), ["recovering"]);
    // The crowd leaves. Nobody is refused any more, and after two seconds it is over.
    told.passing = Passing { refusals: 0.0, arrivals: 40.0, ..told.passing };
    assert_eq!(told.states(8), ["recovering"; 8]);
    let over = told.tick();
    assert_eq!(over.notice.state, "closed");
    assert!(over.orders.rate.is_none() && over.notice.reason.is_empty());
}

#[test]
fn what_cannot_be_read_does_not_hold_and_is_said() {
    let mut told = Told::new(the_example());
    told.passing = Passing { in_flight: 71, average: Some(0.2), ..told.passing };
    let turn = told.tick();
    assert_eq!((turn.notice.state, turn.notice.reason.as_str()), ("closed", ""), "it may be there at the next look");
    told.readings.note(Signal::Load5, Reading::Unreadable);
    let turn = told.tick();
    assert_eq!((turn.notice.state, turn.notice.reason.as_str()), ("closed", "load5 cannot be read"));
    let turn = (0..10).map(|_| told.tick()).last().unwrap();
    assert_eq!((turn.notice.state, turn.notice.reason.as_str()), ("closed", "load5 cannot be read"));
    assert_eq!(turn.notice.readings[0], (Signal::Load5, None));
    // With `any`, the others still count.
    let mut told = Told::new(Ceiling { need: Need::Any, ..the_example() });
    told.readings.note(Signal::Load5, Reading::Unreadable);
    told.passing = Passing { in_flight: 71, average: Some(0.02), ..told.passing };
    let turn = (0..10).map(|_| told.tick()).last().unwrap();
    assert_eq!(turn.notice.state, "limited");
    assert_eq!(turn.notice.reason, "load5 cannot be read, in_flight 71 > 50: at most 100 per 1s");
}

#[test]
fn each_condition_may_last_its_own_time() {
    let quick = Condition { lasting: Some(Duration::ZERO), ..above(Signal::InFlight, 50.0) };
    let slow = Condition { lasting: Some(SECOND * 2), ..above(Signal::Cpu, 0.9) };
    let most = Most::Rate { count: 5, window: SECOND };
    let mut told = Told::new(Ceiling::new([quick, slow], most));
    told.readings.set(Signal::Cpu, Some(0.95));
    assert_eq!(told.states(12), ["closed"; 12]);
    told.passing.in_flight = 51;
    assert_eq!(told.states(1), ["limited"], "one lasted long enough already, the other need not");
    let mut told = Told::new(Ceiling { need: Need::Any, ..Ceiling::new([slow], most) });
    told.readings.set(Signal::Cpu, Some(0.95));
    assert_eq!(told.states(8), ["entering"; 8]);
    assert_eq!(told.states(1), ["limited"]);
}

#[test]
fn conditions_below_a_value_and_wrong_exit_values() {
    let scarce = Condition { exit: 1.0, ..Condition::new(Signal::RequestsPerSecond, Comparison::AtMost, 10.0) };
    let mut told = Told::new(Ceiling::new([scarce], Most::Rate { count: 5, window: SECOND }));
    told.passing = Passing { arrivals: 10.0, refusals: 1.0, ..told.passing };
    assert_eq!(told.states(20)[3..], ["limited"; 17], "it is not over before it began");
    told.passing.arrivals = 11.0;
    assert_eq!(*told.states(10).last().unwrap(), "recovering");
}

#[test]
fn no_answers_at_all_are_not_the_end_of_a_strain() {
    let rule = Ceiling::new([above(Signal::AverageResponseTime, 0.1)], Most::Rate { count: 5, window: SECOND });
    let mut told = Told::new(rule);
    told.passing = Passing { average: Some(3.0), refusals: 100.0, ..told.passing };
    told.states(10);
    told.passing.average = None;
    assert_eq!(told.states(40), ["limited"; 40], "requests are inside and none comes out");
    told.passing = Passing { in_flight: 0, arrivals: 0.0, refusals: 0.0, ..told.passing };
    assert_eq!(*told.states(40).last().unwrap(), "closed", "nobody is there any more");
}

#[test]
fn without_conditions_nothing_ever_holds() {
    for need in [Need::All, Need::Any] {
        let rule = Ceiling { need, ..Ceiling::new([], Most::Rate { count: 1, window: SECOND }) };
        assert_eq!(Told::new(rule).states(20), ["closed"; 20]);
    }
}

#[test]
fn a_share_of_capacity_is_of_what_was_measured() {
    let rule = Ceiling::new([above(Signal::Cpu, 0.9)], Most::ShareOfCapacity(0.8));
    let mut told = Told::new(rule);
    told.readings.set(Signal::Cpu, Some(0.5));
    told.passing = Passing { arrivals: 400.0, answers: 400.0, ..told.passing };
    told.states(40);
    // Too much comes, and the service answers fewer than it can.
    told.readings.set(Signal::Cpu, Some(1.0));
    told.passing = Passing { arrivals: 900.0, answers: 250.0, ..told.passing };
    let turn = (0..4).map(|_| told.tick()).last().unwrap();
    assert_eq!(turn.notice.reason, "cpu 100% > 90%: at most 320 per 1s");
    // With the ceiling it answers what comes in: nothing to correct, for however long.
    told.passing = Passing { answers: 320.0, refusals: 580.0, ..told.passing };
    let turn = (0..400).map(|_| told.tick()).last().unwrap();
    assert_eq!(turn.orders.rate.unwrap().count, 320.0);
    // It becomes slower than it ever was.
    told.passing.answers = 100.0;
    let turn = (0..9).map(|_| told.tick()).last().unwrap();
    assert_eq!(turn.orders.rate.unwrap().count, 80.0);
    told.passing.answers = 80.0;
    let turn = (0..400).map(|_| told.tick()).last().unwrap();
    assert_eq!(turn.orders.rate.unwrap().count, 80.0, "and that is all");
}

#[test]
fn a_share_of_what_is_not_known_is_of_the_present() {
    let rule = Ceiling::new([above(Signal::Cpu, 0.9)], Most::ShareOfCapacity(0.5));
    let mut told = Told::new(rule.clone());
    told.readings.set(Signal::Cpu, Some(1.0));
    told.passing.answers = 60.0;
    let turn = (0..4).map(|_| told.tick()).last().unwrap();
    assert_eq!(turn.orders.rate.unwrap().count, 30.0);
    let mut told = Told::new(rule);
    told.readings.set(Signal::Cpu, Some(1.0));
    told.passing.answers = 0.0;
    let turn = (0..4).map(|_| told.tick()).last().unwrap();
    assert_eq!(turn.orders.rate.unwrap().count, 1.0, "somebody must come in");
}

/// Nothing is known, as nobody has come: who comes then is not shut out by a share of nothing.
#[test]
fn a_share_of_nothing_shuts_out_nobody() {
    let mut told = Told::new(Ceiling::new([above(Signal::Cpu, 0.9)], Most::ShareOfCapacity(0.8)));
    told.readings.set(Signal::Cpu, Some(1.0));
    told.passing = Passing::default();
    let turn = (0..40).map(|_| told.tick()).last().unwrap();
    assert!(turn.orders.rate.is_none(), "{turn:?}");
    assert_eq!(turn.notice.reason, "cpu 100% > 90%: what can be done is not known yet");
    told.passing = Passing { arrivals: 100.0, in_flight: 5, ..Passing::default() };
    assert!(told.tick().orders.rate.is_none(), "nobody can have been answered yet");
    told.passing = Passing { answers: 100.0, average: Some(0.05), ..told.passing };
    assert_eq!(told.tick().orders.rate.unwrap().count, 80.0);
}

/// Requests are checked for others, and nobody tells when they end.
#[test]
fn a_share_of_what_is_let_in_where_nobody_tells_of_answers() {
    let mut told = Told::new(Ceiling::new([above(Signal::Cpu, 0.9)], Most::ShareOfCapacity(0.8)));
    told.readings.set(Signal::Cpu, Some(0.5));
    told.passing = Passing { arrivals: 50.0, ..Passing::default() };
    told.states(40);
    told.readings.set(Signal::Cpu, Some(1.0));
    told.passing.arrivals = 200.0;
    let turn = (0..4).map(|_| told.tick()).last().unwrap();
    assert!(turn.orders.rate.is_some_and(|rate| rate.count >= 40.0), "{turn:?}");
}

/// For some seconds nothing is answered, for whatever reason: that says nothing about what can be done.
#[test]
fn an_outage_is_not_taken_for_a_capacity() {
    let mut told = Told::new(Ceiling::new([above(Signal::Cpu, 0.9)], Most::ShareOfCapacity(0.8)));
    told.readings.set(Signal::Cpu, Some(0.5));
    told.passing = Passing { arrivals: 100.0, answers: 100.0, ..told.passing };
    told.states(40);
    told.readings.set(Signal::Cpu, Some(1.0));
    told.states(4);
    told.passing = Passing { answers: 0.0, refusals: 20.0, ..told.passing };
    let turn = (0..240).map(|_| told.tick()).last().unwrap();
    assert_eq!(turn.orders.rate.unwrap().count, 8.0, "a tenth, however long it lasts");
}

/// A service that hangs answers nobody, so there are no times to compare: they are as long as it has been silent.
#[test]
fn a_service_that_hangs_is_slow() {
    let mut told = Told::new(the_example());
    told.readings.set(Signal::Load5, Some(5.0));
    told.passing = Passing { arrivals: 100.0, answers: 100.0, in_flight: 3, average: Some(0.03), ..told.passing };
    assert_eq!(told.states(8), ["closed"; 8]);
    told.passing = Passing { answers: 0.0, in_flight: 300, average: None, ..told.passing };
    let states = told.states(8);
    assert_eq!(states[..2], ["closed", "entering"], "a moment of silence is nothing");
    assert_eq!(*states.last().unwrap(), "limited");
    assert!(told.tick().notice.reason.contains("avg_rt 2s > 100ms"), "{}", told.tick().notice.reason);
    // Where nobody is inside, nobody is waited for.
    told.passing = Passing::default();
    assert_eq!(*told.states(40).last().unwrap(), "closed");
}

/// Runs a law against a service for some seconds; answers how often it began to limit, and how often it fell back.
fn entries(plant: &mut Plant, law: &mut Strain, seconds: u64, load5: f64) -> (usize, usize) {
    let (mut entries, mut falls) = (0, 0);
    for _ in 0..seconds * 4 {
        let before = law.state();
        plant.tick(law, &[(Signal::Load5, load5)]);
        if law.state() == "limited" && before != "limited" {
            if before == "recovering" { falls += 1 } else { entries += 1 }
        }
    }
    (entries, falls)
}

#[test]
fn the_example_holds_a_service_above_water() {
    // 300/s can be done; 900/s come.
    let mut plant = Plant::new(6.0, 0.02, 1);
    let mut law = Strain::new(the_example());
    plant.offered = 150.0;
    assert_eq!(entries(&mut plant, &mut law, 20, 3.0), (0, 0));
    plant.offered = 900.0;
    let (begun, fell) = entries(&mut plant, &mut law, 120, 6.0);
    assert_eq!(begun, 1);
    assert!(fell <= 8, "fell back {fell} times in two minutes");
    assert!(plant.inside() < 400, "{} inside", plant.inside());
    plant.offered = 150.0;
    assert_eq!(entries(&mut plant, &mut law, 30, 5.0), (0, 0));
    assert_eq!(law.state(), "closed");
}

/// A little too much, for long: what is refused then is so little that a rising ceiling soon refuses nobody, and without
/// it the strain comes back.
#[test]
fn a_little_too_much_for_long_does_not_make_it_come_and_go() {
    for (seed, overload) in (1..=4).flat_map(|seed| [1.05, 1.1, 1.2, 1.3].map(|overload| (seed, overload))) {
        let mut plant = Plant::new(4.0, 0.02, seed);
        let conditions = [above(Signal::AverageResponseTime, 0.2), above(Signal::InFlight, 30.0)];
        let mut law = Strain::new(Ceiling::new(conditions, Most::ShareOfCapacity(0.8)));
        plant.offered = 100.0;
        assert_eq!(entries(&mut plant, &mut law, 20, 0.0), (0, 0));
        plant.offered = 200.0 * overload;
        let (begun, fell) = entries(&mut plant, &mut law, 180, 0.0);
        assert!(begun + fell <= 7, "{overload}, {seed}: {begun} entries and {fell} falls in three minutes");
        // When the crowd has left, the ceiling does not stay for as long as it would have with it.
        plant.offered = 100.0;
        entries(&mut plant, &mut law, 15, 0.0);
        assert_eq!(law.state(), "closed", "{overload}, {seed}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// The ceiling lowers times and places inside, and must not come and go because of that.
    #[test]
    fn a_stretch_of_overload_is_entered_once(
        seed in any::<u64>(),
        overload in 1.3f64..6.0,
        ceiling in 0.2f64..0.9,
        capacity in 100.0f64..300.0,
        any_of_them in any::<bool>(),
        share in any::<bool>(),
    ) {
        let mut plant = Plant::new(4.0, 4.0 / capacity, seed);
        let conditions = [
            above(Signal::AverageResponseTime, 40.0 / capacity),
            above(Signal::InFlight, 30.0),
        ];
        let most = if share {
            Most::ShareOfCapacity(ceiling)
        } else {
            Most::Rate { count: (capacity * ceiling) as u64, window: SECOND }
        };
        let need = if any_of_them { Need::Any } else { Need::All };
        let mut law = Strain::new(Ceiling { need, ..Ceiling::new(conditions, most) });
        for _ in 0..2 {
            plant.offered = capacity * 0.5;
            prop_assert_eq!(entries(&mut plant, &mut law, 10, 0.0), (0, 0), "nothing is wrong");
            plant.offered = capacity * overload;
            let (begun, fell) = entries(&mut plant, &mut law, 60, 0.0);
            prop_assert_eq!(begun, 1);
            prop_assert!(fell <= 6, "fell back {} times in a minute", fell);
            plant.offered = capacity * 0.3;
            // What the last second of the overload left behind may still be a reason.
            let (begun, fell) = entries(&mut plant, &mut law, 60, 0.0);
            prop_assert!(begun == 0 && fell <= 1, "{} and {}", begun, fell);
            prop_assert_eq!(law.state(), "closed");
        }
    }
}

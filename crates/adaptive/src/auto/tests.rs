use proptest::prelude::*;
use sluicegate_engine::gate::{Lap, Passing};

use super::*;
use crate::law::MachineFacts;
use crate::readings::Readings;

/// Laps that say what they are told to.
struct Told(Lap);

impl Laps for Told {
    fn look(&mut self) -> Lap {
        self.0
    }

    fn take(&mut self) -> Lap {
        self.0
    }
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_nanos((1_000_000 + millis) * 1_000_000)
}

/// A server that works on eight at once for 10 ms each, and has as many as there are places inside.
fn busy(places: f64) -> Lap {
    let pace = 100.0 * places.min(8.0);
    Lap {
        lasted: Duration::from_millis(100),
        arrived: 400,
        refused: 400 - (pace / 10.0) as u64,
        answered: (pace / 10.0) as u64,
        average: Some(places / pace),
        in_flight: places,
        peak: places as usize,
        full: 1.0,
        ..Lap::default()
    }
}

/// The same with hardly anybody inside, however many places there are.
fn calm(_: f64) -> Lap {
    Lap { full: 0.0, in_flight: 3.0, ..busy(8.0) }
}

/// Lets so many milliseconds pass in ticks of fifty.
fn pass(law: &mut AutoLaw, from: u64, millis: u64, lap: impl Fn(f64) -> Lap) -> Turn {
    let mut turn = None;
    for now in (from..from + millis).step_by(50) {
        let lap = lap(law.places());
        let passing = Passing { in_flight: lap.in_flight as usize, average: lap.average, ..Passing::default() };
        let seen = Seen { now: at(now), passing, readings: &Readings::UNKNOWN, machine: MachineFacts::default() };
        turn = Some(law.turn(&seen, &mut Told(lap)));
    }
    turn.expect("some time passed")
}

#[test]
fn it_finds_what_the_server_can_work_on() {
    let mut law = AutoLaw::with_seed(Auto::default(), 1);
    let turn = pass(&mut law, 0, 20_000, busy);
    let unloaded = law.unloaded.expect("known by now");
    assert!((0.009..0.011).contains(&unloaded), "{unloaded}");
    // 8 + 12
    assert!((19.0..=21.0).contains(&law.limit), "{}", law.limit);
    assert!(turn.orders.line.target < turn.orders.line.patience);
}

#[test]
fn a_stated_longest_time_is_kept() {
    let spec = Auto { max_rt: Some(Duration::from_millis(12)), ..Auto::default() };
    let mut law = AutoLaw::with_seed(spec, 1);
    pass(&mut law, 0, 20_000, busy);
    assert!((8.0..=10.0).contains(&law.limit), "{}", law.limit);
    // One that is shorter than the work itself cannot be. One place more than are worked on is left, or nobody would ever
    // find out that the server can do more.
    let spec = Auto { max_rt: Some(Duration::from_millis(1)), ..Auto::default() };
    let mut law = AutoLaw::with_seed(spec, 1);
    pass(&mut law, 0, 20_000, busy);
    assert!((8.5..=9.5).contains(&law.limit), "{}", law.limit);
}

#[test]
fn failures_take_places_until_they_are_usual() {
    let failing = |_| Lap { answered: 40, failed: 40, ..calm(1.0) };
    let mut law = AutoLaw::with_seed(Auto::default(), 1);
    let turn = pass(&mut law, 0, 500, failing);
    assert_eq!(turn.notice.state, "backing off");
    assert!(law.limit < 15.0, "{}", law.limit);
    // What always fails is not overload.
    pass(&mut law, 500, 60_000, failing);
    let before = law.limit;
    let turn = pass(&mut law, 60_500, 1_000, failing);
    assert_eq!(turn.notice.state, "steady");
    assert!(law.limit >= before, "{} {before}", law.limit);
}

#[test]
fn an_idle_limit_sinks_towards_what_is_used() {
    let mut law = AutoLaw::with_seed(Auto::default(), 1);
    law.limit = 5_000.0;
    pass(&mut law, 0, 60_000, |_| Lap { peak: 10, ..calm(1.0) });
    assert!((20.0..=60.0).contains(&law.limit), "{}", law.limit);
}

#[test]
fn without_overload_all_may_wait_as_long_as_the_rule_says() {
    let mut law = AutoLaw::with_seed(Auto::default(), 1);
    let turn = pass(&mut law, 0, 1_000, calm);
    assert_eq!(turn.orders.line.target, turn.orders.line.patience);
    assert_eq!(turn.orders.line.most, 1_000);
}

#[test]
fn how_long_requests_wait_grows_with_what_one_takes_unless_it_is_stated() {
    let patience = |spec: Auto, average: f64| {
        let mut law = AutoLaw::with_seed(spec, 1);
        pass(&mut law, 0, 1_000, |places| Lap { average: Some(average), ..calm(places) }).orders.line.patience
    };
    let usual = Auto::default();
    assert_eq!(patience(usual, 0.001), Duration::from_millis(100));
    assert_eq!(patience(usual, 0.05).as_millis(), 600);
    assert_eq!(patience(usual, 30.0), Duration::from_millis(1_200));
    for stated in [Duration::ZERO, Duration::from_millis(7), Duration::from_secs(60)] {
        assert_eq!(patience(Auto { max_wait: Some(stated), ..usual }, 0.05), stated);
    }
}

/// A server that works on any number at once, for so many milliseconds each; 400 per second want to come.
fn waits(millis: f64) -> impl Fn(f64) -> Lap {
    move |places| {
        let inside = places.min(0.4 * millis);
        let answered = inside / millis * 500.0;
        let full = if inside < places { 0.0 } else { 1.0 };
        let (lasted, answered) = (Duration::from_millis(500), answered as u64);
        let lap = Lap { lasted, arrived: 200, answered, refused: 200 - answered, ..busy(places) };
        Lap { average: Some(millis / 1e3), in_flight: inside, peak: inside as usize, full, ..lap }
    }
}

#[test]
fn slow_work_gets_more_places_at_once() {
    let mut law = AutoLaw::with_seed(Auto::default(), 1);
    pass(&mut law, 0, 5_000, waits(10.0));
    assert_eq!(law.limit, 20.0);
    let turn = pass(&mut law, 5_000, 50, waits(200.0));
    assert_eq!((turn.notice.state, law.limit), ("growing", 80.0));
    pass(&mut law, 5_050, 3_000, waits(200.0));
    assert!(law.limit > 100.0, "{}", law.limit);
    assert!(law.unloaded.is_some_and(|unloaded| (unloaded - 0.2).abs() < 0.02), "{:?}", law.unloaded);
}

#[test]
fn a_server_that_became_weaker_gets_them_only_for_a_moment() {
    let mut law = AutoLaw::with_seed(Auto::default(), 1);
    pass(&mut law, 0, 5_000, waits(10.0));
    // A fifth of the answers of before, whatever comes in.
    let lasted = Duration::from_millis(500);
    let weak = |places: f64| Lap { lasted, arrived: 200, answered: 40, average: Some(places / 80.0), ..busy(places) };
    pass(&mut law, 5_000, 50, weak);
    assert!(law.limit > 20.0, "{}", law.limit);
    pass(&mut law, 5_050, 4_000, weak);
    assert!(law.limit <= 20.0, "{}", law.limit);
}

#[test]
fn too_many_places_are_cut_at_once_and_the_cut_is_kept_if_as_many_are_answered() {
    let mut law = AutoLaw::with_seed(Auto::default(), 1);
    pass(&mut law, 0, 1_000, calm);
    law.limit = 100.0;
    let lasted = Duration::from_millis(500);
    let busy = |places| Lap { lasted, arrived: 2_000, answered: 5 * busy(places).answered, ..busy(places) };
    pass(&mut law, 1_000, 50, busy);
    assert!((33.0..34.0).contains(&law.limit), "a third at first: {}", law.limit);
    pass(&mut law, 1_050, 3_000, busy);
    assert!((18.0..=22.0).contains(&law.limit), "{}", law.limit);
}

#[test]
fn people_are_told_what_it_goes_by() {
    let mut law = AutoLaw::with_seed(Auto::default(), 1);
    let turn = pass(&mut law, 0, 1_000, calm);
    assert_eq!(turn.notice.state, "steady");
    assert_eq!(turn.notice.reason, "places 20, average 10ms against 10ms unloaded");
    let nothing = pass(&mut law, 1_000, 1_000, |_| Lap { lasted: Duration::from_secs(1), ..Lap::default() });
    assert_eq!(nothing.notice.reason, "places 20, nothing answered in the last second");
}

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(0.0), Just(-1.0), Just(f64::MIN_POSITIVE), 0.0..1.0, 0.0..1e6]
}

prop_compose! {
    fn any_lap()(
        lasted in prop_oneof![Just(0u64), 0..2_000u64, Just(u64::MAX)],
        counts in prop::array::uniform4(prop_oneof![Just(0u64), 0..1_000u64, Just(u64::MAX / 4)]),
        times in prop::array::uniform3(prop::option::of(any_number())),
        in_flight in any_number(),
        peak in prop_oneof![0..100usize, Just(usize::MAX)],
        full in any_number(),
    ) -> Lap {
        let [arrived, refused, answered, failed] = counts;
        let [p50, p99, average] = times;
        let lasted = Duration::from_millis(lasted);
        Lap { lasted, arrived, refused, answered, failed, p50, p99, average, in_flight, peak, full }
    }
}

proptest! {
    /// Whatever is measured, and however the clock is set: the limit stays within its bounds.
    #[test]
    fn nothing_leads_out_of_the_bounds(
        laps in prop::collection::vec((any_lap(), 0..10_000_000u64, 0..200usize), 1..200),
        least in 0..50u32,
        most in 0..500u32,
        start in 0..1_000u32,
    ) {
        let spec = Auto { least, most, start, ..Auto::default() };
        let mut law = AutoLaw::with_seed(spec, 1);
        let bounds = least.clamp(1, most.max(1)) as usize..=most.max(1) as usize;
        for (lap, millis, in_flight) in laps {
            let passing = Passing { in_flight, average: lap.average, ..Passing::default() };
            let seen = Seen { now: at(millis), passing, readings: &Readings::UNKNOWN, machine: MachineFacts::default() };
            let turn = law.turn(&seen, &mut Told(lap));
            let places = turn.orders.places.unwrap_or(0);
            prop_assert!(bounds.contains(&places), "{places} not in {bounds:?}");
            prop_assert!(turn.orders.line.target <= turn.orders.line.patience);
        }
    }
}

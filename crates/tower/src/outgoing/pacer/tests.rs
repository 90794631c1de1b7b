//! What may be sent, against what was said.

use proptest::prelude::*;

use super::*;

const LONGEST: Duration = Duration::from_secs(3_600);

fn at(seconds: f64) -> Timestamp {
    Timestamp::from_nanos(1_000_000_000_000 + (seconds * 1e9) as u64)
}

fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn pacer() -> Pacer {
    Pacer::new(Pace::Budget, LONGEST)
}

fn said(remaining: u64, reset: f64) -> Budget {
    Budget { remaining, reset: secs(reset), quota: None, window: None }
}

fn of_quota(remaining: u64, reset: f64, quota: u64, window: f64) -> Budget {
    Budget { quota: Some(quota), window: Some(secs(window)), ..said(remaining, reset) }
}

/// How many can be sent at this moment.
fn burst(pacer: &mut Pacer, now: Timestamp) -> Vec<Mark> {
    std::iter::from_fn(|| pacer.send(now).ok()).take(1_000).collect()
}

#[test]
fn nothing_said_holds_nothing() {
    assert_eq!(burst(&mut pacer(), at(0.0)).len(), 1_000);
}

#[test]
fn nothing_goes_before_the_moment_asked_for() {
    let mut pacer = pacer();
    assert!(pacer.hold(secs(5.0), secs(0.25), at(0.0)));
    assert_eq!(pacer.send(at(0.0)).unwrap_err(), (at(5.25), Hold::Asked));
    assert!(!pacer.hold(secs(1.0), Duration::ZERO, at(1.0)), "a shorter wait does not shorten the longer");
    assert!(pacer.send(at(5.249_999_999)).is_err());
    assert!(pacer.send(at(5.25)).is_ok());
}

#[test]
fn no_word_counts_for_longer_than_we_allow() {
    let mut pacer = pacer();
    pacer.hold(Duration::MAX, Duration::ZERO, at(0.0));
    assert_eq!(pacer.send(at(0.0)).unwrap_err().0, at(3_600.0));
    let mark = pacer.send(at(3_600.0)).unwrap();
    let forever = Budget { reset: Duration::MAX, ..of_quota(0, 1.0, 500, 86_400.0) };
    pacer.answered(&mark, Some(&forever), at(3_600.0));
    assert_eq!(pacer.send(at(3_600.0)).unwrap_err(), (at(7_200.0), Hold::Budget));
    // One goes to ask; the rest wait for what it is told.
    let asking = burst(&mut pacer, at(7_200.0));
    assert_eq!(asking.len(), 1);
    pacer.answered(&asking[0], None, at(7_201.0));
    assert_eq!(burst(&mut pacer, at(7_201.0)).len(), 1_000, "the server does not speak of it any more");
}

#[test]
fn what_remains_is_spent_and_then_the_reset_is_waited_for() {
    let mut pacer = pacer();
    let mark = pacer.send(at(0.0)).unwrap();
    pacer.answered(&mark, Some(&said(3, 10.0)), at(0.0));
    assert_eq!(burst(&mut pacer, at(1.0)).len(), 3);
    assert_eq!(pacer.send(at(1.0)).unwrap_err(), (at(10.0), Hold::Budget));
    assert_eq!(pacer.left(at(1.0)), Some((0, at(10.0))));
}

#[test]
fn what_is_in_flight_may_not_have_been_counted() {
    let mut pacer = pacer();
    let marks = burst(&mut pacer, at(0.0));
    pacer.answered(&marks[0], Some(&said(1_200, 10.0)), at(0.0));
    assert_eq!(pacer.left(at(0.0)), Some((201, at(10.0))), "999 are under way");
}

#[test]
fn an_answer_that_was_overtaken_raises_nothing() {
    let mut pacer = pacer();
    let (first, second) = (pacer.send(at(0.0)).unwrap(), pacer.send(at(0.0)).unwrap());
    pacer.answered(&second, Some(&said(2, 10.0)), at(0.1));
    pacer.answered(&first, Some(&said(50, 10.0)), at(0.1));
    assert_eq!(burst(&mut pacer, at(0.1)).len(), 2, "the second said 2, and had been counted after the first");
}

/// The third of three was held back for a whole window if the second answer came before the first, although
/// one was left: the first was taken for one that is still to be counted, also when its answer was there.
#[test]
fn a_request_that_turns_out_to_be_counted_is_not_counted_again() {
    let mut pacer = pacer();
    let mark = pacer.send(at(0.0)).unwrap();
    pacer.answered(&mark, Some(&said(3, 10.0)), at(0.0));
    let (first, second) = (pacer.send(at(0.0)).unwrap(), pacer.send(at(0.0)).unwrap());
    pacer.answered(&second, Some(&said(1, 10.0)), at(0.1));
    assert_eq!(pacer.left(at(0.1)).unwrap().0, 0, "the first may come after it");
    pacer.answered(&first, Some(&said(2, 10.0)), at(0.2));
    assert_eq!(pacer.left(at(0.2)).unwrap().0, 1, "it came before");
}

#[test]
fn what_ended_without_a_word_counts_until_it_is_surely_counted() {
    let mut pacer = pacer();
    let (_lost, kept) = (pacer.send(at(0.0)).unwrap(), pacer.send(at(0.0)).unwrap());
    pacer.ended();
    pacer.answered(&kept, Some(&said(5, 10.0)), at(0.1));
    assert_eq!(pacer.left(at(0.1)).unwrap().0, 4, "the lost one may come after the answered one");
    let next = pacer.send(at(10.0)).unwrap();
    pacer.answered(&next, Some(&said(5, 10.0)), at(10.1));
    assert_eq!(pacer.left(at(10.1)).unwrap().0, 5, "what ended before it was sent came before it");
}

#[test]
fn after_a_reset_no_more_go_than_the_quota() {
    let mut pacer = pacer();
    let mark = pacer.send(at(0.0)).unwrap();
    pacer.answered(&mark, Some(&of_quota(0, 5.0, 3, 60.0)), at(0.0));
    assert_eq!(pacer.turn(at(0.0), 2).0, at(5.0));
    assert_eq!(pacer.turn(at(0.0), 3).0, at(65.0));
    assert_eq!(pacer.turn(at(0.0), 6).0, at(125.0));
    assert_eq!(burst(&mut pacer, at(5.0)).len(), 3);
    assert_eq!(pacer.send(at(5.0)).unwrap_err(), (at(65.0), Hold::Budget));
}

#[test]
fn after_a_reset_of_unknown_quota_no_more_go_than_were_left_before() {
    let mut pacer = pacer();
    let mark = pacer.send(at(0.0)).unwrap();
    pacer.answered(&mark, Some(&said(3, 5.0)), at(0.0));
    assert_eq!(burst(&mut pacer, at(0.0)).len(), 3);
    (0..3).for_each(|_| pacer.ended());
    let marks = burst(&mut pacer, at(5.0));
    assert_eq!(marks.len(), 4);
    // The first answer tells, and what was supposed is over.
    pacer.answered(&marks[0], Some(&said(99, 5.0)), at(5.1));
    assert_eq!(pacer.left(at(5.1)).unwrap().0, 96);
}

#[test]
fn what_is_never_sent_after_all_is_left() {
    let mut pacer = Pacer::new(Pace::Evenly, LONGEST);
    let mark = pacer.send(at(0.0)).unwrap();
    pacer.answered(&mark, Some(&said(4, 10.0)), at(0.0));
    let before = (pacer.left(at(2.0)), pacer.turn(at(2.0), 1), pacer.in_flight());
    let mark = pacer.send(at(2.0)).unwrap();
    assert_ne!(before, (pacer.left(at(2.0)), pacer.turn(at(2.0), 1), pacer.in_flight()));
    pacer.unsend(&mark);
    assert_eq!(before, (pacer.left(at(2.0)), pacer.turn(at(2.0), 1), pacer.in_flight()));
}

#[test]
fn who_was_let_go_may_be_called_back_while_it_waits_for_something_else() {
    let mut pacer = pacer();
    let (first, second) = (pacer.send(at(0.0)).unwrap(), pacer.send(at(0.0)).unwrap());
    assert!(pacer.may_still_go(at(0.0)));
    pacer.answered(&first, Some(&said(0, 10.0)), at(0.1));
    assert!(!pacer.may_still_go(at(0.1)));
    pacer.unsend(&second);
    assert!(pacer.send(at(0.1)).is_err());
    assert!(pacer.send(at(10.1)).is_ok());
}

#[test]
fn evenly_means_evenly() {
    let mut pacer = Pacer::new(Pace::Evenly, LONGEST);
    let mark = pacer.send(at(0.0)).unwrap();
    pacer.answered(&mark, Some(&said(4, 10.0)), at(0.0));
    assert_eq!(pacer.turn(at(0.0), 2).0, at(6.0));
    for due in [2.0, 4.0, 6.0, 8.0] {
        assert_eq!(pacer.send(at(due - 1.0)).unwrap_err(), (at(due), Hold::Budget));
        assert!(pacer.send(at(due)).is_ok());
    }
    assert_eq!(pacer.send(at(8.0)).unwrap_err().0, at(10.0));
}

#[test]
fn many_ends_take_no_more_room_than_a_few() {
    let mut pacer = pacer();
    for number in 0..10_000_u32 {
        let now = at(f64::from(number) * 0.01);
        let mark = match pacer.send(now) {
            Ok(mark) => mark,
            Err((later, _)) => {
                assert!(later <= now + secs(60.0), "held for longer than anybody said");
                continue;
            }
        };
        pacer.answered(&mark, Some(&said(100, 60.0)), now);
    }
    assert!(pacer.ceilings.iter().count() <= 8);
}

/// What happens to a destination.
#[derive(Clone, Debug)]
enum Event {
    Pass(u64),
    Send,
    Answer { which: usize, remaining: u64, reset: u64 },
    Lose(usize),
    Unsend,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (0_u64..2_000).prop_map(Event::Pass),
        6 => Just(Event::Send),
        4 => (any::<usize>(), 0_u64..12, 1_u64..5_000)
            .prop_map(|(which, remaining, reset)| Event::Answer { which, remaining, reset }),
        1 => any::<usize>().prop_map(Event::Lose),
        1 => Just(Event::Unsend),
    ]
}

/// The promise: between an answer and the reset it told, never more than it said remained.
fn keeps_its_promise(events: Vec<Event>, pace: Pace) -> Result<(), TestCaseError> {
    let mut pacer = Pacer::new(pace, LONGEST);
    let mut now = at(0.0);
    // With how many promises there were when it was sent.
    let mut flying: Vec<(Mark, usize)> = Vec::new();
    // Until when, and how many more.
    let mut promises: Vec<(Timestamp, u64)> = Vec::new();
    for event in events {
        match event {
            Event::Pass(millis) => now = now + Duration::from_millis(millis),
            Event::Send => {
                let expected = pacer.turn(now, 0);
                match pacer.send(now) {
                    Ok(mark) => {
                        flying.push((mark, promises.len()));
                        for (_, left) in promises.iter_mut().filter(|(until, _)| *until > now) {
                            prop_assert!(*left > 0, "more than was left");
                            *left -= 1;
                        }
                    }
                    Err(held) => {
                        prop_assert_eq!(held, expected);
                        prop_assert!(held.0 > now);
                        // It does not go a nanosecond before it is told to come again.
                        let just_before = Timestamp::from_nanos(held.0.as_nanos() - 1);
                        prop_assert!(pacer.clone().send(just_before).is_err());
                    }
                }
            }
            Event::Answer { which, remaining, reset } if !flying.is_empty() => {
                let (mark, _) = flying.swap_remove(which % flying.len());
                let budget = Budget { reset: Duration::from_millis(reset), ..said(remaining, 1.0) };
                pacer.answered(&mark, Some(&budget), now);
                promises.push((now + budget.reset, remaining));
            }
            Event::Lose(which) if !flying.is_empty() => {
                flying.swap_remove(which % flying.len());
                pacer.ended();
            }
            Event::Unsend if !flying.is_empty() => {
                let (mark, promised) = flying.pop().unwrap();
                pacer.unsend(&mark);
                promises[..promised].iter_mut().for_each(|(_, left)| *left += 1);
            }
            _ => {}
        }
        prop_assert_eq!(pacer.in_flight(), flying.len() as u64);
        prop_assert!(pacer.ceilings.iter().count() <= 8);
    }
    Ok(())
}

/// A ceiling that had taken the place of another rose beyond what that other allowed.
#[test]
fn a_ceiling_rises_no_further_than_those_whose_place_it_took() {
    use Event::Send;
    let answer = |which, remaining, reset| Event::Answer { which, remaining, reset };
    let events = [
        vec![Send, Send, answer(0, 4, 1), Send, Send],
        vec![answer(2_744_281_455_115_906_939, 3, 1), answer(1_865_774_501_962_681_808, 5, 1), Send, Send],
        vec![answer(0, 2, 2), answer(0, 3, 1), Send],
    ];
    keeps_its_promise(events.concat(), Pace::Budget).unwrap();
}

/// A ceiling had risen by requests of which one was then never sent.
#[test]
fn a_request_that_is_never_sent_takes_back_what_rose_by_it() {
    use Event::{Lose, Send, Unsend};
    let answer = |which, remaining, reset| Event::Answer { which, remaining, reset };
    let events = [
        vec![Send, Send, answer(0, 6, 1), Send, Send, Send, Lose(471_075_113_130_631_645), Send],
        vec![answer(3_596_796_396_669_802_573, 5, 2), answer(5_342_209_925_588_434, 6, 1), Send, Unsend, Send],
        vec![Lose(437_730_451_472_617), answer(234_634_944_686_203_615, 3, 1), Unsend, Send, Send],
    ];
    keeps_its_promise(events.concat(), Pace::Budget).unwrap();
}

proptest! {
    #[test]
    fn never_more_than_an_answer_said_remains(
        events in prop::collection::vec(event(), 0..200),
        evenly in any::<bool>(),
    ) {
        keeps_its_promise(events, if evenly { Pace::Evenly } else { Pace::Budget })?;
    }

    /// Once all are answered, in whatever order, what is left is exactly what the server has left.
    #[test]
    fn nothing_is_lost_when_answers_overtake_each_other(order in Just((0_u64..7).collect::<Vec<_>>()).prop_shuffle()) {
        let mut pacer = pacer();
        let marks: Vec<Mark> = order.iter().map(|_| pacer.send(at(0.0)).unwrap()).collect();
        for (step, which) in order.iter().enumerate() {
            let remaining = 20 - 1 - which;
            pacer.answered(&marks[*which as usize], Some(&said(remaining, 10.0)), at(0.001 * step as f64));
            prop_assert!(pacer.left(at(0.01)).unwrap().0 <= 20 - 7, "more than there is");
        }
        prop_assert_eq!(pacer.left(at(0.01)).unwrap().0, 20 - 7);
    }

    /// An honest server of fixed windows never has to refuse, however late and out of order its answers
    /// come, once it has been heard.
    #[test]
    fn an_honest_server_never_has_to_refuse(
        quota in 1_u64..8,
        steps in prop::collection::vec((0_u64..400, any::<u16>(), any::<u16>()), 1..300),
    ) {
        const WINDOW: u64 = 1_000;
        struct Server { quota: u64, counted: (u64, u64) }
        impl Server {
            /// Counts a request at `millis` and says what is left.
            fn count(&mut self, millis: u64) -> Option<Budget> {
                if self.counted.0 != millis / WINDOW {
                    self.counted = (millis / WINDOW, 0);
                }
                self.counted.1 += 1;
                let remaining = self.quota.checked_sub(self.counted.1)?;
                let reset = Duration::from_millis(WINDOW - millis % WINDOW);
                let window = Some(Duration::from_millis(WINDOW));
                Some(Budget { remaining, reset, quota: Some(self.quota), window })
            }
        }
        let (mut pacer, mut server) = (pacer(), Server { quota, counted: (0, 0) });
        let moment = |millis: u64| at(0.0) + Duration::from_millis(millis);
        let (mut sent, mut counted) = (Vec::new(), Vec::new());
        let mut millis = 0;
        let first = pacer.send(moment(0)).unwrap();
        pacer.answered(&first, server.count(0).as_ref(), moment(0));
        for (pass, which, answer) in steps {
            millis += pass % 120;
            while pass % 3 == 0 && let Ok(mark) = pacer.send(moment(millis)) {
                sent.push(mark);
            }
            if pass % 5 < 3 && !sent.is_empty() {
                let mark = sent.swap_remove(usize::from(which) % sent.len());
                let budget = server.count(millis);
                prop_assert!(budget.is_some(), "refused at {millis}");
                counted.push((mark, budget));
            }
            if pass % 7 < 4 && !counted.is_empty() {
                let (mark, budget) = counted.swap_remove(usize::from(answer) % counted.len());
                pacer.answered(&mark, budget.as_ref(), moment(millis));
            }
        }
    }
}

//! Pacer tests: sent requests against reported budgets.

use proptest::prelude::*;

use super::*;

const MAX_HOLD: Duration = Duration::from_secs(3_600);

fn at(seconds: f64) -> Timestamp {
    Timestamp::from_nanos(1_000_000_000_000 + (seconds * 1e9) as u64)
}

fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn pacer() -> Pacer {
    Pacer::new(Pace::Budget, MAX_HOLD)
}

fn budget_of(remaining: u64, reset: f64) -> QuotaStatus {
    QuotaStatus { remaining, reset: secs(reset), limit: None, window: None }
}

fn of_quota(remaining: u64, reset: f64, quota: u64, window: f64) -> QuotaStatus {
    QuotaStatus { limit: Some(quota), window: Some(secs(window)), ..budget_of(remaining, reset) }
}

/// Sends as many as possible at this time.
fn burst(pacer: &mut Pacer, now: Timestamp) -> Vec<SendRecord> {
    std::iter::from_fn(|| pacer.send(now).ok()).take(1_000).collect()
}

#[test]
fn without_headers_nothing_is_held() {
    assert_eq!(burst(&mut pacer(), at(0.0)).len(), 1_000);
}

#[test]
fn nothing_is_sent_before_retry_after() {
    let mut pacer = pacer();
    assert!(pacer.hold(secs(5.0), secs(0.25), at(0.0)));
    assert_eq!(pacer.send(at(0.0)).unwrap_err(), (at(5.25), BlockReason::RetryAfter));
    assert!(!pacer.hold(secs(1.0), Duration::ZERO, at(1.0)), "a shorter wait does not shorten a longer one");
    assert!(pacer.send(at(5.249_999_999)).is_err());
    assert!(pacer.send(at(5.25)).is_ok());
}

#[test]
fn holds_are_capped() {
    let mut pacer = pacer();
    pacer.hold(Duration::MAX, Duration::ZERO, at(0.0));
    assert_eq!(pacer.send(at(0.0)).unwrap_err().0, at(3_600.0));
    let record = pacer.send(at(3_600.0)).unwrap();
    let forever = QuotaStatus { reset: Duration::MAX, ..of_quota(0, 1.0, 500, 86_400.0) };
    pacer.on_response(&record, Some(&forever), at(3_600.0));
    assert_eq!(pacer.send(at(3_600.0)).unwrap_err(), (at(7_200.0), BlockReason::Budget));
    // One request probes; the others wait for its response.
    let probes = burst(&mut pacer, at(7_200.0));
    assert_eq!(probes.len(), 1);
    pacer.on_response(&probes[0], None, at(7_201.0));
    assert_eq!(burst(&mut pacer, at(7_201.0)).len(), 1_000, "the server sends no quota any more");
}

#[test]
fn the_remaining_budget_is_spent_then_the_reset_is_awaited() {
    let mut pacer = pacer();
    let record = pacer.send(at(0.0)).unwrap();
    pacer.on_response(&record, Some(&budget_of(3, 10.0)), at(0.0));
    assert_eq!(burst(&mut pacer, at(1.0)).len(), 3);
    assert_eq!(pacer.send(at(1.0)).unwrap_err(), (at(10.0), BlockReason::Budget));
    assert_eq!(pacer.remaining(at(1.0)), Some((0, at(10.0))));
}

#[test]
fn requests_in_flight_are_assumed_uncounted() {
    let mut pacer = pacer();
    let marks = burst(&mut pacer, at(0.0));
    pacer.on_response(&marks[0], Some(&budget_of(1_200, 10.0)), at(0.0));
    assert_eq!(pacer.remaining(at(0.0)), Some((201, at(10.0))), "999 are in flight");
}

#[test]
fn a_reordered_response_does_not_raise_the_quota() {
    let mut pacer = pacer();
    let (first, second) = (pacer.send(at(0.0)).unwrap(), pacer.send(at(0.0)).unwrap());
    pacer.on_response(&second, Some(&budget_of(2, 10.0)), at(0.1));
    pacer.on_response(&first, Some(&budget_of(50, 10.0)), at(0.1));
    assert_eq!(burst(&mut pacer, at(0.1)).len(), 2, "the second response reports 2 and was counted after the first");
}

/// Regression: the third of three requests was held for a full window if the second response came before the
/// first, although one was left: the first was taken for uncounted, even after its response.
#[test]
fn a_counted_request_is_not_counted_twice() {
    let mut pacer = pacer();
    let record = pacer.send(at(0.0)).unwrap();
    pacer.on_response(&record, Some(&budget_of(3, 10.0)), at(0.0));
    let (first, second) = (pacer.send(at(0.0)).unwrap(), pacer.send(at(0.0)).unwrap());
    pacer.on_response(&second, Some(&budget_of(1, 10.0)), at(0.1));
    assert_eq!(pacer.remaining(at(0.1)).unwrap().0, 0, "the first may be counted after it");
    pacer.on_response(&first, Some(&budget_of(2, 10.0)), at(0.2));
    assert_eq!(pacer.remaining(at(0.2)).unwrap().0, 1, "it was counted before");
}

#[test]
fn failed_requests_count_until_certainly_counted() {
    let mut pacer = pacer();
    let (_lost, received) = (pacer.send(at(0.0)).unwrap(), pacer.send(at(0.0)).unwrap());
    pacer.on_failure();
    pacer.on_response(&received, Some(&budget_of(5, 10.0)), at(0.1));
    assert_eq!(pacer.remaining(at(0.1)).unwrap().0, 4, "the failed request may be counted after the completed one");
    let next = pacer.send(at(10.0)).unwrap();
    pacer.on_response(&next, Some(&budget_of(5, 10.0)), at(10.1));
    assert_eq!(
        pacer.remaining(at(10.1)).unwrap().0,
        5,
        "requests that ended before it was sent were counted before it"
    );
}

#[test]
fn after_a_reset_at_most_the_quota_is_sent() {
    let mut pacer = pacer();
    let record = pacer.send(at(0.0)).unwrap();
    pacer.on_response(&record, Some(&of_quota(0, 5.0, 3, 60.0)), at(0.0));
    assert_eq!(pacer.next_send_time(at(0.0), 2).0, at(5.0));
    assert_eq!(pacer.next_send_time(at(0.0), 3).0, at(65.0));
    assert_eq!(pacer.next_send_time(at(0.0), 6).0, at(125.0));
    assert_eq!(burst(&mut pacer, at(5.0)).len(), 3);
    assert_eq!(pacer.send(at(5.0)).unwrap_err(), (at(65.0), BlockReason::Budget));
}

#[test]
fn after_a_reset_of_unknown_quota_the_previous_remainder_is_the_limit() {
    let mut pacer = pacer();
    let record = pacer.send(at(0.0)).unwrap();
    pacer.on_response(&record, Some(&budget_of(3, 5.0)), at(0.0));
    assert_eq!(burst(&mut pacer, at(0.0)).len(), 3);
    (0..3).for_each(|_| pacer.on_failure());
    let marks = burst(&mut pacer, at(5.0));
    assert_eq!(marks.len(), 4);
    // The first response reports a budget, which ends the assumption.
    pacer.on_response(&marks[0], Some(&budget_of(99, 5.0)), at(5.1));
    assert_eq!(pacer.remaining(at(5.1)).unwrap().0, 96);
}

#[test]
fn a_cancelled_send_is_returned() {
    let mut pacer = Pacer::new(Pace::Evenly, MAX_HOLD);
    let record = pacer.send(at(0.0)).unwrap();
    pacer.on_response(&record, Some(&budget_of(4, 10.0)), at(0.0));
    let before = (pacer.remaining(at(2.0)), pacer.next_send_time(at(2.0), 1), pacer.in_flight());
    let record = pacer.send(at(2.0)).unwrap();
    assert_ne!(before, (pacer.remaining(at(2.0)), pacer.next_send_time(at(2.0), 1), pacer.in_flight()));
    pacer.cancel_send(&record);
    assert_eq!(before, (pacer.remaining(at(2.0)), pacer.next_send_time(at(2.0), 1), pacer.in_flight()));
}

#[test]
fn a_claimed_send_can_be_revoked_before_it_is_sent() {
    let mut pacer = pacer();
    let (first, second) = (pacer.send(at(0.0)).unwrap(), pacer.send(at(0.0)).unwrap());
    assert!(pacer.may_send(at(0.0)));
    pacer.on_response(&first, Some(&budget_of(0, 10.0)), at(0.1));
    assert!(!pacer.may_send(at(0.1)));
    pacer.cancel_send(&second);
    assert!(pacer.send(at(0.1)).is_err());
    assert!(pacer.send(at(10.1)).is_ok());
}

#[test]
fn even_pacing_spreads_requests() {
    let mut pacer = Pacer::new(Pace::Evenly, MAX_HOLD);
    let record = pacer.send(at(0.0)).unwrap();
    pacer.on_response(&record, Some(&budget_of(4, 10.0)), at(0.0));
    assert_eq!(pacer.next_send_time(at(0.0), 2).0, at(6.0));
    for due in [2.0, 4.0, 6.0, 8.0] {
        assert_eq!(pacer.send(at(due - 1.0)).unwrap_err(), (at(due), BlockReason::Budget));
        assert!(pacer.send(at(due)).is_ok());
    }
    assert_eq!(pacer.send(at(8.0)).unwrap_err().0, at(10.0));
}

#[test]
fn the_number_of_quotas_is_bounded() {
    let mut pacer = pacer();
    for number in 0..10_000_u32 {
        let now = at(f64::from(number) * 0.01);
        let record = match pacer.send(now) {
            Ok(record) => record,
            Err((later, _)) => {
                assert!(later <= now + secs(60.0), "held longer than the server requested");
                continue;
            }
        };
        pacer.on_response(&record, Some(&budget_of(100, 60.0)), now);
    }
    assert!(pacer.quotas.iter().count() <= 8);
}

/// An event at a destination.
#[derive(Clone, Debug)]
enum PacerEvent {
    Advance(u64),
    Send,
    Respond { which: usize, remaining: u64, reset: u64 },
    Fail(usize),
    Cancel,
}

fn event() -> impl Strategy<Value = PacerEvent> {
    prop_oneof![
        2 => (0_u64..2_000).prop_map(PacerEvent::Advance),
        6 => Just(PacerEvent::Send),
        4 => (any::<usize>(), 0_u64..12, 1_u64..5_000)
            .prop_map(|(which, remaining, reset)| PacerEvent::Respond { which, remaining, reset }),
        1 => any::<usize>().prop_map(PacerEvent::Fail),
        1 => Just(PacerEvent::Cancel),
    ]
}

/// The guarantee: between a response and its reset, never more requests than it reported as remaining.
fn check_guarantee(events: Vec<PacerEvent>, pace: Pace) -> Result<(), TestCaseError> {
    let mut pacer = Pacer::new(pace, MAX_HOLD);
    let mut now = at(0.0);
    // With the number of guarantees at send time.
    let mut in_flight: Vec<(SendRecord, usize)> = Vec::new();
    // End of each guarantee, and the requests left.
    let mut guarantees: Vec<(Timestamp, u64)> = Vec::new();
    for event in events {
        match event {
            PacerEvent::Advance(millis) => now = now + Duration::from_millis(millis),
            PacerEvent::Send => {
                let expected = pacer.next_send_time(now, 0);
                match pacer.send(now) {
                    Ok(record) => {
                        in_flight.push((record, guarantees.len()));
                        for (_, left) in guarantees.iter_mut().filter(|(until, _)| *until > now) {
                            prop_assert!(*left > 0, "more than remained");
                            *left -= 1;
                        }
                    }
                    Err(blocked) => {
                        prop_assert_eq!(blocked, expected);
                        prop_assert!(blocked.0 > now);
                        // It cannot be sent a nanosecond before the returned time.
                        let just_before = Timestamp::from_nanos(blocked.0.as_nanos() - 1);
                        prop_assert!(pacer.clone().send(just_before).is_err());
                    }
                }
            }
            PacerEvent::Respond { which, remaining, reset } if !in_flight.is_empty() => {
                let (record, _) = in_flight.swap_remove(which % in_flight.len());
                let budget = QuotaStatus { reset: Duration::from_millis(reset), ..budget_of(remaining, 1.0) };
                pacer.on_response(&record, Some(&budget), now);
                guarantees.push((now + budget.reset, remaining));
            }
            PacerEvent::Fail(which) if !in_flight.is_empty() => {
                in_flight.swap_remove(which % in_flight.len());
                pacer.on_failure();
            }
            PacerEvent::Cancel if !in_flight.is_empty() => {
                let (record, guaranteed) = in_flight.pop().unwrap();
                pacer.cancel_send(&record);
                guarantees[..guaranteed].iter_mut().for_each(|(_, left)| *left += 1);
            }
            _ => {}
        }
        prop_assert_eq!(pacer.in_flight(), in_flight.len() as u64);
        prop_assert!(pacer.quotas.iter().count() <= 8);
    }
    Ok(())
}

/// Regression: a quota that had replaced another rose above that other.
#[test]
fn a_quota_never_rises_above_those_it_replaced() {
    use PacerEvent::Send;
    let response = |which, remaining, reset| PacerEvent::Respond { which, remaining, reset };
    let events = [
        vec![Send, Send, response(0, 4, 1), Send, Send],
        vec![response(2_744_281_455_115_906_939, 3, 1), response(1_865_774_501_962_681_808, 5, 1), Send, Send],
        vec![response(0, 2, 2), response(0, 3, 1), Send],
    ];
    check_guarantee(events.concat(), Pace::Budget).unwrap();
}

/// Regression: a quota had risen by requests, one of them later cancelled.
#[test]
fn a_cancelled_send_lowers_the_quota_it_raised() {
    use PacerEvent::{Cancel, Fail, Send};
    let response = |which, remaining, reset| PacerEvent::Respond { which, remaining, reset };
    let events = [
        vec![Send, Send, response(0, 6, 1), Send, Send, Send, Fail(471_075_113_130_631_645), Send],
        vec![response(3_596_796_396_669_802_573, 5, 2), response(5_342_209_925_588_434, 6, 1), Send, Cancel, Send],
        vec![Fail(437_730_451_472_617), response(234_634_944_686_203_615, 3, 1), Cancel, Send, Send],
    ];
    check_guarantee(events.concat(), Pace::Budget).unwrap();
}

proptest! {
    #[test]
    fn sends_never_exceed_the_reported_quota(
        events in prop::collection::vec(event(), 0..200),
        evenly in any::<bool>(),
    ) {
        check_guarantee(events, if evenly { Pace::Evenly } else { Pace::Budget })?;
    }

    /// Once all responses are received, in any order, the remainder equals the server's exactly.
    #[test]
    fn reordered_responses_lose_no_quota(order in Just((0_u64..7).collect::<Vec<_>>()).prop_shuffle()) {
        let mut pacer = pacer();
        let marks: Vec<SendRecord> = order.iter().map(|_| pacer.send(at(0.0)).unwrap()).collect();
        for (step, which) in order.iter().enumerate() {
            let remaining = 20 - 1 - which;
            pacer.on_response(&marks[*which as usize], Some(&budget_of(remaining, 10.0)), at(0.001 * step as f64));
            prop_assert!(pacer.remaining(at(0.01)).unwrap().0 <= 20 - 7, "more than the server has");
        }
        prop_assert_eq!(pacer.remaining(at(0.01)).unwrap().0, 20 - 7);
    }

    /// An honest server with fixed windows never has to refuse after its first response, even with late and
    /// reordered responses.
    #[test]
    fn an_honest_server_never_has_to_refuse(
        quota in 1_u64..8,
        steps in prop::collection::vec((0_u64..400, any::<u16>(), any::<u16>()), 1..300),
    ) {
        const WINDOW: u64 = 1_000;
        struct Server { quota: u64, counted: (u64, u64) }
        impl Server {
            /// Counts a request at `millis` and reports the remainder.
            fn count(&mut self, millis: u64) -> Option<QuotaStatus> {
                if self.counted.0 != millis / WINDOW {
                    self.counted = (millis / WINDOW, 0);
                }
                self.counted.1 += 1;
                let remaining = self.quota.checked_sub(self.counted.1)?;
                let reset = Duration::from_millis(WINDOW - millis % WINDOW);
                let window = Some(Duration::from_millis(WINDOW));
                Some(QuotaStatus { remaining, reset, limit: Some(self.quota), window })
            }
        }
        let (mut pacer, mut server) = (pacer(), Server { quota, counted: (0, 0) });
        let moment = |millis: u64| at(0.0) + Duration::from_millis(millis);
        let (mut sent, mut counted) = (Vec::new(), Vec::new());
        let mut millis = 0;
        let first = pacer.send(moment(0)).unwrap();
        pacer.on_response(&first, server.count(0).as_ref(), moment(0));
        for (elapsed, which, response) in steps {
            millis += elapsed % 120;
            while elapsed % 3 == 0 && let Ok(record) = pacer.send(moment(millis)) {
                sent.push(record);
            }
            if elapsed % 5 < 3 && !sent.is_empty() {
                let record = sent.swap_remove(usize::from(which) % sent.len());
                let budget = server.count(millis);
                prop_assert!(budget.is_some(), "refused at {millis}");
                counted.push((record, budget));
            }
            if elapsed % 7 < 4 && !counted.is_empty() {
                let (record, budget) = counted.swap_remove(usize::from(response) % counted.len());
                pacer.on_response(&record, budget.as_ref(), moment(millis));
            }
        }
    }
}

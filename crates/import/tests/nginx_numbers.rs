//! Imported limits admit and delay requests like nginx.
//!
//! nginx's arithmetic is reimplemented here from its documentation and source: an excess in thousandths of a
//! request that falls with time and rises by a thousand with each request.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;
use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::rule::Request;
use sluicegate_engine::sluice::{Admission, Outcome};
use sluicegate_engine::{Sluice, Timestamp};
use sluicegate_import::nginx::convert;

/// Delay of each request; `None` if it is refused.
type Waits = Vec<Option<Duration>>;

/// nginx's delays for requests of one client with these gaps, in milliseconds.
fn in_nginx(rate: u64, burst: u64, delay: u64, gaps: &[u64]) -> Waits {
    let mut known: Option<(u64, u64)> = None;
    let mut waits = Vec::new();
    let mut now = 0;
    for gap in gaps {
        now += gap;
        let excess = match known {
            None => 0,
            Some((excess, last)) => (excess + 1_000).saturating_sub(rate * (now - last)),
        };
        if excess > burst * 1_000 {
            waits.push(None);
            continue;
        }
        known = Some((excess, now));
        waits.push(Some(Duration::from_millis(excess.saturating_sub(delay * 1_000) / rate)));
    }
    waits
}

/// Delays by the imported rules.
fn imported(parameters: &str, rate: u64, gaps: &[u64]) -> Waits {
    let text = format!(
        "limit_req_zone $binary_remote_addr zone=one:1m rate={rate}r/s;\n\
         server {{ location / {{ limit_req zone=one {parameters}; return 200; }} }}"
    );
    let imported = convert("nginx.conf", &text).unwrap();
    let settings = sluicegate_config::parse("rules.yaml", &imported.yaml).unwrap().settings;
    let clock = ManualClock::new();
    let sluice = Sluice::builder().rules(settings.rules).clock(clock.clone()).build().unwrap();
    let mut line = QueueDriver { waits: vec![None; gaps.len()], waiting: Vec::new(), clock };
    let mut moment = line.clock.now();
    for (number, gap) in gaps.iter().enumerate() {
        moment = moment + Duration::from_millis(*gap);
        line.advance_to(moment);
        let request = Request::new("GET", "/").with_client_ip([203, 0, 113, 7]);
        line.waiting.push((number, moment, sluice.admit(&request)));
        line.poll_waiting();
    }
    line.advance_to(moment + Duration::from_secs(3_600));
    assert!(line.waiting.is_empty());
    line.waits
}

struct QueueDriver {
    clock: ManualClock,
    waiting: Vec<(usize, Timestamp, Admission)>,
    waits: Waits,
}

impl QueueDriver {
    fn advance_to(&mut self, time: Timestamp) {
        while let Some(alarm) = self.clock.next_timer().filter(|alarm| *alarm <= time) {
            self.clock.set(alarm.max(self.clock.now()));
            self.poll_waiting();
        }
        self.clock.set(time);
        self.poll_waiting();
    }

    fn poll_waiting(&mut self) {
        let (now, waits) = (self.clock.now(), &mut self.waits);
        self.waiting.retain_mut(|(number, arrived, admission)| {
            let outcome: Poll<Outcome> = Pin::new(admission).poll(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(outcome) = &outcome {
                waits[*number] = outcome.is_admitted().then(|| now - *arrived);
            }
            outcome.is_pending()
        });
    }
}

/// Asserts equal admissions, and equal delays except for nginx's rounding down to milliseconds.
fn assert_same(parameters: &str, ours: &Waits, theirs: &Waits) {
    for (number, (our, their)) in ours.iter().zip(theirs).enumerate() {
        let same = match (our, their) {
            (Some(our), Some(their)) => our.abs_diff(*their) <= Duration::from_millis(1),
            (our, their) => our == their,
        };
        assert!(same, "{parameters}, request {number}: {our:?}, and in nginx {their:?}\n{ours:?}\n{theirs:?}");
    }
}

#[test]
fn a_burst_of_thirty_is_admitted_like_nginx() {
    let gaps = [0; 30];
    for (parameters, burst, delay, admitted, last) in [
        ("", 0, 0, 1, 0),
        ("burst=15", 15, 0, 16, 3_000),
        ("burst=15 nodelay", 15, 15, 16, 0),
        ("burst=15 delay=8", 15, 8, 16, 1_400),
    ] {
        let ours = imported(parameters, 5, &gaps);
        assert_eq!(ours.iter().flatten().count(), admitted, "{parameters}");
        assert_eq!(ours.iter().flatten().max(), Some(&Duration::from_millis(last)), "{parameters}");
        assert_same(parameters, &ours, &in_nginx(5, burst, delay, &gaps));
    }
}

/// Rates with an interval of whole nanoseconds. At other rates, a request that nginx just admits may be one
/// nanosecond early here and is refused.
const RATES: [u64; 10] = [1, 2, 4, 5, 8, 10, 16, 20, 25, 50];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_arrivals_are_admitted_like_nginx(
        rate in prop::sample::select(RATES.to_vec()),
        burst in 0_u64..=12,
        delay in 0_u64..=14,
        gaps in prop::collection::vec(prop_oneof![Just(0_u64), 0_u64..20, 0_u64..1_500], 1..60),
    ) {
        let parameters = format!("burst={burst} delay={delay}");
        assert_same(&parameters, &imported(&parameters, rate, &gaps), &in_nginx(rate, burst, delay, &gaps));
        let at_once = format!("burst={burst} nodelay");
        assert_same(&at_once, &imported(&at_once, rate, &gaps), &in_nginx(rate, burst, burst, &gaps));
    }
}

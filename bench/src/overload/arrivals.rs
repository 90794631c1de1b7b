//! Requests that come by the clock on as many connections as it takes, and what becomes of each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::programs::client::Client;

/// The most that are under way at once; who is due beyond that is sent late, and charged for it.
const MOST: usize = 400;
/// One of so many is of the highest class: at five times the capacity, two fifths of it.
const FIRST_OF: usize = 12;
/// After how long nobody waits for an answer any more.
const PATIENCE: Duration = Duration::from_secs(1);
/// Goodput is looked at in spans of this length.
const SPAN: Duration = Duration::from_millis(500);

/// When requests are due, from the beginning on.
pub(super) struct Arrivals(Vec<Duration>);

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Answered,
    HeldBack,
}

struct Seen {
    due: Duration,
    took: Duration,
    fate: Fate,
    is_first_class: bool,
}

/// What became of all.
pub(super) struct Course {
    seen: Vec<Seen>,
    lasted: Duration,
}

/// What became of those that came at one rate, when it had settled; in several rounds.
#[derive(Default)]
pub(super) struct Steady {
    seen: Vec<Seen>,
    lasted: Duration,
}

impl Arrivals {
    /// At one rate; by another chance in each round.
    pub(super) fn steady(per_second: f64, lasting: Duration, round: u64) -> Self {
        Self::by_chance([(per_second, lasting), (per_second, Duration::ZERO)], round)
    }

    /// At one rate, then at another.
    pub(super) fn stepped(first: (f64, Duration), then: (f64, Duration)) -> Self {
        Self::by_chance([first, then], 0)
    }

    fn by_chance([(first, first_lasting), (then, then_lasting)]: [(f64, Duration); 2], round: u64) -> Self {
        // At random, as people come who do not know of each other; the same in every run.
        let mut random = 0x5eed_u64 + round;
        let mut gap = |rate: f64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let share = ((random >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
            Duration::from_secs_f64(-share.ln() / rate)
        };
        let (mut dues, mut at) = (Vec::new(), Duration::ZERO);
        loop {
            at += gap(if at < first_lasting { first } else { then });
            if at >= first_lasting + then_lasting {
                return Self(dues);
            }
            dues.push(at);
        }
    }

    pub(super) fn run(self, port: u16) -> Course {
        let dues = Arc::new(self.0);
        let lasted = dues.last().copied().unwrap_or_default();
        let next = Arc::new(AtomicUsize::new(0));
        let begun = Instant::now() + Duration::from_millis(500);
        let asking: Vec<_> = (0..MOST)
            .map(|_| {
                let (dues, next) = (Arc::clone(&dues), Arc::clone(&next));
                let builder = thread::Builder::new().stack_size(128 * 1024);
                builder.spawn(move || ask(port, begun, &dues, &next)).expect("a thread")
            })
            .collect();
        let seen = asking.into_iter().flat_map(|asker| asker.join().expect("every request has an answer")).collect();
        Course { seen, lasted }
    }
}

/// Sends whatever is due next, until all has been sent.
fn ask(port: u16, begun: Instant, dues: &[Duration], next: &AtomicUsize) -> Vec<Seen> {
    let mut client = Client::connect(port);
    let requests = ["other", "vip"]
        .map(|class| format!("GET / HTTP/1.1\r\nHost: bench.test\r\nX-Class: {class}\r\n\r\n").into_bytes());
    let mut seen = Vec::new();
    while let Some((nth, due)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|nth| Some((nth, *dues.get(nth)?)))
    {
        thread::sleep((begun + due).saturating_duration_since(Instant::now()));
        let is_first_class = nth % FIRST_OF == 0;
        client.send(&requests[usize::from(is_first_class)]);
        let fate = match client.status() {
            200 => Fate::Answered,
            503 => Fate::HeldBack,
            other => panic!("status {other}"),
        };
        seen.push(Seen { due, took: begun.elapsed().saturating_sub(due), fate, is_first_class });
    }
    seen
}

fn is_good(seen: &Seen) -> bool {
    seen.fate == Fate::Answered && seen.took <= PATIENCE
}

impl Steady {
    /// Pools what was seen in another round, from when on it had settled.
    pub(super) fn add(&mut self, course: Course, from: Duration) {
        self.seen.extend(course.seen.into_iter().filter(|seen| seen.due >= from));
        self.lasted += course.lasted - from;
    }

    fn per_second(&self, which: impl Fn(&Seen) -> bool) -> f64 {
        self.seen.iter().filter(|seen| which(seen)).count() as f64 / self.lasted.as_secs_f64()
    }

    /// Requests per second that were answered while somebody waited for it.
    pub(super) fn goodput(&self) -> f64 {
        self.per_second(is_good)
    }

    /// The time that 99 in 100 of the answered stayed within, in microseconds.
    pub(super) fn p99(&self) -> f64 {
        let answered = self.seen.iter().filter(|seen| seen.fate == Fate::Answered);
        let mut times: Vec<Duration> = answered.map(|seen| seen.took).collect();
        times.sort_unstable();
        times.get(times.len() * 99 / 100).map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
    }

    /// The share of those that came to which this happened.
    pub(super) fn share(&self, fate: Fate) -> f64 {
        self.seen.iter().filter(|seen| seen.fate == fate).count() as f64 / self.seen.len().max(1) as f64
    }

    /// How many of the highest class were answered in time, and how many came, per second.
    pub(super) fn highest_class(&self) -> (f64, f64) {
        (self.per_second(|seen| seen.is_first_class && is_good(seen)), self.per_second(|seen| seen.is_first_class))
    }
}

impl Course {
    /// How long after this moment goodput has reached so much, in every span from then on.
    pub(super) fn settled_after(&self, from: Duration, per_second: f64) -> Duration {
        let spans = ((self.lasted - from).as_secs_f64() / SPAN.as_secs_f64()) as u32;
        let enough = |span: &u32| {
            let (begin, end) = (from + SPAN * *span, from + SPAN * (*span + 1));
            let good = self.seen.iter().filter(|seen| (begin..end).contains(&seen.due) && is_good(seen)).count();
            // By chance a span has a few fewer.
            good as f64 + 2.0 * (good as f64).sqrt() >= per_second * SPAN.as_secs_f64()
        };
        let last_bad = (0..spans).rev().find(|span| !enough(span));
        SPAN * last_bad.map_or(0, |span| span + 1)
    }

    /// How long after this moment somebody was held back for the last time.
    pub(super) fn last_held_back_after(&self, from: Duration) -> Duration {
        let held_back = self.seen.iter().filter(|seen| seen.due >= from && seen.fate == Fate::HeldBack);
        held_back.map(|seen| seen.due - from).max().unwrap_or_default()
    }
}

//! What came of it all, and the questions to ask of that.
//!
//! Spans are in seconds, and a request belongs to the moment it arrived.

use std::ops::Range;

use super::{Class, SECOND};

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Answered while its caller waited.
    InTime,
    /// Answered when its caller was gone.
    TooLate,
    /// Not let in.
    Refused,
    /// Still inside or waiting when the story ended.
    Unfinished,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) arrived: u64,
    /// From the arrival to the end, wherever the time was spent.
    pub(super) took: u64,
    pub(super) class: Class,
    pub(super) ending: Ending,
}

/// How those who came in a span ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Answered {
    /// All who came.
    pub offered: usize,
    /// Answered while their callers waited.
    pub in_time: usize,
    /// Answered when their callers were gone.
    pub too_late: usize,
    /// Not let in.
    pub refused: usize,
    /// Average seconds from arrival to answer.
    pub average: f64,
}

/// What came of a scenario.
#[derive(Clone, Debug)]
pub struct Story {
    records: Vec<Record>,
    limits: Vec<(f64, f64)>,
    patience: f64,
}

impl Story {
    pub(super) const fn new(records: Vec<Record>, limits: Vec<(f64, f64)>, patience: f64) -> Self {
        Self { records, limits, patience }
    }

    fn span(&self, span: &Range<f64>) -> &[Record] {
        let nanos = |seconds: f64| (seconds * SECOND as f64) as u64;
        let first = self.records.partition_point(|it| it.arrived < nanos(span.start));
        let end = self.records.partition_point(|it| it.arrived < nanos(span.end));
        &self.records[first..end.max(first)]
    }

    /// How those who came in a span ended.
    pub fn answered(&self, span: Range<f64>) -> Answered {
        self.count(self.span(&span).iter())
    }

    /// How those of a class who came in a span ended.
    pub fn answered_of(&self, class: Class, span: Range<f64>) -> Answered {
        self.count(self.span(&span).iter().filter(|it| it.class == class))
    }

    fn count<'a>(&self, records: impl Iterator<Item = &'a Record>) -> Answered {
        let mut counted = Answered::default();
        let mut seconds = 0.0;
        for record in records {
            counted.offered += 1;
            match record.ending {
                Ending::InTime => counted.in_time += 1,
                Ending::TooLate => counted.too_late += 1,
                Ending::Refused => counted.refused += 1,
                Ending::Unfinished => {}
            }
            if matches!(record.ending, Ending::InTime | Ending::TooLate) {
                seconds += record.took as f64 / SECOND as f64;
            }
        }
        counted.average = seconds / (counted.in_time + counted.too_late).max(1) as f64;
        counted
    }

    /// Answers in time per second, to those who came in a span.
    pub fn goodput(&self, span: Range<f64>) -> f64 {
        self.answered(span.clone()).in_time as f64 / (span.end - span.start)
    }

    /// Requests per second that came in a span.
    pub fn offered(&self, span: Range<f64>) -> f64 {
        self.span(&span).len() as f64 / (span.end - span.start)
    }

    /// Which share of those who came in a span was refused.
    pub fn refused(&self, span: Range<f64>) -> f64 {
        let answered = self.answered(span);
        answered.refused as f64 / answered.offered.max(1) as f64
    }

    /// Which share of a class's requests in a span was answered in time.
    pub fn served(&self, class: Class, span: Range<f64>) -> f64 {
        let answered = self.answered_of(class, span);
        answered.in_time as f64 / answered.offered.max(1) as f64
    }

    /// Seconds from arrival to answer of all who came in a span and were let in, unsorted. Who is still inside at the
    /// end of the story has taken longer than its caller's patience, or that is what is assumed.
    pub fn times(&self, span: Range<f64>) -> Vec<f64> {
        let admitted = self.span(&span).iter().filter_map(|it| match it.ending {
            Ending::InTime | Ending::TooLate => Some(it.took as f64 / SECOND as f64),
            Ending::Unfinished => Some(self.patience),
            Ending::Refused => None,
        });
        admitted.collect()
    }

    /// The seconds from arrival to answer that this share of the admitted stays within.
    pub fn percentile(&self, span: Range<f64>, share: f64) -> f64 {
        percentile(self.times(span), share)
    }

    /// The limit over time: `(second, limit)` at every tick. Empty: there was none.
    pub fn limits(&self) -> &[(f64, f64)] {
        &self.limits
    }

    /// The average limit in a span. `None`: there was none.
    pub fn limit(&self, span: Range<f64>) -> Option<f64> {
        let limits = || self.limits.iter().filter(|it| span.contains(&it.0));
        let count = limits().count();
        (count > 0).then(|| limits().map(|it| it.1).sum::<f64>() / count as f64)
    }
}

/// The value that this share of them stays within; 0 if there are none.
pub fn percentile(mut values: Vec<f64>, share: f64) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let rank = ((values.len() as f64 * share).ceil() as usize).clamp(1, values.len()) - 1;
    *values.select_nth_unstable_by(rank, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_answered_by_the_moment_of_arrival() {
        let record = |second: u64, millis: u64, class, ending| Record {
            arrived: second * SECOND,
            took: millis * 1_000_000,
            class,
            ending,
        };
        let records = vec![
            record(0, 10, Class::Normal, Ending::InTime),
            record(1, 30, Class::Normal, Ending::InTime),
            record(1, 0, Class::Background, Ending::Refused),
            record(1, 3_000, Class::Vip, Ending::TooLate),
            record(2, 0, Class::Vip, Ending::Unfinished),
        ];
        let story = Story::new(records, vec![(0.0, 10.0), (1.0, 20.0), (1.5, 40.0)], 2.0);
        assert_eq!(story.goodput(0.0..2.0), 1.0);
        assert_eq!(story.offered(1.0..2.0), 3.0);
        assert_eq!(story.refused(1.0..2.0), 1.0 / 3.0);
        assert_eq!(story.served(Class::Vip, 0.0..3.0), 0.0);
        assert_eq!(story.percentile(0.0..3.0, 0.5), 0.03);
        assert_eq!(story.percentile(2.0..3.0, 0.99), 2.0);
        assert_eq!(story.limit(1.0..2.0), Some(30.0));
        assert_eq!(story.limit(5.0..6.0), None);
    }
}

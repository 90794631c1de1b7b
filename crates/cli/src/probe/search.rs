//! Which rate to try next: up until something gives, then between the last good rate and the first that is not.
//!
//! A step can be bad by accident, so no rate counts as bad until it was bad twice. It can be good by accident too,
//! but then the next ones are not.

use super::verdict::{Judged, Verdict, is_distress};

/// The peak is known when the rate beyond it is no more than this much higher.
const CLOSE: f64 = 1.05;
/// No slower rate is tried, per second.
const SLOWEST: f64 = 1.0;
/// A rate that is bad so often is bad.
const BAD: usize = 2;
/// A rate that was tried so often without telling is left.
const TRIES: usize = 3;

/// Which rates are to be tried, per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Course {
    pub(super) from: f64,
    pub(super) to: f64,
    /// Each step is so many times the one before.
    pub(super) grow: f64,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Next {
    Try { rate: f64, aim: Aim },
    End(End),
}

/// Why a rate is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// It is higher.
    Climb,
    /// It was not good, which may have been an accident.
    Confirm,
    /// It lies between a good rate and one that is not.
    Refine,
    /// None was good so far.
    Descend,
}

/// Why no more is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The peak is found.
    Found,
    /// The highest rate that was to be tried is good.
    Top,
    /// Beyond the last good rate, the load generator is to blame.
    Generator,
    /// Most requests failed.
    Distress,
    /// No rate is good.
    NoneGood,
    /// No time is left for another step.
    Time,
    /// Somebody has seen enough.
    Interrupted,
}

/// What is known of a rate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Good,
    Bad,
    Unclear,
    /// It has to be tried again.
    Open,
}

impl Course {
    /// What to do after these steps.
    pub(super) fn next(&self, steps: &[Judged]) -> Next {
        let Some(last) = steps.last() else { return Next::Try { rate: self.from, aim: Aim::Climb } };
        if is_distress(last) {
            return Next::End(End::Distress);
        }
        if standing(steps, last.step.offered) == Standing::Open {
            return Next::Try { rate: last.step.offered, aim: Aim::Confirm };
        }
        let Some(peak) = peak(steps).map(|peak| peak.step.offered) else { return descend(steps) };
        let Some(beyond) = beyond(steps).map(|beyond| beyond.step.offered) else {
            let rate = tidy(peak * self.grow).min(self.to);
            return if peak >= self.to { Next::End(End::Top) } else { Next::Try { rate, aim: Aim::Climb } };
        };
        match standing(steps, beyond) {
            Standing::Unclear => Next::End(End::Generator),
            _ if beyond <= peak * CLOSE => Next::End(End::Found),
            _ => {
                let rate = tidy(f64::midpoint(peak, beyond));
                let is_new = rate > peak && rate < beyond;
                if is_new { Next::Try { rate, aim: Aim::Refine } } else { Next::End(End::Found) }
            }
        }
    }
}

/// Goes down until a rate is good.
fn descend(steps: &[Judged]) -> Next {
    let lowest = steps.iter().map(|judged| judged.step.offered).fold(f64::INFINITY, f64::min);
    let rate = tidy(lowest / 2.0);
    if rate >= SLOWEST { Next::Try { rate, aim: Aim::Descend } } else { Next::End(End::NoneGood) }
}

/// The step of the highest good rate.
pub(super) fn peak(steps: &[Judged]) -> Option<&Judged> {
    let good = steps.iter().filter(|judged| judged.verdict == Verdict::Good);
    good.max_by(|one, other| one.step.offered.total_cmp(&other.step.offered))
}

/// The latest step of the lowest rate beyond the peak that is not good.
pub(super) fn beyond(steps: &[Judged]) -> Option<&Judged> {
    let peak = peak(steps).map_or(0.0, |peak| peak.step.offered);
    let higher = steps.iter().rev().filter(|judged| judged.step.offered > peak);
    higher.min_by(|one, other| one.step.offered.total_cmp(&other.step.offered))
}

fn standing(steps: &[Judged], rate: f64) -> Standing {
    let tries: Vec<Verdict> =
        steps.iter().filter(|judged| judged.step.offered == rate).map(|judged| judged.verdict).collect();
    let bad = tries.iter().filter(|verdict| matches!(verdict, Verdict::Bad(_))).count();
    if tries.contains(&Verdict::Good) {
        Standing::Good
    } else if bad >= BAD {
        Standing::Bad
    } else if tries.len() >= TRIES {
        Standing::Unclear
    } else {
        Standing::Open
    }
}

/// In three digits.
fn tidy(rate: f64) -> f64 {
    let unit = 10_f64.powf(rate.log10().floor() - 2.0);
    // Dividing keeps small rates exact: a hundredth is no binary number.
    if unit < 1.0 { (rate * (1.0 / unit).round()).round() / (1.0 / unit).round() } else { (rate / unit).round() * unit }
}

#[cfg(test)]
mod tests {
    use super::super::step::{Failures, Step};
    use super::super::verdict::judge;
    use super::super::verdict::tests::{DEMANDS, behind, well};
    use super::*;

    const COURSE: Course = Course { from: 10.0, to: 100_000.0, grow: 1.5 };

    /// Searches a service that does what `serve` says of the nth step at a rate.
    fn search(course: Course, mut serve: impl FnMut(usize, f64) -> Step) -> (Vec<f64>, Option<f64>, End) {
        let mut steps = Vec::new();
        loop {
            let judged = judge(&steps, DEMANDS);
            match course.next(&judged) {
                Next::Try { rate, .. } => steps.push(serve(steps.len(), rate)),
                Next::End(end) => {
                    let rates = steps.iter().map(|step| step.offered).collect();
                    return (rates, peak(&judged).map(|peak| peak.step.offered), end);
                }
            }
            assert!(steps.len() < 100, "it does not end");
        }
    }

    /// A service that does so many per second and no more.
    fn capacity(most: f64) -> impl FnMut(usize, f64) -> Step {
        move |_, rate| if rate <= most { well(rate, 5) } else { behind(rate, most) }
    }

    #[test]
    fn the_peak_is_found_within_five_percent_from_below() {
        for most in [3.0, 10.0, 47.0, 200.0, 999.0, 12_345.0, 90_000.0] {
            let (rates, peak, end) = search(COURSE, capacity(most));
            let peak = peak.unwrap();
            // 97 % of what is asked for is enough, and a request or two do not matter.
            assert!(peak <= most * 1.04 + 0.5 && peak >= most * 0.95, "{most}: {peak}");
            assert_eq!(end, End::Found);
            assert!(rates.len() < 45, "{most}: {} steps", rates.len());
        }
    }

    #[test]
    fn rates_grow_then_close_in() {
        let (rates, peak, _) = search(COURSE, capacity(40.0));
        assert_eq!(rates, [10.0, 15.0, 22.5, 33.8, 50.7, 50.7, 42.3, 42.3, 38.1, 40.2, 41.3]);
        assert_eq!(peak, Some(41.3), "97 % are enough");
    }

    #[test]
    fn one_bad_step_is_an_accident() {
        let (rates, peak, end) = search(Course { to: 100.0, ..COURSE }, |nth, rate| match nth {
            3 => behind(rate, 1.0),
            _ => well(rate, 5),
        });
        assert_eq!(rates, [10.0, 15.0, 22.5, 33.8, 33.8, 50.7, 76.1, 100.0]);
        assert_eq!((peak, end), (Some(100.0), End::Top));
    }

    #[test]
    fn a_first_rate_that_is_too_high_is_gone_down_from() {
        let (rates, peak, end) = search(Course { from: 400.0, ..COURSE }, capacity(60.0));
        assert_eq!(rates[..6], [400.0, 400.0, 200.0, 200.0, 100.0, 100.0]);
        assert!((57.0..63.0).contains(&peak.unwrap()));
        assert_eq!(end, End::Found);
        let (_, peak, end) = search(COURSE, |_, rate| behind(rate, 0.0));
        assert_eq!((peak, end), (None, End::NoneGood));
    }

    #[test]
    fn a_service_in_distress_is_left_alone_at_once() {
        let failing = |_, rate: f64| {
            let failures = Failures { server_errors: (rate * 4.0) as u64, ..Failures::default() };
            Step { failures, ..behind(rate, 0.0) }
        };
        assert_eq!(search(COURSE, failing), (vec![10.0], None, End::Distress));
    }

    #[test]
    fn a_generator_that_cannot_keep_up_finds_no_peak() {
        let late = std::time::Duration::from_millis(50);
        let (rates, peak, end) = search(COURSE, |_, rate| match rate {
            rate if rate < 30.0 => well(rate, 5),
            rate => Step { late, ..behind(rate, 30.0) },
        });
        assert_eq!(rates, [10.0, 15.0, 22.5, 33.8, 33.8, 33.8], "it is given three tries");
        assert_eq!((peak, end), (Some(22.5), End::Generator));
    }

    #[test]
    fn rates_have_three_digits() {
        assert_eq!([1.234_f64, 22.52, 149.6, 1_234.0, 99_999.0].map(tidy), [1.23, 22.5, 150.0, 1_230.0, 100_000.0]);
    }
}

//! Search for the peak: raises the rate until a step fails, then bisects between the last good and the first bad
//! rate.
//!
//! A step can be bad by accident, so a rate is bad only after two bad steps. A step can also be good by accident,
//! but then the next ones are not.

use super::criteria::{JudgedStep, StepVerdict, is_distress};

/// The search ends once the first bad rate is at most this factor above the peak.
const PEAK_PRECISION: f64 = 1.05;
/// Minimum rate, per second.
const MIN_RATE: f64 = 1.0;
/// Number of bad steps after which a rate is bad.
const BAD_STEPS_TO_REJECT: usize = 2;
/// Maximum number of tries of a rate without a result.
const MAX_TRIES: usize = 3;

/// Range of rates to try, per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Search {
    pub(super) from: f64,
    pub(super) to: f64,
    /// Growth factor from step to step.
    pub(super) grow: f64,
}

/// Next action of the search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SearchAction {
    Try { rate: f64, purpose: StepPurpose },
    End(SearchEnd),
}

/// Purpose of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepPurpose {
    /// Try a higher rate.
    Increase,
    /// Repeat a rate that was bad, possibly by accident.
    Confirm,
    /// Try a rate between a good and a bad one.
    Bisect,
    /// Try a lower rate, as none was good so far.
    Decrease,
}

/// Reason that the search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SearchEnd {
    /// The peak was found.
    Found,
    /// The maximum rate is good.
    Top,
    /// Above the last good rate, the load generator is the bottleneck.
    Generator,
    /// Most requests failed.
    Distress,
    /// No rate is good.
    NoneGood,
    /// There is no time for another step.
    Time,
    /// The user interrupted the test.
    Interrupted,
}

/// Status of a rate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RateStatus {
    Good,
    Bad,
    Unclear,
    /// The rate must be tried again.
    Open,
}

impl Search {
    /// Next action after these steps.
    pub(super) fn next(&self, steps: &[JudgedStep]) -> SearchAction {
        let Some(last) = steps.last() else {
            return SearchAction::Try { rate: self.from, purpose: StepPurpose::Increase };
        };
        if is_distress(last) {
            return SearchAction::End(SearchEnd::Distress);
        }
        if rate_status(steps, last.step.offered) == RateStatus::Open {
            return SearchAction::Try { rate: last.step.offered, purpose: StepPurpose::Confirm };
        }
        let Some(peak) = peak(steps).map(|peak| peak.step.offered) else { return decrease(steps) };
        let Some(first_bad) = first_bad_above_peak(steps).map(|judged| judged.step.offered) else {
            let rate = round_rate(peak * self.grow).min(self.to);
            return if peak >= self.to {
                SearchAction::End(SearchEnd::Top)
            } else {
                SearchAction::Try { rate, purpose: StepPurpose::Increase }
            };
        };
        match rate_status(steps, first_bad) {
            RateStatus::Unclear => SearchAction::End(SearchEnd::Generator),
            _ if first_bad <= peak * PEAK_PRECISION => SearchAction::End(SearchEnd::Found),
            _ => {
                let rate = round_rate(f64::midpoint(peak, first_bad));
                let is_new = rate > peak && rate < first_bad;
                if is_new {
                    SearchAction::Try { rate, purpose: StepPurpose::Bisect }
                } else {
                    SearchAction::End(SearchEnd::Found)
                }
            }
        }
    }
}

/// Lowers the rate until one is good.
fn decrease(steps: &[JudgedStep]) -> SearchAction {
    let lowest = steps.iter().map(|judged| judged.step.offered).fold(f64::INFINITY, f64::min);
    let rate = round_rate(lowest / 2.0);
    if rate >= MIN_RATE {
        SearchAction::Try { rate, purpose: StepPurpose::Decrease }
    } else {
        SearchAction::End(SearchEnd::NoneGood)
    }
}

/// The step with the highest good rate.
pub(super) fn peak(steps: &[JudgedStep]) -> Option<&JudgedStep> {
    let good = steps.iter().filter(|judged| judged.verdict == StepVerdict::Good);
    good.max_by(|one, other| one.step.offered.total_cmp(&other.step.offered))
}

/// The latest step of the lowest bad rate above the peak.
pub(super) fn first_bad_above_peak(steps: &[JudgedStep]) -> Option<&JudgedStep> {
    let peak = peak(steps).map_or(0.0, |peak| peak.step.offered);
    let higher = steps.iter().rev().filter(|judged| judged.step.offered > peak);
    higher.min_by(|one, other| one.step.offered.total_cmp(&other.step.offered))
}

fn rate_status(steps: &[JudgedStep], rate: f64) -> RateStatus {
    let tries: Vec<StepVerdict> =
        steps.iter().filter(|judged| judged.step.offered == rate).map(|judged| judged.verdict).collect();
    let bad = tries.iter().filter(|verdict| matches!(verdict, StepVerdict::Bad(_))).count();
    if tries.contains(&StepVerdict::Good) {
        RateStatus::Good
    } else if bad >= BAD_STEPS_TO_REJECT {
        RateStatus::Bad
    } else if tries.len() >= MAX_TRIES {
        RateStatus::Unclear
    } else {
        RateStatus::Open
    }
}

/// Rounds a rate to three significant digits.
fn round_rate(rate: f64) -> f64 {
    let unit = 10_f64.powf(rate.log10().floor() - 2.0);
    // Division keeps small rates exact: 0.01 has no exact binary form.
    if unit < 1.0 { (rate * (1.0 / unit).round()).round() / (1.0 / unit).round() } else { (rate / unit).round() * unit }
}

#[cfg(test)]
mod tests {
    use super::super::criteria::judge;
    use super::super::criteria::tests::{CRITERIA, good_step, overloaded_step};
    use super::super::step::{FailureCounts, StepResult};
    use super::*;

    const SEARCH: Search = Search { from: 10.0, to: 100_000.0, grow: 1.5 };

    /// Runs a search against a service that returns `serve(index, rate)` for each step.
    fn run_search(
        search: Search,
        mut serve: impl FnMut(usize, f64) -> StepResult,
    ) -> (Vec<f64>, Option<f64>, SearchEnd) {
        let mut steps = Vec::new();
        loop {
            let judged = judge(&steps, CRITERIA);
            match search.next(&judged) {
                SearchAction::Try { rate, .. } => steps.push(serve(steps.len(), rate)),
                SearchAction::End(end) => {
                    let rates = steps.iter().map(|step| step.offered).collect();
                    return (rates, peak(&judged).map(|peak| peak.step.offered), end);
                }
            }
            assert!(steps.len() < 100, "the search does not end");
        }
    }

    /// A service with this capacity per second.
    fn capacity(max: f64) -> impl FnMut(usize, f64) -> StepResult {
        move |_, rate| if rate <= max { good_step(rate, 5) } else { overloaded_step(rate, max) }
    }

    #[test]
    fn the_peak_is_found_within_five_percent_from_below() {
        for max in [3.0, 10.0, 47.0, 200.0, 999.0, 12_345.0, 90_000.0] {
            let (rates, peak, end) = run_search(SEARCH, capacity(max));
            let peak = peak.unwrap();
            // 97 % of the offered rate is enough, and one or two requests do not matter.
            assert!(peak <= max * 1.04 + 0.5 && peak >= max * 0.95, "{max}: {peak}");
            assert_eq!(end, SearchEnd::Found);
            assert!(rates.len() < 45, "{max}: {} steps", rates.len());
        }
    }

    #[test]
    fn rates_grow_then_bisect() {
        let (rates, peak, _) = run_search(SEARCH, capacity(40.0));
        assert_eq!(rates, [10.0, 15.0, 22.5, 33.8, 50.7, 50.7, 42.3, 42.3, 38.1, 40.2, 41.3]);
        assert_eq!(peak, Some(41.3), "97 % is sufficient");
    }

    #[test]
    fn one_bad_step_does_not_reject_a_rate() {
        let (rates, peak, end) = run_search(Search { to: 100.0, ..SEARCH }, |index, rate| match index {
            3 => overloaded_step(rate, 1.0),
            _ => good_step(rate, 5),
        });
        assert_eq!(rates, [10.0, 15.0, 22.5, 33.8, 33.8, 50.7, 76.1, 100.0]);
        assert_eq!((peak, end), (Some(100.0), SearchEnd::Top));
    }

    #[test]
    fn a_first_rate_that_is_too_high_is_lowered() {
        let (rates, peak, end) = run_search(Search { from: 400.0, ..SEARCH }, capacity(60.0));
        assert_eq!(rates[..6], [400.0, 400.0, 200.0, 200.0, 100.0, 100.0]);
        assert!((57.0..63.0).contains(&peak.unwrap()));
        assert_eq!(end, SearchEnd::Found);
        let (_, peak, end) = run_search(SEARCH, |_, rate| overloaded_step(rate, 0.0));
        assert_eq!((peak, end), (None, SearchEnd::NoneGood));
    }

    #[test]
    fn search_stops_on_distress() {
        let failing = |_, rate: f64| {
            let failures = FailureCounts { server_errors: (rate * 4.0) as u64, ..FailureCounts::default() };
            StepResult { failures, ..overloaded_step(rate, 0.0) }
        };
        assert_eq!(run_search(SEARCH, failing), (vec![10.0], None, SearchEnd::Distress));
    }

    #[test]
    fn a_saturated_generator_finds_no_peak() {
        let late = std::time::Duration::from_millis(50);
        let (rates, peak, end) = run_search(SEARCH, |_, rate| match rate {
            rate if rate < 30.0 => good_step(rate, 5),
            rate => StepResult { lateness_p99: late, ..overloaded_step(rate, 30.0) },
        });
        assert_eq!(rates, [10.0, 15.0, 22.5, 33.8, 33.8, 33.8], "three tries");
        assert_eq!((peak, end), (Some(22.5), SearchEnd::Generator));
    }

    #[test]
    fn rates_have_three_significant_digits() {
        assert_eq!(
            [1.234_f64, 22.52, 149.6, 1_234.0, 99_999.0].map(round_rate),
            [1.23, 22.5, 150.0, 1_230.0, 100_000.0]
        );
    }
}

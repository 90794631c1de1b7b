//! Rates as people write them.

use std::time::Duration;

use sluicegate_engine::gate::Height;
use sluicegate_engine::limit::parse::Span;
use sluicegate_engine::rule::SignalUnit;

/// A rate: `at most 100 per 1s`.
pub(crate) fn at_most(height: Height) -> String {
    let whole = Duration::from_millis(height.window.as_millis() as u64);
    let window = if whole.is_zero() { height.window } else { whole };
    format!("at most {} per {}", SignalUnit::Number.written(height.count.floor()), Span(window))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_whole_and_windows_as_in_rule_files() {
        let minute = Height { count: 100.7, window: Duration::from_secs(60) };
        assert_eq!(at_most(minute), "at most 100 per 1m");
    }
}

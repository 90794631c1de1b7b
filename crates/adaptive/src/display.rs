//! Formatting of rates.

use std::time::Duration;

use sluicegate_engine::limit::parse::HumanDuration;
use sluicegate_engine::overload::VariableRate;
use sluicegate_engine::rule::SignalUnit;

/// Formats a rate: `at most 100 per 1s`.
pub(crate) fn format_rate(rate: VariableRate) -> String {
    let millis = Duration::from_millis(rate.window.as_millis() as u64);
    let window = if millis.is_zero() { rate.window } else { millis };
    format!("at most {} per {}", SignalUnit::Number.format(rate.count.floor()), HumanDuration(window))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_rounded_down_and_windows_use_rule_syntax() {
        let minute = VariableRate { count: 100.7, window: Duration::from_secs(60) };
        assert_eq!(format_rate(minute), "at most 100 per 1m");
    }
}

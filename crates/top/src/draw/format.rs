//! Number formatting: short, with a stable width.

use std::time::Duration;

/// Block characters in eighths of the full height.
const BAR_LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A number in at most five characters: `7`, `9999`, `12.3k`, `4.5M`.
pub(crate) fn number(number: f64) -> String {
    let units = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    if number < 10_000.0 {
        return format!("{number:.0}");
    }
    let (size, unit) = units.into_iter().find(|(size, _)| number >= *size).unwrap_or((1.0, ""));
    match number / size {
        many if many < 100.0 => format!("{many:.1}{unit}"),
        many if many < 10_000.0 => format!("{many:.0}{unit}"),
        _ => "many".to_owned(),
    }
}

pub(crate) fn count(many: u64) -> String {
    number(many as f64)
}

/// A rate, with a decimal if it is small; `-` if unknown.
pub(crate) fn rate(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(rate) if rate > 0.0 && rate < 9.95 => format!("{rate:.1}"),
        Some(rate) => number(rate),
    }
}

/// A time in its two largest units: `3s`, `4m10s`, `2h`, `3d4h`.
pub(crate) fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    let Some(at) = units.iter().position(|(size, _)| seconds >= *size) else { return "0s".to_owned() };
    let (size, unit) = units[at];
    let first = format!("{}{unit}", seconds / size);
    match units.get(at + 1).map(|(lesser, unit)| (seconds % size / lesser, unit)) {
        Some((rest, unit)) if rest > 0 => format!("{first}{rest}{unit}"),
        _ => first,
    }
}

/// A fraction as a bar of this width with a percentage; `-` if unknown.
pub(crate) fn bar(share: Option<f64>, width: usize) -> String {
    let Some(share) = share else { return "-".to_owned() };
    let full = ((share * width as f64).round() as usize).min(width);
    format!("{}{} {:>3.0}%", "█".repeat(full), "░".repeat(width - full), share * 100.0)
}

/// Sparkline of the latest values, scaled to their maximum.
pub(crate) fn sparkline<'a>(past: impl DoubleEndedIterator<Item = &'a f64> + Clone, width: usize) -> String {
    let latest = past.rev().take(width);
    let max = latest.clone().fold(0.0, |max: f64, value| max.max(*value));
    let height = |value: &f64| match max > 0.0 && *value > 0.0 {
        false => ' ',
        true => BAR_LEVELS[((value / max * 8.0).ceil() as usize).clamp(1, 8) - 1],
    };
    let drawn: Vec<char> = latest.map(height).collect();
    let drawn: String = drawn.into_iter().rev().collect();
    format!("{}{drawn}", " ".repeat(width - drawn.chars().count().min(width)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.0, "0"),
            (9_999.0, "9999"),
            (12_345.0, "12.3k"),
            (123_456.0, "123k"),
            (1_234_567.0, "1.2M"),
            (9.9e9, "9.9G"),
            (u64::MAX as f64, "many"),
            (f64::MAX, "many"),
        ];
        for (value, shown) in cases {
            assert_eq!(number(value), shown);
        }
        for exponent in 0..200 {
            assert!(number(1.9_f64.powi(exponent)).len() <= 5, "{}", number(1.9_f64.powi(exponent)));
        }
        let rates = [None, Some(0.0), Some(0.04), Some(3.26), Some(9.97), Some(250.0)];
        assert_eq!(rates.map(rate), ["-", "0", "0.0", "3.3", "10", "250"]);
    }

    #[test]
    fn times_have_two_units() {
        let cases =
            [(0, "0s"), (59, "59s"), (60, "1m"), (250, "4m10s"), (7_200, "2h"), (7_201, "2h"), (273_600, "3d4h")];
        for (seconds, shown) in cases {
            assert_eq!(time(Duration::from_secs(seconds)), shown);
        }
        assert!(time(Duration::MAX).ends_with('h'));
    }

    #[test]
    fn bars_and_sparklines_have_their_width() {
        assert_eq!(bar(Some(0.42), 5), "██░░░  42%");
        assert_eq!(
            (bar(Some(0.0), 3), bar(Some(1.0), 3), bar(None, 3)),
            ("░░░   0%".into(), "███ 100%".into(), "-".into())
        );
        assert_eq!(sparkline([0.0, 1.0, 4.0, 8.0].iter(), 6), "   ▁▄█");
        assert_eq!(sparkline([9.0, 1.0, 2.0].iter(), 2), "▄█", "only the latest");
        assert_eq!((sparkline([].iter(), 3), sparkline([0.0].iter(), 3)), ("   ".into(), "   ".into()));
    }
}

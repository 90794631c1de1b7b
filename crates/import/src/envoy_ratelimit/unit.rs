//! Time units of descriptor limits.

use std::time::Duration;

const DAY: u64 = 86_400;

/// A time unit. Months have 30 days and years 365, as in envoyproxy/ratelimit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RateLimitUnit {
    /// One second.
    Second,
    /// 60 seconds.
    Minute,
    /// 60 minutes.
    Hour,
    /// 24 hours.
    Day,
    /// 7 days.
    Week,
    /// 30 days.
    Month,
    /// 365 days.
    Year,
}

/// Keywords of the units with their meanings, in the order of [`ALL_UNITS`].
pub(super) const WORDS: [(&str, &str); 7] = [
    ("second", "1 second"),
    ("minute", "60 seconds"),
    ("hour", "60 minutes"),
    ("day", "24 hours, from midnight (UTC)"),
    ("week", "7 days"),
    ("month", "30 days"),
    ("year", "365 days"),
];

/// All units, shortest first.
const ALL_UNITS: [RateLimitUnit; 7] = [
    RateLimitUnit::Second,
    RateLimitUnit::Minute,
    RateLimitUnit::Hour,
    RateLimitUnit::Day,
    RateLimitUnit::Week,
    RateLimitUnit::Month,
    RateLimitUnit::Year,
];

impl RateLimitUnit {
    /// Length of the unit.
    pub const fn duration(self) -> Duration {
        Duration::from_secs(match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => DAY,
            Self::Week => 7 * DAY,
            Self::Month => 30 * DAY,
            Self::Year => 365 * DAY,
        })
    }

    /// Enum value in `envoy.service.ratelimit.v3`.
    pub const fn proto_value(self) -> i32 {
        match self {
            Self::Second => 1,
            Self::Minute => 2,
            Self::Hour => 3,
            Self::Day => 4,
            Self::Month => 5,
            Self::Year => 6,
            Self::Week => 7,
        }
    }

    /// Returns the unit with that enum value in `envoy.service.ratelimit.v3`; `None` for UNKNOWN and undefined
    /// values.
    pub const fn from_proto_value(number: i32) -> Option<Self> {
        Some(match number {
            1 => Self::Second,
            2 => Self::Minute,
            3 => Self::Hour,
            4 => Self::Day,
            5 => Self::Month,
            6 => Self::Year,
            7 => Self::Week,
            _ => return None,
        })
    }

    /// Returns the unit with exactly that length.
    pub(super) fn from_duration(duration: Duration) -> Option<Self> {
        ALL_UNITS.into_iter().find(|unit| unit.duration() == duration)
    }

    /// Parses the name of a unit, in any case.
    pub(super) fn from_word(word: &str) -> Option<Self> {
        WORDS.iter().position(|(known, _)| known.eq_ignore_ascii_case(word)).map(|at| ALL_UNITS[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proto_values_words_and_durations_agree() {
        for (unit, (word, _)) in ALL_UNITS.into_iter().zip(WORDS) {
            assert_eq!(RateLimitUnit::from_proto_value(unit.proto_value()), Some(unit));
            assert_eq!(RateLimitUnit::from_word(&word.to_uppercase()), Some(unit));
            assert_eq!(RateLimitUnit::from_duration(unit.duration()), Some(unit));
        }
        assert!(ALL_UNITS.is_sorted_by_key(|unit| unit.duration()));
        for number in [i32::MIN, -1, 0, 8, i32::MAX] {
            assert_eq!(RateLimitUnit::from_proto_value(number), None);
        }
        assert_eq!(RateLimitUnit::from_word("unknown"), None);
        assert_eq!(RateLimitUnit::from_duration(Duration::from_secs(2)), None);
    }
}

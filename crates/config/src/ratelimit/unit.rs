//! The units of time that limits of descriptors are given in.

use std::time::Duration;

const DAY: u64 = 86_400;

/// A unit of time. Months have 30 days and years 365, as the reference counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
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

/// The words a file has for the units, each with what it means; in the order of [`IN_ORDER`].
pub(super) const WORDS: [(&str, &str); 7] = [
    ("second", "60 to the minute"),
    ("minute", "60 seconds"),
    ("hour", "60 minutes"),
    ("day", "24 hours, from midnight (UTC)"),
    ("week", "7 days"),
    ("month", "30 days"),
    ("year", "365 days"),
];

/// Every unit, the shortest first.
const IN_ORDER: [Unit; 7] = [Unit::Second, Unit::Minute, Unit::Hour, Unit::Day, Unit::Week, Unit::Month, Unit::Year];

impl Unit {
    /// How long it is.
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

    /// Its number in `envoy.service.ratelimit.v3`.
    pub const fn number(self) -> i32 {
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

    /// The unit of that number in `envoy.service.ratelimit.v3`; `None` for UNKNOWN and for numbers it does not
    /// have.
    pub const fn from_number(number: i32) -> Option<Self> {
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

    /// The unit of exactly that length.
    pub(super) fn of(duration: Duration) -> Option<Self> {
        IN_ORDER.into_iter().find(|unit| unit.duration() == duration)
    }

    /// The unit a file names, in whatever case.
    pub(super) fn named(word: &str) -> Option<Self> {
        WORDS.iter().position(|(known, _)| known.eq_ignore_ascii_case(word)).map(|at| IN_ORDER[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_words_and_lengths_name_the_same_units() {
        for (unit, (word, _)) in IN_ORDER.into_iter().zip(WORDS) {
            assert_eq!(Unit::from_number(unit.number()), Some(unit));
            assert_eq!(Unit::named(&word.to_uppercase()), Some(unit));
            assert_eq!(Unit::of(unit.duration()), Some(unit));
        }
        assert!(IN_ORDER.is_sorted_by_key(|unit| unit.duration()));
        for number in [i32::MIN, -1, 0, 8, i32::MAX] {
            assert_eq!(Unit::from_number(number), None);
        }
        assert_eq!(Unit::named("unknown"), None);
        assert_eq!(Unit::of(Duration::from_secs(2)), None);
    }
}

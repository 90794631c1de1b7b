//! What a body asks for.

use std::borrow::Cow;
use std::time::Duration;

use super::check::Check;
use super::field::Fields;
use super::form::REQUEST;
use super::{Field, Form};
use crate::http::problem::{Kind, Problem};

/// The shortest that something is held.
pub(super) const SHORTEST_TTL: Duration = Duration::from_millis(1);
/// The longest that something is held without being renewed.
pub(super) const MOST_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// How long something is held if nobody says how long.
const USUAL_TTL: Duration = Duration::from_secs(30);
/// The longest anybody waits for a permit.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

/// What a body asks for; which of it counts depends on its form.
#[derive(Debug, Default)]
pub(in crate::http) struct Asked<'b> {
    /// Which fields were there.
    pub(super) fields: Fields,
    /// The one check.
    pub(in crate::http) check: Check<'b>,
    /// The list of checks, if there was one; then never empty.
    pub(in crate::http) checks: Vec<Check<'b>>,
    pub(in crate::http) all_or_nothing: bool,
    pub(super) ttl: Option<Duration>,
    /// How long to wait for a turn.
    pub(in crate::http) wait: Duration,
    pub(super) reservation: Option<Cow<'b, str>>,
    pub(super) actual: Option<u64>,
    pub(super) cancel: bool,
}

/// How a reservation ends.
#[derive(Debug)]
pub(in crate::http) struct Settling<'b> {
    pub(in crate::http) reservation: Cow<'b, str>,
    /// What it really cost; `None`: nothing, it did not happen.
    pub(in crate::http) actual: Option<u64>,
}

impl<'b> Asked<'b> {
    /// Refuses fields that do not go together.
    pub(super) fn checked(self, form: Form) -> Result<Self, Problem> {
        let wrong =
            |field: Field, detail: &str| Err(Problem::new(Kind::Invalid, detail).at(format!("/{}", field.name())));
        if form == Form::Check {
            match (self.fields.has(Field::Checks), self.fields.any_of(&REQUEST)) {
                (true, Some(field)) => return wrong(field, "it is beside a list of checks: put it into each of them"),
                (false, _) if self.fields.has(Field::AllOrNothing) => {
                    return wrong(Field::AllOrNothing, "it is about a list: put the check into `checks`");
                }
                _ => {}
            }
        }
        Ok(self)
    }

    /// How long to hold what was asked for.
    pub(in crate::http) fn ttl(&self) -> Duration {
        self.ttl.unwrap_or(USUAL_TTL)
    }

    /// How long to hold it from now on, if that is to change.
    pub(in crate::http) const fn new_ttl(&self) -> Option<Duration> {
        self.ttl
    }

    /// How a reservation is to end.
    pub(in crate::http) fn settling(self) -> Result<Settling<'b>, Problem> {
        let wrong = |detail: &str| Problem::new(Kind::Invalid, detail);
        let reservation = self.reservation.ok_or_else(|| wrong("`reservation` is missing: say which one ends"))?;
        match (self.actual, self.cancel) {
            (Some(_), true) => {
                Err(wrong("`actual` says it happened, `cancel` that it did not: leave one out").at("/cancel"))
            }
            (None, false) => {
                Err(wrong("say what it really cost in `actual`, or `\"cancel\": true` if it did not happen"))
            }
            (actual, _) => Ok(Settling { reservation, actual }),
        }
    }
}

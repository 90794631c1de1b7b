//! What stands behind the question mark.

use std::borrow::Cow;

use http::Uri;

use sluicegate_http::call::nearest;

use super::problem::{Kind, Problem, shown};

/// The parameters of a call: those that are known, and each of them once but for those that may come often.
pub(super) struct Query<'u>(Vec<(Cow<'u, str>, Cow<'u, str>)>);

impl<'u> Query<'u> {
    /// Reads it. A parameter whose name ends in `*` may come often.
    pub(super) fn read(uri: &'u Uri, known: &[&'static str]) -> Result<Self, Problem> {
        let mut read: Vec<(Cow<'u, str>, Cow<'u, str>)> = Vec::new();
        for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            let is_it = |known: &&&str| known.trim_end_matches('*') == name;
            let Some(known) = known.iter().find(is_it) else { return Err(unknown(&name, known)) };
            if !known.ends_with('*') && read.iter().any(|(before, _)| *before == name) {
                return Err(Problem::new(Kind::Invalid, format!("`{known}` is there twice: which one counts?")));
            }
            read.push((name, value));
        }
        Ok(Self(read))
    }

    /// The value of a parameter, if it is there.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// The value of a parameter that must be there.
    pub(super) fn must(&self, name: &str) -> Result<&str, Problem> {
        self.get(name).ok_or_else(|| Problem::new(Kind::Invalid, format!("`{name}` is missing: say ?{name}=...")))
    }

    /// All values of a parameter.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| &**value)
    }
}

fn unknown(name: &str, known: &[&'static str]) -> Problem {
    let names = || known.iter().map(|known| known.trim_end_matches('*'));
    let remedy = match (nearest(name, names()), known.is_empty()) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, true) => "there are none here".to_owned(),
        (None, false) => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
    };
    Problem::new(Kind::Invalid, format!("unknown parameter {}: {remedy}", shown(name)))
}

//! Query parameters.

use std::borrow::Cow;

use http::Uri;

use sluicegate_engine::spelling::nearest;

use super::problem::{Problem, ProblemKind, quote_input};

/// Query parameters of a call: known names only, each once unless it may be repeated.
pub(super) struct Query<'u>(Vec<(Cow<'u, str>, Cow<'u, str>)>);

impl<'u> Query<'u> {
    /// Parses the query. A parameter with a name that ends in `*` may be repeated.
    pub(super) fn read(uri: &'u Uri, known: &[&'static str]) -> Result<Self, Problem> {
        let mut read: Vec<(Cow<'u, str>, Cow<'u, str>)> = Vec::new();
        for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            let has_name = |known: &&&str| known.trim_end_matches('*') == name;
            let Some(known) = known.iter().find(has_name) else { return Err(unknown(&name, known)) };
            if !known.ends_with('*') && read.iter().any(|(before, _)| *before == name) {
                return Err(Problem::new(ProblemKind::Invalid, format!("duplicate parameter `{known}`")));
            }
            read.push((name, value));
        }
        Ok(Self(read))
    }

    /// Returns the value of a parameter, if present.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Returns the value of a required parameter.
    pub(super) fn required(&self, name: &str) -> Result<&str, Problem> {
        self.get(name)
            .ok_or_else(|| Problem::new(ProblemKind::Invalid, format!("missing parameter `{name}`: add ?{name}=...")))
    }

    /// Returns all values of a parameter.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| &**value)
    }
}

fn unknown(name: &str, known: &[&'static str]) -> Problem {
    let names = || known.iter().map(|known| known.trim_end_matches('*'));
    let remedy = match (nearest(name, names()), known.is_empty()) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, true) => "this call takes no parameters".to_owned(),
        (None, false) => format!("known parameters: {}", names().collect::<Vec<_>>().join(", ")),
    };
    Problem::new(ProblemKind::Invalid, format!("unknown parameter {}: {remedy}", quote_input(name)))
}

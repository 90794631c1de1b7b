//! Patterns of paths.
//!
//! | written | matches |
//! |---|---|
//! | `/api/orders` | this path |
//! | `/api/*/orders` | any one segment in the star's place |
//! | `/api/orders/{id}` | the same, captured as `param['id']` |
//! | `/files/**` | `/files` and everything below it |
//! | `/files/{*rest}` | the same, with what is below captured as `param['rest']` |
//!
//! Segments are compared as they came, byte for byte: whoever wants `%41` to be `A` decodes before
//! asking. A slash at the end makes no difference. Two slashes in a row have an empty segment between
//! them, which only `**` and `{*rest}` match: merging slashes, too, is up to the adapter.
//!
//! ```
//! use sluicegate_engine::rule::PathPattern;
//!
//! let pattern = PathPattern::parse("/api/**")?;
//! assert!(pattern.matches("/api/orders/7") && pattern.matches("/api/") && pattern.matches("/api"));
//! assert!(!pattern.matches("/apis"));
//! # Ok::<(), sluicegate_engine::rule::TargetError>(())
//! ```

use std::fmt;

use super::attribute::Shown;
use super::{Params, TargetError};

/// The most segments a pattern has.
pub const MOST_SEGMENTS: usize = 64;

/// A path pattern, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    pub(super) segments: Vec<Segment>,
    pub(super) rest: Rest,
}

/// What one segment may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// This text.
    Literal(String),
    /// Anything; kept under the name, if it has one.
    Any(Option<String>),
}

/// What may follow the segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing.
    Nothing,
    /// Anything; kept under the name, if it has one.
    Anything(Option<String>),
}

impl PathPattern {
    /// Reads a pattern.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        let Some(inner) = text.strip_prefix('/') else {
            let at = text.chars().next().map_or(0, char::len_utf8);
            return Err(fault(0, at, format!("a path starts with a slash: write /{}", text.trim_start())));
        };
        let inner = inner.strip_suffix('/').unwrap_or(inner);
        let mut pattern = Self { segments: Vec::new(), rest: Rest::Nothing };
        if inner.is_empty() && text.len() <= 1 {
            return Ok(pattern);
        }
        let mut at = 1;
        for segment in inner.split('/') {
            if pattern.rest != Rest::Nothing {
                let (start, len) = (at - 1, segment.len() + 1);
                let message = "nothing can follow ** or {*name}: they take the rest of the path; use * or {name} \
                               for one segment";
                return Err(fault(start, len, message.to_owned()));
            }
            if pattern.segments.len() == MOST_SEGMENTS {
                return Err(fault(at, segment.len(), format!("more than {MOST_SEGMENTS} segments: use ** at the end")));
            }
            pattern.push(segment).map_err(|message| fault(at, segment.len(), message))?;
            at += segment.len() + 1;
        }
        Ok(pattern)
    }

    fn push(&mut self, segment: &str) -> Result<(), String> {
        match segment {
            "" => return Err("an empty segment never matches: write one slash only".to_owned()),
            "*" => self.segments.push(Segment::Any(None)),
            "**" => self.rest = Rest::Anything(None),
            _ => match segment.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')) {
                Some(inner) => self.push_named(inner)?,
                None if segment.contains(['{', '}']) => {
                    let reason = if segment.starts_with('{') == segment.ends_with('}') || balanced(segment) {
                        "a parameter is a whole segment"
                    } else {
                        "its braces do not match"
                    };
                    return Err(format!("{} is no segment: {reason}; write it as /{{name}}/", Shown(segment)));
                }
                None if segment.contains('*') => {
                    return Err(format!(
                        "{} is no segment: * and ** stand for whole segments; for a part of one, use \
                         when: path.matches('...')",
                        Shown(segment)
                    ));
                }
                None if segment.contains(['?', '#']) => {
                    return Err(format!(
                        "{} is no segment: a path has no query; use when: query['name'] == '...'",
                        Shown(segment)
                    ));
                }
                None => self.segments.push(Segment::Literal(segment.to_owned())),
            },
        }
        Ok(())
    }

    fn push_named(&mut self, inner: &str) -> Result<(), String> {
        let (rest, name) = match inner.strip_prefix('*') {
            Some(name) => (true, name),
            None => (false, inner),
        };
        if name.is_empty() {
            let (named, plain) = if rest { ("{*name}", "**") } else { ("{name}", "*") };
            return Err(format!("the parameter has no name: write {named}, or {plain} if none is needed"));
        }
        if !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.')) {
            return Err(format!("{} is no name: use letters, digits, '_', '.' and '-'", Shown(name)));
        }
        if self.names().any(|taken| taken == name) {
            return Err(format!("the parameter '{name}' is there twice: give each its own name"));
        }
        let name = Some(name.to_owned());
        if rest {
            self.rest = Rest::Anything(name);
        } else {
            self.segments.push(Segment::Any(name));
        }
        Ok(())
    }

    /// The names it captures under, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let segments = self.segments.iter().filter_map(|segment| match segment {
            Segment::Any(name) => name.as_deref(),
            Segment::Literal(_) => None,
        });
        let rest = match &self.rest {
            Rest::Anything(name) => name.as_deref(),
            Rest::Nothing => None,
        };
        segments.chain(rest)
    }

    /// Whether it matches a path.
    pub fn matches(&self, path: &str) -> bool {
        self.walk(path, |_, _| {})
    }

    /// Whether it matches a path; if so, `params` gets what it captured.
    pub fn capture<'p>(&'p self, path: &'p str, params: &mut Params<'p>) -> bool {
        params.clear();
        let matched = self.walk(path, |name, value| params.push(name, value));
        if !matched {
            params.clear();
        }
        matched
    }

    fn walk<'p>(&'p self, path: &'p str, mut captured: impl FnMut(&'p str, &'p str)) -> bool {
        let mut path = Segments::of(path);
        for segment in &self.segments {
            match (segment, path.next()) {
                (Segment::Literal(literal), Some(given)) if literal == given => {}
                (Segment::Any(name), Some(given)) if !given.is_empty() => {
                    if let Some(name) = name {
                        captured(name, given);
                    }
                }
                _ => return false,
            }
        }
        match (&self.rest, path.remaining) {
            (Rest::Nothing, remaining) => remaining.is_none(),
            (Rest::Anything(Some(name)), Some(remaining)) if !remaining.is_empty() => {
                captured(name, remaining);
                true
            }
            (Rest::Anything(_), _) => true,
        }
    }
}

/// The segments of a request's path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segments<'a> {
    /// What is left, without its leading slash; `None` at the end.
    remaining: Option<&'a str>,
}

impl<'a> Segments<'a> {
    pub(super) fn of(path: &'a str) -> Self {
        let inner = path.strip_prefix('/').unwrap_or(path);
        let remaining = (!inner.is_empty()).then(|| inner.strip_suffix('/').unwrap_or(inner));
        Self { remaining }
    }
}

impl<'a> Iterator for Segments<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let remaining = self.remaining?;
        match remaining.bytes().position(|b| b == b'/') {
            Some(slash) => {
                self.remaining = Some(&remaining[slash + 1..]);
                Some(&remaining[..slash])
            }
            None => self.remaining.take(),
        }
    }
}

fn balanced(segment: &str) -> bool {
    segment.matches('{').count() == segment.matches('}').count()
}

fn fault(at: usize, len: usize, message: String) -> TargetError {
    TargetError { at, len, message }
}

/// Writes the pattern back.
impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.segments {
            match segment {
                Segment::Literal(literal) => write!(f, "/{literal}")?,
                Segment::Any(Some(name)) => write!(f, "/{{{name}}}")?,
                Segment::Any(None) => f.write_str("/*")?,
            }
        }
        match &self.rest {
            Rest::Anything(Some(name)) => write!(f, "/{{*{name}}}"),
            Rest::Anything(None) => f.write_str("/**"),
            Rest::Nothing if self.segments.is_empty() => f.write_str("/"),
            Rest::Nothing => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn captured(pattern: &str, path: &str) -> Option<Vec<(String, String)>> {
        let pattern = PathPattern::parse(pattern).unwrap();
        let mut params = Params::new();
        pattern
            .capture(path, &mut params)
            .then(|| params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    #[test]
    fn patterns_match_what_the_table_says() {
        for (pattern, path, expected) in [
            ("/", "/", true),
            ("/", "", true),
            ("/", "/x", false),
            ("/", "//", false),
            ("/a/b", "/a/b", true),
            ("/a/b", "/a/b/", true),
            ("/a/b/", "/a/b", true),
            ("/a/b", "/a//b", false),
            ("/a/b", "/a", false),
            ("/a/b", "/a/b/c", false),
            ("/a/*", "/a/b", true),
            ("/a/*", "/a/", false),
            ("/a/*", "/a//", false),
            ("/a/*/c", "/a//c", false),
            ("/a/**", "/a", true),
            ("/a/**", "/a/", true),
            ("/a/**", "/a//", true),
            ("/a/**", "/a/b/c", true),
            ("/a/**", "/ab", false),
            ("/**", "/", true),
            ("/**", "//", true),
            ("/**", "*", true),
            ("/caf\u{e9}", "/caf\u{e9}", true),
            ("/a", "/A", false),
            ("/a b", "/a%20b", false),
        ] {
            assert_eq!(PathPattern::parse(pattern).unwrap().matches(path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn parameters_are_captured() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(captured("/a/{id}/{*rest}", "/a/7/x/y/"), Some(vec![pair("id", "7"), pair("rest", "x/y")]));
        assert_eq!(captured("/a/{id}/{*rest}", "/a/7"), Some(vec![pair("id", "7")]));
        assert_eq!(captured("/a/{*rest}", "/a//"), Some(vec![]));
        assert_eq!(captured("/a/{id}/b", "/a/7/c"), None);
    }

    #[test]
    fn a_wrong_pattern_says_where_and_what_to_do() {
        for (text, at, message) in [
            ("", 0, "starts with a slash"),
            ("api", 0, "write /api"),
            ("/a/**/b", 5, "use * or {name}"),
            ("/{*rest}/b", 8, "use * or {name}"),
            ("/a//b", 3, "one slash"),
            ("//", 1, "one slash"),
            ("/a/{id", 3, "braces do not match"),
            ("/a/id}", 3, "braces do not match"),
            ("/a/x{id}", 3, "whole segment"),
            ("/a/{}", 3, "no name"),
            ("/a/{*}", 3, "no name"),
            ("/a/{id}/{id}", 8, "twice"),
            ("/a/{i d}", 3, "no name"),
            ("/a/*.jpg", 3, "path.matches"),
            ("/a?x=1", 1, "query"),
        ] {
            let error = PathPattern::parse(text).unwrap_err();
            assert_eq!(error.at, at, "{text}: {error}");
            assert!(error.to_string().contains(message), "{text}: {error}");
            assert!(error.at + error.len <= text.len());
        }
        assert!(PathPattern::parse(&"/x".repeat(MOST_SEGMENTS)).is_ok());
        assert!(PathPattern::parse(&"/x".repeat(MOST_SEGMENTS + 1)).is_err());
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_written_back(text in "\\PC*|(/(a|\\*|\\{x\\}|\\{y\\})){0,4}(/\\*\\*|/\\{\\*z\\}|/)?") {
            if let Ok(pattern) = PathPattern::parse(&text) {
                prop_assert_eq!(PathPattern::parse(&pattern.to_string()), Ok(pattern));
            }
        }

        #[test]
        fn a_path_is_its_segments(path in "[/a]{0,12}") {
            let expected: Vec<&str> = match path.strip_prefix('/').unwrap_or(&path) {
                "" => vec![],
                inner => inner.strip_suffix('/').unwrap_or(inner).split('/').collect(),
            };
            prop_assert_eq!(Segments::of(&path).collect::<Vec<_>>(), expected);
        }
    }
}

//! Path patterns.
//!
//! | pattern | matches |
//! |---|---|
//! | `/api/orders` | this path |
//! | `/api/*/orders` | any one segment in place of the star |
//! | `/api/orders/{id}` | the same, captured as `param['id']` |
//! | `/files/**` | `/files` and everything below it |
//! | `/files/{*rest}` | the same, with the remaining path captured as `param['rest']` |
//!
//! Segments are compared byte for byte, without decoding: if `%41` should equal `A`, the adapter has to decode
//! the path first. A trailing slash is ignored. Two consecutive slashes have an empty segment between them,
//! matched only by `**` and `{*rest}`: merging slashes is also up to the adapter.
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

use super::attribute::QuotedExcerpt;
use super::{Params, TargetError};

/// Maximum number of segments of a pattern.
pub const MAX_SEGMENTS: usize = 64;

/// Parsed path pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    pub(super) segments: Vec<Segment>,
    pub(super) tail: Tail,
}

/// Segment of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// This text.
    Literal(String),
    /// Any segment; captured if it has a name.
    Any(Option<String>),
}

/// End of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// The path ends here.
    Empty,
    /// Any remaining path; captured if it has a name.
    Any(Option<String>),
}

impl PathPattern {
    /// Parses a pattern.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        let Some(inner) = text.strip_prefix('/') else {
            let at = text.chars().next().map_or(0, char::len_utf8);
            return Err(pattern_error(0, at, format!("a path starts with a slash: write /{}", text.trim_start())));
        };
        let inner = inner.strip_suffix('/').unwrap_or(inner);
        let mut pattern = Self { segments: Vec::new(), tail: Tail::Empty };
        if inner.is_empty() && text.len() <= 1 {
            return Ok(pattern);
        }
        let mut at = 1;
        for segment in inner.split('/') {
            if pattern.tail != Tail::Empty {
                let (start, len) = (at - 1, segment.len() + 1);
                let message = "nothing can follow ** or {*name}: they match the rest of the path; use * or {name} for \
                    one segment";
                return Err(pattern_error(start, len, message.to_owned()));
            }
            if pattern.segments.len() == MAX_SEGMENTS {
                return Err(pattern_error(
                    at,
                    segment.len(),
                    format!("more than {MAX_SEGMENTS} segments: use ** at the end"),
                ));
            }
            pattern.push(segment).map_err(|message| pattern_error(at, segment.len(), message))?;
            at += segment.len() + 1;
        }
        Ok(pattern)
    }

    fn push(&mut self, segment: &str) -> Result<(), String> {
        match segment {
            "" => return Err("an empty segment never matches: write a single slash".to_owned()),
            "*" => self.segments.push(Segment::Any(None)),
            "**" => self.tail = Tail::Any(None),
            _ => match segment.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')) {
                Some(inner) => self.push_named(inner)?,
                None if segment.contains(['{', '}']) => {
                    let reason = if segment.starts_with('{') == segment.ends_with('}') || balanced(segment) {
                        "a parameter must be an entire segment"
                    } else {
                        "unbalanced braces"
                    };
                    return Err(format!(
                        "{} is not a valid segment: {reason}; write /{{name}}/",
                        QuotedExcerpt(segment)
                    ));
                }
                None if segment.contains('*') => {
                    return Err(format!(
                        "{} is not a valid segment: * and ** match entire segments; to match a part, use when: \
                         path.matches('...')",
                        QuotedExcerpt(segment)
                    ));
                }
                None if segment.contains(['?', '#']) => {
                    return Err(format!(
                        "{} is not a valid segment: a path has no query; use when: query['name'] == '...'",
                        QuotedExcerpt(segment)
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
            return Err(format!("parameter without a name: write {named}, or {plain} to match any value"));
        }
        if !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.')) {
            return Err(format!("{} is not a valid name: use letters, digits, '_', '.' and '-'", QuotedExcerpt(name)));
        }
        if self.names().any(|taken| taken == name) {
            return Err(format!("duplicate parameter '{name}': use distinct names"));
        }
        let name = Some(name.to_owned());
        if rest {
            self.tail = Tail::Any(name);
        } else {
            self.segments.push(Segment::Any(name));
        }
        Ok(())
    }

    /// Names of the captured parameters, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let segments = self.segments.iter().filter_map(|segment| match segment {
            Segment::Any(name) => name.as_deref(),
            Segment::Literal(_) => None,
        });
        let rest = match &self.tail {
            Tail::Any(name) => name.as_deref(),
            Tail::Empty => None,
        };
        segments.chain(rest)
    }

    /// True if it matches a path.
    pub fn matches(&self, path: &str) -> bool {
        self.walk(path, |_, _| {})
    }

    /// Returns true if it matches a path, and stores the captured parameters in `params`.
    pub fn capture<'p>(&'p self, path: &'p str, params: &mut Params<'p>) -> bool {
        params.clear();
        let matched = self.walk(path, |name, value| params.push(name, value));
        if !matched {
            params.clear();
        }
        matched
    }

    fn walk<'p>(&'p self, path: &'p str, mut on_capture: impl FnMut(&'p str, &'p str)) -> bool {
        let mut path = Segments::of(path);
        for segment in &self.segments {
            match (segment, path.next()) {
                (Segment::Literal(literal), Some(actual)) if literal == actual => {}
                (Segment::Any(name), Some(actual)) if !actual.is_empty() => {
                    if let Some(name) = name {
                        on_capture(name, actual);
                    }
                }
                _ => return false,
            }
        }
        match (&self.tail, path.remaining) {
            (Tail::Empty, remaining) => remaining.is_none(),
            (Tail::Any(Some(name)), Some(remaining)) if !remaining.is_empty() => {
                on_capture(name, remaining);
                true
            }
            (Tail::Any(_), _) => true,
        }
    }
}

/// Iterator over the segments of a request path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segments<'a> {
    /// Remaining path without its leading slash; `None` at the end.
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

fn pattern_error(at: usize, len: usize, message: String) -> TargetError {
    TargetError { at, len, message }
}

/// Formats the pattern.
impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.segments {
            match segment {
                Segment::Literal(literal) => write!(f, "/{literal}")?,
                Segment::Any(Some(name)) => write!(f, "/{{{name}}}")?,
                Segment::Any(None) => f.write_str("/*")?,
            }
        }
        match &self.tail {
            Tail::Any(Some(name)) => write!(f, "/{{*{name}}}"),
            Tail::Any(None) => f.write_str("/**"),
            Tail::Empty if self.segments.is_empty() => f.write_str("/"),
            Tail::Empty => Ok(()),
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
    fn patterns_match_as_documented() {
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
    fn errors_name_the_offset_and_the_remedy() {
        for (text, at, message) in [
            ("", 0, "starts with a slash"),
            ("api", 0, "write /api"),
            ("/a/**/b", 5, "use * or {name}"),
            ("/{*rest}/b", 8, "use * or {name}"),
            ("/a//b", 3, "single slash"),
            ("//", 1, "single slash"),
            ("/a/{id", 3, "unbalanced braces"),
            ("/a/id}", 3, "unbalanced braces"),
            ("/a/x{id}", 3, "entire segment"),
            ("/a/{}", 3, "parameter without a name"),
            ("/a/{*}", 3, "parameter without a name"),
            ("/a/{id}/{id}", 8, "duplicate parameter"),
            ("/a/{i d}", 3, "not a valid name"),
            ("/a/*.jpg", 3, "path.matches"),
            ("/a?x=1", 1, "query"),
        ] {
            let error = PathPattern::parse(text).unwrap_err();
            assert_eq!(error.at, at, "{text}: {error}");
            assert!(error.to_string().contains(message), "{text}: {error}");
            assert!(error.at + error.len <= text.len());
        }
        assert!(PathPattern::parse(&"/x".repeat(MAX_SEGMENTS)).is_ok());
        assert!(PathPattern::parse(&"/x".repeat(MAX_SEGMENTS + 1)).is_err());
    }

    proptest! {
        #[test]
        fn parsed_patterns_round_trip(text in "\\PC*|(/(a|\\*|\\{x\\}|\\{y\\})){0,4}(/\\*\\*|/\\{\\*z\\}|/)?") {
            if let Ok(pattern) = PathPattern::parse(&text) {
                prop_assert_eq!(PathPattern::parse(&pattern.to_string()), Ok(pattern));
            }
        }

        #[test]
        fn segments_split_the_path(path in "[/a]{0,12}") {
            let expected: Vec<&str> = match path.strip_prefix('/').unwrap_or(&path) {
                "" => vec![],
                inner => inner.strip_suffix('/').unwrap_or(inner).split('/').collect(),
            };
            prop_assert_eq!(Segments::of(&path).collect::<Vec<_>>(), expected);
        }
    }
}

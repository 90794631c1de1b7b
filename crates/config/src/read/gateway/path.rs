//! Paths of routes, and what is taken off them.

use std::collections::HashSet;

use super::super::item::Item;
use crate::diagnostic::{Finding, quoted};

/// A route's path.
pub(super) fn route_path(item: &Item<'_>) -> Option<String> {
    let text = item.text()?;
    match route_fault(text) {
        None => Some(text.to_owned()),
        Some(fault) => {
            item.context.report(
                Finding::error(item.span(), format!("{} is no route", quoted(text)))
                    .label(fault)
                    .help("write a path such as /api/orders/{id} or /api/{*rest}"),
            );
            None
        }
    }
}

/// What is wrong with a route's path.
fn route_fault(path: &str) -> Option<&'static str> {
    let Some(rest) = path.strip_prefix('/') else { return Some("does not begin with `/`") };
    if path.chars().any(|c| c.is_control() || c == ' ') {
        return Some("has a space or control character");
    }
    if path.contains(['?', '#']) {
        return Some("a path has no query");
    }
    let mut names: HashSet<&str> = HashSet::new();
    let mut segments = rest.split('/').peekable();
    while let Some(segment) = segments.next() {
        let inner = segment.strip_prefix('{').and_then(|inner| inner.strip_suffix('}'));
        let name = match inner {
            Some(inner) => inner.strip_prefix('*').unwrap_or(inner),
            None if segment.contains(['{', '}']) => return Some("`{name}` must be a whole segment"),
            None if segment.contains('*') => return Some("`*` stands only within `{*name}`"),
            None => continue,
        };
        if name.is_empty() || name.contains(['{', '}', '*']) {
            return Some("a parameter needs a name");
        }
        if !names.insert(name) {
            return Some("two parameters of one name");
        }
        if inner.is_some_and(|inner| inner.starts_with('*')) && segments.peek().is_some() {
            return Some("`{*name}` takes all that follows and must be last");
        }
    }
    None
}

/// What is taken off the front of a path that is sent on; it is compared with the path if that is known.
pub(super) fn strip(item: &Item<'_>, path: Option<&str>) -> Option<String> {
    let text = item.text()?;
    let Some((label, help)) = path.and_then(|path| strip_fault(text, path)) else { return Some(text.to_owned()) };
    item.context
        .report(Finding::error(item.span(), format!("{} cannot be taken off", quoted(text))).label(label).help(help));
    None
}

/// What is wrong with what is taken off a path, and the remedy.
fn strip_fault(strip: &str, path: &str) -> Option<(&'static str, String)> {
    let literal: Vec<&str> = path.split('/').skip(1).take_while(|segment| !segment.starts_with('{')).collect();
    let longest = || match literal.join("/").trim_end_matches('/') {
        "" => "remove it: there is nothing before the path's parameters".to_owned(),
        segments => format!("write a leading part of the path, at most /{segments}"),
    };
    let Some(rest) = strip.strip_prefix('/') else { return Some(("does not begin with `/`", longest())) };
    if rest.is_empty() {
        return Some(("nothing", "remove it".to_owned()));
    }
    if let Some(without) = strip.strip_suffix('/') {
        return Some(("whole segments only", format!("write {without}, without the slash at its end")));
    }
    let mut expected = literal.iter();
    let fits = rest.split('/').all(|segment| expected.next() == Some(&segment));
    (!fits).then(|| ("not what the path begins with", longest()))
}

/// A path without the names of its parameters: two that differ in nothing else are for the same requests.
pub(super) fn without_names(path: &str) -> String {
    let segment = |segment: &str| match segment {
        _ if segment.starts_with("{*") => "{*}".to_owned(),
        _ if segment.starts_with('{') => "{}".to_owned(),
        literal => literal.to_owned(),
    };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_whole_segments() {
        for good in ["/", "/api/{*rest}", "/{*rest}", "/a/{id}/b", "/a/"] {
            assert_eq!(route_fault(good), None, "{good}");
        }
        for bad in ["", "api", "/{*rest}/b", "/a{id}", "/{}", "/{*}", "/a b", "/**", "/{a}{b}", "/a?b", "/{a}/{a}"] {
            assert!(route_fault(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn leading_segments_can_be_taken_off() {
        for (strip, path) in [("/v1", "/v1/{*rest}"), ("/a", "/a/b/{id}"), ("/a/b", "/a/b/{id}"), ("/a", "/a")] {
            assert_eq!(strip_fault(strip, path), None, "{strip} {path}");
        }
        for (strip, path) in [
            ("/v", "/v1/{*rest}"),
            ("/v1/x", "/v1/{*rest}"),
            ("v1", "/v1"),
            ("/", "/a"),
            ("/a/", "/a/b"),
            ("/a", "/{a}"),
        ] {
            assert!(strip_fault(strip, path).is_some(), "{strip} {path}");
        }
    }

    #[test]
    fn names_of_parameters_tell_no_paths_apart() {
        assert_eq!(without_names("/a/{id}/{*rest}"), without_names("/a/{name}/{*path}"));
        assert_ne!(without_names("/a/{id}"), without_names("/a/{*id}"));
    }
}

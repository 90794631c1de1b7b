//! Parses route paths and `strip_prefix`.

use std::collections::HashSet;

use super::super::value::FieldValue;
use crate::diagnostic::{DiagnosticBuilder, quoted};

/// Parses a route path.
pub(super) fn route_path(item: &FieldValue<'_>) -> Option<String> {
    let text = item.text()?;
    match route_error(text) {
        None => Some(text.to_owned()),
        Some(error) => {
            item.context.report(
                DiagnosticBuilder::error(item.span(), format!("{} is not a valid route path", quoted(text)))
                    .label(error)
                    .help("write a path such as /api/orders/{id} or /api/{*rest}"),
            );
            None
        }
    }
}

/// Returns the error in a route path.
fn route_error(path: &str) -> Option<&'static str> {
    let Some(rest) = path.strip_prefix('/') else { return Some("does not start with `/`") };
    if path.chars().any(|c| c.is_control() || c == ' ') {
        return Some("contains a space or control character");
    }
    if path.contains(['?', '#']) {
        return Some("a path cannot contain a query or fragment");
    }
    let mut names: HashSet<&str> = HashSet::new();
    let mut segments = rest.split('/').peekable();
    while let Some(segment) = segments.next() {
        let inner = segment.strip_prefix('{').and_then(|inner| inner.strip_suffix('}'));
        let name = match inner {
            Some(inner) => inner.strip_prefix('*').unwrap_or(inner),
            None if segment.contains(['{', '}']) => return Some("`{name}` must be an entire segment"),
            None if segment.contains('*') => return Some("`*` is allowed only in `{*name}`"),
            None => continue,
        };
        if name.is_empty() || name.contains(['{', '}', '*']) {
            return Some("invalid parameter name");
        }
        if !names.insert(name) {
            return Some("duplicate parameter name");
        }
        if inner.is_some_and(|inner| inner.starts_with('*')) && segments.peek().is_some() {
            return Some("`{*name}` must be the last segment");
        }
    }
    None
}

/// Parses the prefix stripped from forwarded paths; checked against the route's path if that is known.
pub(super) fn strip_prefix(item: &FieldValue<'_>, path: Option<&str>) -> Option<String> {
    let text = item.text()?;
    let Some((label, help)) = path.and_then(|path| prefix_error(text, path)) else { return Some(text.to_owned()) };
    item.context.report(
        DiagnosticBuilder::error(item.span(), format!("cannot strip the prefix {}", quoted(text)))
            .label(label)
            .help(help),
    );
    None
}

/// Returns the error in a prefix, and the remedy.
fn prefix_error(prefix: &str, path: &str) -> Option<(&'static str, String)> {
    let literal: Vec<&str> = path.split('/').skip(1).take_while(|segment| !segment.starts_with('{')).collect();
    let remedy = || match literal.join("/").trim_end_matches('/') {
        "" => "remove `strip_prefix`: the path starts with a parameter".to_owned(),
        segments => format!("use leading segments of the path, at most /{segments}"),
    };
    let Some(rest) = prefix.strip_prefix('/') else { return Some(("does not start with `/`", remedy())) };
    if rest.is_empty() {
        return Some(("no segment", "remove `strip_prefix`".to_owned()));
    }
    if let Some(without) = prefix.strip_suffix('/') {
        return Some(("ends with a slash", format!("write {without}")));
    }
    let mut expected = literal.iter();
    let fits = rest.split('/').all(|segment| expected.next() == Some(&segment));
    (!fits).then(|| ("not the start of the path", remedy()))
}

/// Removes parameter names from a path: paths that differ only in them match the same requests.
pub(super) fn without_param_names(path: &str) -> String {
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
    fn route_parameters_are_entire_segments() {
        for good in ["/", "/api/{*rest}", "/{*rest}", "/a/{id}/b", "/a/"] {
            assert_eq!(route_error(good), None, "{good}");
        }
        for bad in ["", "api", "/{*rest}/b", "/a{id}", "/{}", "/{*}", "/a b", "/**", "/{a}{b}", "/a?b", "/{a}/{a}"] {
            assert!(route_error(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn leading_segments_can_be_stripped() {
        for (strip, path) in [("/v1", "/v1/{*rest}"), ("/a", "/a/b/{id}"), ("/a/b", "/a/b/{id}"), ("/a", "/a")] {
            assert_eq!(prefix_error(strip, path), None, "{strip} {path}");
        }
        for (strip, path) in [
            ("/v", "/v1/{*rest}"),
            ("/v1/x", "/v1/{*rest}"),
            ("v1", "/v1"),
            ("/", "/a"),
            ("/a/", "/a/b"),
            ("/a", "/{a}"),
        ] {
            assert!(prefix_error(strip, path).is_some(), "{strip} {path}");
        }
    }

    #[test]
    fn parameter_names_do_not_distinguish_paths() {
        assert_eq!(without_param_names("/a/{id}/{*rest}"), without_param_names("/a/{name}/{*path}"));
        assert_ne!(without_param_names("/a/{id}"), without_param_names("/a/{*id}"));
    }
}

//! Path tree of one host and method.
//!
//! A tree of segments. At each node a literal precedes a parameter, and a parameter precedes a catch-all; if
//! the first has no match, the next is tried. Each node is visited at most once, so the cost of a lookup is
//! bounded by the number of nodes, and is nearly always the number of segments.

use rapidhash::RapidHashMap;
use sluicegate_config::settings;

/// Finds the most specific path.
#[derive(Debug, Default)]
pub(crate) struct PathTree {
    root: PathNode,
    /// A catch-all route for every path, if it is the only route.
    catch_all: Option<usize>,
}

#[derive(Debug, Default)]
struct PathNode {
    /// Keys come from the rule file only, so clients cannot provoke hash collisions.
    literals: RapidHashMap<String, PathNode>,
    /// `{name}`: any non-empty segment.
    parameter: Option<Box<PathNode>>,
    /// `{*name}`: the remaining path, which may be empty.
    catch_all: Option<usize>,
    /// The route that ends here.
    route: Option<usize>,
}

impl PathTree {
    /// Builds the tree of the routes at these positions. Of two routes with the same path, the first wins.
    pub(super) fn new(routes: &[settings::Route], positions: impl Iterator<Item = usize>) -> Self {
        let mut paths = Self::default();
        let (mut count, mut takes_all) = (0, None);
        for position in positions {
            let path = routes[position].path.as_str();
            paths.root.add(path.strip_prefix('/').unwrap_or(path).split('/'), position);
            count += 1;
            takes_all = path.starts_with("/{*").then_some(position);
        }
        paths.catch_all = takes_all.filter(|_| count == 1);
        paths
    }

    pub(super) fn find(&self, path: &str) -> Option<usize> {
        self.catch_all.or_else(|| self.root.find(path.strip_prefix('/')?))
    }
}

impl PathNode {
    fn add<'a>(&mut self, mut segments: impl Iterator<Item = &'a str>, route: usize) {
        let Some(segment) = segments.next() else {
            self.route.get_or_insert(route);
            return;
        };
        if segment.starts_with("{*") {
            self.catch_all.get_or_insert(route);
        } else if segment.starts_with('{') {
            self.parameter.get_or_insert_default().add(segments, route);
        } else {
            self.literals.entry(segment.to_owned()).or_default().add(segments, route);
        }
    }

    /// Finds the route for the remaining path after a slash.
    fn find(&self, path: &str) -> Option<usize> {
        let (segment, rest) = match path.split_once('/') {
            Some((segment, rest)) => (segment, Some(rest)),
            None => (path, None),
        };
        let below = |node: &Self| match rest {
            Some(rest) => node.find(rest),
            // A catch-all also matches an empty remainder.
            None => node.route.or(node.catch_all),
        };
        let text = if self.literals.is_empty() { None } else { self.literals.get(segment) };
        text.and_then(below)
            .or_else(|| self.parameter.as_deref().filter(|_| !segment.is_empty()).and_then(below))
            .or(self.catch_all)
    }
}

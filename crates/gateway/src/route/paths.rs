//! Routes of one host and method, by path.
//!
//! A tree of segments. At each, a text of its own comes before a parameter, and a parameter before one that
//! takes all that follows; where the first leads nowhere, the next is tried. A node is looked at once at
//! most, so a request costs no more than the tree has nodes, and nearly always as many as its path has
//! segments.

use rapidhash::RapidHashMap;
use sluicegate_config::settings;

/// Finds the most exact path.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    root: Node,
    /// A route that takes every path, if it is the only one.
    everything: Option<usize>,
}

#[derive(Debug, Default)]
struct Node {
    /// Only the rule file says what is in it, so nobody can choose names that collide.
    texts: RapidHashMap<String, Node>,
    /// `{name}`: any one segment, but not an empty one.
    any: Option<Box<Node>>,
    /// `{*name}`: all that follows, also nothing.
    rest: Option<usize>,
    /// The route that ends here.
    here: Option<usize>,
}

impl Paths {
    /// The routes at these positions. Of two for the same paths, the first counts.
    pub(super) fn new(routes: &[settings::Route], positions: impl Iterator<Item = usize>) -> Self {
        let mut paths = Self::default();
        let (mut count, mut takes_all) = (0, None);
        for position in positions {
            let path = routes[position].path.as_str();
            paths.root.add(path.strip_prefix('/').unwrap_or(path).split('/'), position);
            count += 1;
            takes_all = path.starts_with("/{*").then_some(position);
        }
        paths.everything = takes_all.filter(|_| count == 1);
        paths
    }

    pub(super) fn find(&self, path: &str) -> Option<usize> {
        self.everything.or_else(|| self.root.find(path.strip_prefix('/')?))
    }
}

impl Node {
    fn add<'a>(&mut self, mut segments: impl Iterator<Item = &'a str>, route: usize) {
        let Some(segment) = segments.next() else {
            self.here.get_or_insert(route);
            return;
        };
        if segment.starts_with("{*") {
            self.rest.get_or_insert(route);
        } else if segment.starts_with('{') {
            self.any.get_or_insert_default().add(segments, route);
        } else {
            self.texts.entry(segment.to_owned()).or_default().add(segments, route);
        }
    }

    /// The route of what is left of a path after a slash.
    fn find(&self, path: &str) -> Option<usize> {
        let (segment, rest) = match path.split_once('/') {
            Some((segment, rest)) => (segment, Some(rest)),
            None => (path, None),
        };
        let below = |node: &Self| match rest {
            Some(rest) => node.find(rest),
            // What takes all that follows takes nothing, too.
            None => node.here.or(node.rest),
        };
        let text = if self.texts.is_empty() { None } else { self.texts.get(segment) };
        text.and_then(below)
            .or_else(|| self.any.as_deref().filter(|_| !segment.is_empty()).and_then(below))
            .or(self.rest)
    }
}

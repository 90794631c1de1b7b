//! Index that finds the rules of a request without checking all of them.
//!
//! The rules' path patterns form a tree of segments. A request walks down the tree along its path and passes
//! the nodes that may hold its rules: those of exactly this path, and those of every subtree it has entered. If
//! a node has many rules, they are looked up by an equality that each of them requires: of its service, host or
//! method, or of an attribute in its `when`. So the cost of a request depends on the length of its path and on
//! the rules it matches, not on the total number of rules.
//!
//! The lookup yields candidates; service, method, host and the other parts of `when` are then checked one by one,
//! and path parameters are captured for the patterns that name any.
//!
//! Path comparison is described in [`pattern`](super::pattern): byte for byte, a trailing slash is ignored, and
//! only `**` matches the empty segment between two slashes.
//!
//! ```
//! use sluicegate_engine::rule::{Request, Rule, RuleIndex, Target};
//!
//! let mut order = Rule::new("order", ["10/s".parse()?]);
//! order.target = Target::parse("GET /orders/{id}")?;
//! let rules = [order];
//!
//! let index = RuleIndex::build(&rules);
//! let mut found = Vec::new();
//! index.matching(&rules, &Request::new("GET", "/orders/42"), |rule, params| {
//!     found.push((rule, params.get("id").map(str::to_owned)));
//! });
//! assert_eq!(found, [(0, Some("42".to_owned()))]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod group;
mod literals;

use smallvec::SmallVec;

use self::group::{RuleEntry, RuleGroup, conjuncts};
use self::literals::Literals;
use super::pattern::{Segment, Segments, Tail};
use super::{Direction, Params, PathPattern, Request, Rule};

/// Rule index. It stores rules by position, so it is valid only together with the rules it was built from.
#[derive(Clone, Debug)]
pub struct RuleIndex {
    /// The tree. The first three nodes are the roots for inbound requests, outbound requests and descriptors.
    nodes: Vec<PathNode>,
    /// Patterns that capture parameters, by rule.
    captures: Vec<Option<PathPattern>>,
}

/// Node of the path tree.
#[derive(Clone, Debug, Default)]
struct PathNode {
    /// Children by literal segment.
    literals: Literals,
    /// Child for any segment.
    any: Option<usize>,
    /// Rules for the path that ends here.
    exact: RuleGroup,
    /// Rules for this path and everything below it.
    subtree: RuleGroup,
    /// Set if `subtree` has all rules for any continuation of the path.
    is_terminal: bool,
    /// Set if, in addition, its rules have no value tables and capture no path parameters.
    ignores_path: bool,
}

/// Candidate rules of a request; usually at most 16.
type Candidates = SmallVec<[RuleEntry; 16]>;

impl RuleIndex {
    /// Builds the index. A rule with an invalid path pattern (detected by
    /// [`Target::validate`](super::Target::validate), never produced by parsing) matches nothing.
    pub fn build(rules: &[Rule]) -> Self {
        let mut index = Self { nodes: vec![PathNode::default(); 3], captures: vec![None; rules.len()] };
        for (position, rule) in rules.iter().enumerate() {
            let root = root(rule.direction);
            match rule.target.path.as_deref().map(PathPattern::parse) {
                None => index.nodes[root].subtree.add(position),
                Some(Ok(pattern)) => {
                    index.group_for(root, &pattern).add(position);
                    index.captures[position] = Some(pattern).filter(|pattern| pattern.names().next().is_some());
                }
                Some(Err(_)) => {}
            }
        }
        for node in &mut index.nodes {
            node.exact.build_tables(rules);
            node.subtree.build_tables(rules);
            node.is_terminal = node.literals.is_empty() && node.any.is_none() && node.exact.is_empty();
            let captures = |entry: &RuleEntry| index.captures.get(entry.rule()).is_some_and(Option::is_some);
            node.ignores_path =
                node.is_terminal && node.subtree.all_linear().is_some_and(|entries| !entries.iter().any(captures));
        }
        index
    }

    /// Group for the rules of a pattern.
    fn group_for(&mut self, root: usize, pattern: &PathPattern) -> &mut RuleGroup {
        let mut at = root;
        for segment in &pattern.segments {
            let new = self.nodes.len();
            let node = &mut self.nodes[at];
            at = match segment {
                Segment::Literal(literal) => node.literals.get_or_insert(literal, new),
                Segment::Any(_) => *node.any.get_or_insert(new),
            };
            if at == new {
                self.nodes.push(PathNode::default());
            }
        }
        match pattern.tail {
            Tail::Empty => &mut self.nodes[at].exact,
            Tail::Any(_) => &mut self.nodes[at].subtree,
        }
    }

    /// Calls `found` with the position of every matching rule, in ascending order, and the parameters its pattern
    /// captured. `rules` must be those the index was built from.
    pub fn matching(&self, rules: &[Rule], request: &Request<'_>, mut found: impl FnMut(usize, &Params<'_>)) {
        if let Some(entries) = self.path_independent(request.direction) {
            for entry in entries {
                let Some(rule) = rules.get(entry.rule()) else { continue };
                if rule.target.matches_except_path(request) && condition_holds(rule, *entry, request, Params::empty()) {
                    found(entry.rule(), Params::empty());
                }
            }
            return;
        }
        let mut params = Params::new();
        let mut candidates = Candidates::new();
        self.candidates(request, &mut candidates);
        for entry in &candidates {
            let Some(rule) = rules.get(entry.rule()) else { continue };
            if !rule.target.matches_except_path(request) {
                continue;
            }
            match self.captures.get(entry.rule()) {
                Some(Some(pattern)) => {
                    pattern.capture(request.path, &mut params);
                }
                _ => params.clear(),
            }
            if condition_holds(rule, *entry, request, &params) {
                found(entry.rule(), &params);
            }
        }
    }

    /// All rules of a side, in ascending order, if none of them depends on the path.
    #[inline]
    fn path_independent(&self, direction: Direction) -> Option<&[RuleEntry]> {
        let node = self.nodes.get(root(direction)).filter(|node| node.ignores_path)?;
        node.subtree.all_linear()
    }

    /// Candidate rules, in ascending order.
    fn candidates(&self, request: &Request<'_>, candidates: &mut Candidates) {
        self.walk(root(request.direction), Segments::of(request.path), &mut |group| group.find(request, candidates));
        candidates.sort_unstable();
    }

    /// Visits every node along a path. The recursion is no deeper than the longest pattern.
    fn walk(&self, at: usize, mut path: Segments<'_>, visit: &mut impl FnMut(&RuleGroup)) {
        let Some(node) = self.nodes.get(at) else { return };
        visit(&node.subtree);
        if node.is_terminal {
            return;
        }
        match path.next() {
            None => visit(&node.exact),
            // Between two slashes. Only subtree rules match it, and those have been visited.
            Some("") => {}
            Some(segment) => {
                if let Some(next) = node.literals.get(segment) {
                    self.walk(next, path, visit);
                }
                if let Some(next) = node.any {
                    self.walk(next, path, visit);
                }
            }
        }
    }
}

const fn root(direction: Direction) -> usize {
    match direction {
        Direction::Inbound => 0,
        Direction::Outbound => 1,
        Direction::Descriptor => 2,
    }
}

/// True if a rule's condition holds; the part already proven by the lookup is skipped.
#[inline]
fn condition_holds(rule: &Rule, entry: RuleEntry, request: &Request<'_>, params: &Params<'_>) -> bool {
    rule.when.as_ref().is_none_or(|when| {
        conjuncts(when).iter().enumerate().all(|(part, expr)| entry.proves(part) || expr.holds(request, params))
    })
}

#[cfg(test)]
mod tests;

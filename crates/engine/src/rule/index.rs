//! Finds the rules of a request without looking at all of them.
//!
//! The rules' path patterns make a tree of segments. A request walks down the tree along its path and
//! passes the places where its rules can be: those of exactly this path, and those of everything below
//! a segment it has come through. Where many rules share a place, they are told apart by an equality
//! that each of them demands: of its service, host or method, or of an attribute in its `when`. One
//! look-up by the request's own value then finds the few it fits. So what a request costs depends on
//! the length of its path and on the rules it meets, not on how many there are.
//!
//! What is found that way are candidates; service, method, host and the rest of `when` are then checked
//! one by one, and path parameters are captured for the patterns that name any.
//!
//! How paths are compared stands in [`pattern`](super::pattern): byte for byte, a final slash makes no
//! difference, and only `**` matches the empty segment between two slashes.
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

use self::group::{Entry, Group, conjuncts};
use self::literals::Literals;
use super::pattern::{Rest, Segment, Segments};
use super::{Params, PathPattern, Request, Rule, Side};

/// Rules, arranged to be found. It remembers them by their position, so it is good only together with
/// the rules it was built from.
#[derive(Clone, Debug)]
pub struct RuleIndex {
    /// The tree. The first two nodes are the roots for requests coming in and going out.
    nodes: Vec<Node>,
    /// The patterns that capture parameters, by rule.
    captures: Vec<Option<PathPattern>>,
}

/// Where a path has come to.
#[derive(Clone, Debug, Default)]
struct Node {
    /// The next segment, if it must be one in particular.
    literals: Literals,
    /// The next segment, if it can be any.
    any: Option<usize>,
    /// Rules for the path that ends here.
    here: Group,
    /// Rules for this path and all below it.
    below: Group,
    /// Whether those are all there are, whatever the path goes on with.
    ends: bool,
    /// Whether, besides, each of them is to be looked at, and none wants a part of the path.
    pathless: bool,
}

/// What a request may be limited by, most often.
type Candidates = SmallVec<[Entry; 16]>;

impl RuleIndex {
    /// Arranges rules. A rule whose path is no pattern (which [`Target::check`](super::Target::check)
    /// tells, and reading one from text never gives) matches nothing.
    pub fn build(rules: &[Rule]) -> Self {
        let mut index = Self { nodes: vec![Node::default(); 3], captures: vec![None; rules.len()] };
        for (position, rule) in rules.iter().enumerate() {
            let root = root(rule.side);
            match rule.target.path.as_deref().map(PathPattern::parse) {
                None => index.nodes[root].below.add(position),
                Some(Ok(pattern)) => {
                    index.place(root, &pattern).add(position);
                    index.captures[position] = Some(pattern).filter(|pattern| pattern.names().next().is_some());
                }
                Some(Err(_)) => {}
            }
        }
        for node in &mut index.nodes {
            node.here.arrange(rules);
            node.below.arrange(rules);
            node.ends = node.literals.is_empty() && node.any.is_none() && node.here.is_empty();
            let captures = |entry: &Entry| index.captures.get(entry.rule()).is_some_and(Option::is_some);
            node.pathless = node.ends && node.below.all_listed().is_some_and(|entries| !entries.iter().any(captures));
        }
        index
    }

    /// The group for the rules of a pattern.
    fn place(&mut self, root: usize, pattern: &PathPattern) -> &mut Group {
        let mut at = root;
        for segment in &pattern.segments {
            let new = self.nodes.len();
            let node = &mut self.nodes[at];
            at = match segment {
                Segment::Literal(literal) => node.literals.get_or_insert(literal, new),
                Segment::Any(_) => *node.any.get_or_insert(new),
            };
            if at == new {
                self.nodes.push(Node::default());
            }
        }
        match pattern.rest {
            Rest::Nothing => &mut self.nodes[at].here,
            Rest::Anything(_) => &mut self.nodes[at].below,
        }
    }

    /// Reports the position of every rule for this request, in ascending order, with the parameters its
    /// pattern captured. `rules` are those the index was built from.
    pub fn matching(&self, rules: &[Rule], request: &Request<'_>, mut found: impl FnMut(usize, &Params<'_>)) {
        if let Some(entries) = self.whatever_the_path(request.side) {
            for entry in entries {
                let Some(rule) = rules.get(entry.rule()) else { continue };
                if rule.target.matches_but_path(request) && holds(rule, *entry, request, Params::none()) {
                    found(entry.rule(), Params::none());
                }
            }
            return;
        }
        let mut params = Params::new();
        let mut candidates = Candidates::new();
        self.candidates(request, &mut candidates);
        for entry in &candidates {
            let Some(rule) = rules.get(entry.rule()) else { continue };
            if !rule.target.matches_but_path(request) {
                continue;
            }
            match self.captures.get(entry.rule()) {
                Some(Some(pattern)) => {
                    pattern.capture(request.path, &mut params);
                }
                _ => params.clear(),
            }
            if holds(rule, *entry, request, &params) {
                found(entry.rule(), &params);
            }
        }
    }

    /// The rules for all requests of a side, in ascending order, if the path makes no difference to any of them.
    #[inline]
    fn whatever_the_path(&self, side: Side) -> Option<&[Entry]> {
        let node = self.nodes.get(root(side)).filter(|node| node.pathless)?;
        node.below.all_listed()
    }

    /// The rules that must be looked at, in ascending order.
    fn candidates(&self, request: &Request<'_>, candidates: &mut Candidates) {
        self.walk(root(request.side), Segments::of(request.path), &mut |group| group.find(request, candidates));
        candidates.sort_unstable();
    }

    /// Visits every place a path passes. The recursion is no deeper than the deepest pattern.
    fn walk(&self, at: usize, mut path: Segments<'_>, visit: &mut impl FnMut(&Group)) {
        let Some(node) = self.nodes.get(at) else { return };
        visit(&node.below);
        if node.ends {
            return;
        }
        match path.next() {
            None => visit(&node.here),
            // Between two slashes. Only what is below matches it, and that has been visited.
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

const fn root(side: Side) -> usize {
    match side {
        Side::Inbound => 0,
        Side::Outbound => 1,
        Side::Descriptor => 2,
    }
}

/// Whether a rule's condition holds, as far as finding the rule has not shown it already.
#[inline]
fn holds(rule: &Rule, entry: Entry, request: &Request<'_>, params: &Params<'_>) -> bool {
    rule.when.as_ref().is_none_or(|when| {
        conjuncts(when).iter().enumerate().all(|(part, expr)| entry.settles(part) || expr.holds(request, params))
    })
}

#[cfg(test)]
mod tests;

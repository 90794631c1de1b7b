//! Rules of one tree node, looked up by required attribute values.

use rapidhash::RapidHashMap;

use super::Candidates;
use crate::rule::request::canonical_host;
use crate::rule::{Attribute, Expr, Params, Request, Rule};

/// Minimum number of rules for a value table; fewer are checked one by one just as fast.
const MIN_TABLE_RULES: usize = 4;

/// Marks the absence of a condition part.
const NO_PART: u32 = u32::MAX;

/// Rule in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RuleEntry {
    rule: u32,
    /// Part of the rule's condition that is proven by the lookup.
    proven_part: u32,
}

impl RuleEntry {
    pub(super) const fn rule(self) -> usize {
        self.rule as usize
    }

    pub(super) fn proves(self, part: usize) -> bool {
        u32::try_from(part) == Ok(self.proven_part)
    }
}

/// Rules of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleGroup {
    /// Rules that are checked one by one.
    linear: Vec<RuleEntry>,
    /// Other rules, in one table per attribute.
    tables: Vec<ValueTable>,
}

/// Rules by the value they require of one attribute.
#[derive(Clone, Debug)]
struct ValueTable {
    attribute: Attribute,
    by_value: RapidHashMap<Box<str>, Vec<RuleEntry>>,
}

/// Equality required by a rule.
struct Equality<'r> {
    attribute: &'r Attribute,
    values: Vec<&'r str>,
    /// Part of the condition with this equality; `NO_PART` if it comes from the target.
    part: u32,
}

impl RuleGroup {
    pub(super) const fn is_empty(&self) -> bool {
        self.linear.is_empty() && self.tables.is_empty()
    }

    /// All rules, if none of them is in a table.
    #[inline]
    pub(super) fn all_linear(&self) -> Option<&[RuleEntry]> {
        self.tables.is_empty().then_some(&self.linear)
    }

    pub(super) fn add(&mut self, rule: usize) {
        if let Ok(rule) = u32::try_from(rule) {
            self.linear.push(RuleEntry { rule, proven_part: NO_PART });
        }
    }

    /// Moves the rules into tables, each by the equality it shares with the fewest others.
    pub(super) fn build_tables(&mut self, rules: &[Rule]) {
        if self.linear.len() < MIN_TABLE_RULES {
            return;
        }
        let listed = std::mem::take(&mut self.linear);
        let mut demands: Vec<Vec<Equality<'_>>> =
            listed.iter().map(|entry| rules.get(entry.rule()).map_or_else(Vec::new, equalities)).collect();
        let mut shared: RapidHashMap<(&Attribute, &str), usize> = RapidHashMap::default();
        for demand in demands.iter().flatten() {
            for value in &demand.values {
                *shared.entry((demand.attribute, value)).or_default() += 1;
            }
        }
        let max_shared = |demand: &Equality<'_>| {
            demand.values.iter().filter_map(|value| shared.get(&(demand.attribute, value))).max().copied()
        };
        let mut chosen: RapidHashMap<&Attribute, Vec<(RuleEntry, Equality<'_>)>> = RapidHashMap::default();
        for (entry, demands) in listed.into_iter().zip(&mut demands) {
            let best = (0..demands.len()).min_by_key(|demand| max_shared(&demands[*demand]));
            match best.map(|best| demands.swap_remove(best)) {
                Some(demand) => chosen.entry(demand.attribute).or_default().push((entry, demand)),
                None => self.linear.push(entry),
            }
        }
        for (attribute, entries) in chosen {
            if entries.len() < MIN_TABLE_RULES {
                self.linear.extend(entries.into_iter().map(|(entry, _)| entry));
                continue;
            }
            let mut by_value: RapidHashMap<Box<str>, Vec<RuleEntry>> = RapidHashMap::default();
            for (entry, demand) in entries {
                for value in demand.values {
                    by_value.entry(value.into()).or_default().push(RuleEntry { proven_part: demand.part, ..entry });
                }
            }
            self.tables.push(ValueTable { attribute: attribute.clone(), by_value });
        }
        // Map order is random; sort the tables.
        self.tables.sort_by(|a, b| a.attribute.cmp(&b.attribute));
        self.linear.sort_unstable();
    }

    /// Adds the candidate rules for this request.
    pub(super) fn find(&self, request: &Request<'_>, candidates: &mut Candidates) {
        self.linear.iter().for_each(|entry| candidates.push(*entry));
        for table in &self.tables {
            let params = Params::new();
            let value = request.value(&table.attribute, &params);
            if let Some(entries) = value.and_then(|value| table.by_value.get(value.as_ref())) {
                entries.iter().for_each(|entry| candidates.push(*entry));
            }
        }
    }
}

/// Equalities required by a rule, cheapest lookup first.
fn equalities<'r>(rule: &'r Rule) -> Vec<Equality<'r>> {
    let target = &rule.target;
    let mut demands = Vec::new();
    let mut add = |attribute: &'r Attribute, mut values: Vec<&'r str>, part: u32| {
        values.sort_unstable();
        values.dedup();
        // An absent attribute cannot be looked up, and an empty one counts as absent.
        if !values.is_empty() && !values.contains(&"") {
            demands.push(Equality { attribute, values, part });
        }
    };
    add(&Attribute::Service, target.service.as_deref().into_iter().collect(), NO_PART);
    add(&Attribute::Method, target.methods.iter().map(String::as_str).collect(), NO_PART);
    // A host that is not in canonical form stays with the rules checked one by one.
    let host = target.host.as_deref().filter(|host| canonical_host(host) == *host);
    add(&Attribute::Host, host.into_iter().collect(), NO_PART);
    for (part, expr) in (0..NO_PART).zip(rule.when.as_ref().map_or(&[][..], conjuncts)) {
        match expr {
            // Path parameters are known only once the rule is found.
            Expr::OneOf(Attribute::Param(_), _) => {}
            Expr::OneOf(attribute, texts) => {
                add(attribute, texts.iter().map(String::as_str).collect(), part);
            }
            _ => {}
        }
    }
    demands
}

/// Parts of a condition that must all hold.
pub(super) fn conjuncts(when: &Expr) -> &[Expr] {
    match when {
        Expr::All(parts) => parts,
        whole => std::slice::from_ref(whole),
    }
}

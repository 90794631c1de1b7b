//! Rules that share a place in the tree, told apart by what each demands to be equal.

use rapidhash::RapidHashMap;

use super::Candidates;
use crate::rule::request::canonical_host;
use crate::rule::{Attribute, Expr, Params, Request, Rule};

/// The fewest rules that are worth a look-up; fewer are as quickly checked one by one.
const WORTH_A_TABLE: usize = 4;

/// Stands for no part of a condition.
const NOTHING: u32 = u32::MAX;

/// A rule in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    rule: u32,
    /// The part of the rule's condition that holds for whoever finds it here.
    settled: u32,
}

impl Entry {
    pub(super) const fn rule(self) -> usize {
        self.rule as usize
    }

    pub(super) fn settles(self, part: usize) -> bool {
        u32::try_from(part) == Ok(self.settled)
    }
}

/// The rules of one place.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    /// Those that can only be checked one by one.
    listed: Vec<Entry>,
    /// The others, by the attribute that tells them apart.
    tables: Vec<Table>,
}

/// Rules by the value they demand of one attribute.
#[derive(Clone, Debug)]
struct Table {
    attribute: Attribute,
    by_value: RapidHashMap<Box<str>, Vec<Entry>>,
}

/// An equality that a rule demands.
struct Demand<'r> {
    attribute: &'r Attribute,
    values: Vec<&'r str>,
    /// The part of the condition that says so; the target otherwise.
    part: u32,
}

impl Group {
    pub(super) const fn is_empty(&self) -> bool {
        self.listed.is_empty() && self.tables.is_empty()
    }

    /// All of them, if they can only be checked one by one.
    #[inline]
    pub(super) fn all_listed(&self) -> Option<&[Entry]> {
        self.tables.is_empty().then_some(&self.listed)
    }

    pub(super) fn add(&mut self, rule: usize) {
        if let Ok(rule) = u32::try_from(rule) {
            self.listed.push(Entry { rule, settled: NOTHING });
        }
    }

    /// Moves the rules into tables, each by the demand that it shares with the fewest others.
    pub(super) fn arrange(&mut self, rules: &[Rule]) {
        if self.listed.len() < WORTH_A_TABLE {
            return;
        }
        let listed = std::mem::take(&mut self.listed);
        let mut demands: Vec<Vec<Demand<'_>>> =
            listed.iter().map(|entry| rules.get(entry.rule()).map_or_else(Vec::new, demands)).collect();
        let mut shared: RapidHashMap<(&Attribute, &str), usize> = RapidHashMap::default();
        for demand in demands.iter().flatten() {
            for value in &demand.values {
                *shared.entry((demand.attribute, value)).or_default() += 1;
            }
        }
        let crowd = |demand: &Demand<'_>| {
            demand.values.iter().filter_map(|value| shared.get(&(demand.attribute, value))).max().copied()
        };
        let mut chosen: RapidHashMap<&Attribute, Vec<(Entry, Demand<'_>)>> = RapidHashMap::default();
        for (entry, demands) in listed.into_iter().zip(&mut demands) {
            let best = (0..demands.len()).min_by_key(|demand| crowd(&demands[*demand]));
            match best.map(|best| demands.swap_remove(best)) {
                Some(demand) => chosen.entry(demand.attribute).or_default().push((entry, demand)),
                None => self.listed.push(entry),
            }
        }
        for (attribute, entries) in chosen {
            if entries.len() < WORTH_A_TABLE {
                self.listed.extend(entries.into_iter().map(|(entry, _)| entry));
                continue;
            }
            let mut by_value: RapidHashMap<Box<str>, Vec<Entry>> = RapidHashMap::default();
            for (entry, demand) in entries {
                for value in demand.values {
                    by_value.entry(value.into()).or_default().push(Entry { settled: demand.part, ..entry });
                }
            }
            self.tables.push(Table { attribute: attribute.clone(), by_value });
        }
        // The order of a map is random; that of the tables need not be.
        self.tables.sort_by(|a, b| a.attribute.cmp(&b.attribute));
        self.listed.sort_unstable();
    }

    /// Adds the rules that may be for this request.
    pub(super) fn find(&self, request: &Request<'_>, candidates: &mut Candidates) {
        self.listed.iter().for_each(|entry| candidates.push(*entry));
        for table in &self.tables {
            let params = Params::new();
            let value = request.value(&table.attribute, &params);
            if let Some(entries) = value.and_then(|value| table.by_value.get(value.as_ref())) {
                entries.iter().for_each(|entry| candidates.push(*entry));
            }
        }
    }
}

/// What a rule demands to be equal, cheapest to look up first.
fn demands<'r>(rule: &'r Rule) -> Vec<Demand<'r>> {
    let target = &rule.target;
    let mut demands = Vec::new();
    let mut demand = |attribute: &'r Attribute, mut values: Vec<&'r str>, part: u32| {
        values.sort_unstable();
        values.dedup();
        // An absent attribute cannot be looked up, and an empty one counts as absent.
        if !values.is_empty() && !values.contains(&"") {
            demands.push(Demand { attribute, values, part });
        }
    };
    demand(&Attribute::Service, target.service.as_deref().into_iter().collect(), NOTHING);
    demand(&Attribute::Method, target.methods.iter().map(String::as_str).collect(), NOTHING);
    // A host that is not in the form hosts are compared in stays with the rules checked one by one.
    let host = target.host.as_deref().filter(|host| canonical_host(host) == *host);
    demand(&Attribute::Host, host.into_iter().collect(), NOTHING);
    for (part, expr) in (0..NOTHING).zip(rule.when.as_ref().map_or(&[][..], conjuncts)) {
        match expr {
            // Parameters are only known once the rule is.
            Expr::OneOf(Attribute::Param(_), _) => {}
            Expr::OneOf(attribute, texts) => {
                demand(attribute, texts.iter().map(String::as_str).collect(), part);
            }
            _ => {}
        }
    }
    demands
}

/// The parts of a condition that must all hold.
pub(super) fn conjuncts(when: &Expr) -> &[Expr] {
    match when {
        Expr::All(parts) => parts,
        whole => std::slice::from_ref(whole),
    }
}

//! From a file's tree to its domain, and the rules that count for it.

use std::collections::HashMap;

use sluicegate_engine::rule::{Attribute, KeyPart, Mode, Rule, Side, Target};

use super::grammar::{self, DESCRIPTOR, FILE, RATE_LIMIT};
use super::limit::DescriptorLimit;
use super::matching::{Descriptor, Level};
use super::rate_limit::{RateLimit, rate_limit};
use super::relax;
use super::stat_name::{Names, Path};
use crate::diagnostic::{Finding, quoted};
use crate::read::{Context, Fields, Item, MOST_RULES, json};
use crate::source::Span;
use crate::tree::{Node, Value};

/// The longest name of a domain, in bytes.
const LONGEST_DOMAIN: usize = 1_024;

/// The attribute under which a descriptor's [key](super::Match::key) is given to its rule.
const KEY: &str = "descriptor";

/// What all files make together.
#[derive(Default)]
pub(super) struct Made {
    pub(super) rules: Vec<Rule>,
    names: Names,
    too_many: bool,
}

/// A domain, and where its file names it.
pub(super) struct ReadDomain {
    pub(super) name: String,
    pub(super) place: Span,
    pub(super) level: Level,
}

/// What is known of a descriptor before it is read: what stands above it.
struct Above<'a> {
    domain: &'a str,
    path: &'a Path,
    depth: u32,
    varying: u64,
    /// The entries whose values have a count of their own, or are the only ones.
    apart: u64,
    /// Those of them with `value_to_metric`.
    valued: u64,
    value_to_metric: bool,
}

/// Reads one file. What is wrong with it is in the context's findings.
pub(super) fn domain<'c>(context: &'c Context<'c>, root: &'c Node<'c>, made: &mut Made) -> Option<ReadDomain> {
    let fields = Fields::open_hinted(context, root, &FILE, |field| grammar::belongs(&FILE, field))?;
    let name = fields.get("domain").and_then(|it| domain_name(&it));
    // Without a name the descriptors are read all the same: all faults at once.
    let domain = name.unwrap_or_default();
    let above =
        Above { domain, path: &Path::new(domain), depth: 0, varying: 0, apart: 0, valued: 0, value_to_metric: false };
    let level = fields.get("descriptors").map(|it| level(it, &above, made)).unwrap_or_default();
    Some(ReadDomain { name: name?.to_owned(), place: fields.value_span("domain"), level })
}

fn domain_name<'c>(item: &Item<'c>) -> Option<&'c str> {
    let name = relax::text(item)?;
    let (fault, help) = match name.len() {
        0 => ("the domain has no name", "give it the name that proxies ask for, such as shop"),
        1..=LONGEST_DOMAIN => return Some(name),
        _ => ("the domain's name is longer than 1024 bytes", "shorten it, also where proxies name it"),
    };
    item.context.report(Finding::error(item.span(), fault).label("here").help(help));
    None
}

fn level(item: Item<'_>, above: &Above<'_>, made: &mut Made) -> Level {
    let mut level = Level::default();
    let mut places: HashMap<(&str, &str), Span> = HashMap::new();
    for item in item.items().into_iter().flatten() {
        let hint = |field: &str| grammar::belongs(&DESCRIPTOR, field);
        let Some(fields) = Fields::open_hinted(item.context, item.node, &DESCRIPTOR, hint) else { continue };
        let key = fields.get("key").and_then(|it| key(&it));
        let value = match fields.get("value") {
            Some(it) => relax::text(&it),
            None => Some(""),
        };
        let read = descriptor(&fields, key.unwrap_or_default(), value.unwrap_or_default(), above, made);
        let (Some(key), Some(value)) = (key, value) else { continue };
        let place = fields.value_span(if value.is_empty() { "key" } else { "value" });
        if level.add(key, value, read) {
            places.insert((key, value), place);
        } else {
            item.context.report(twice(key, value, place, places.get(&(key, value)).copied()));
        }
    }
    level
}

fn twice(key: &str, value: &str, place: Span, first: Option<Span>) -> Finding {
    let what = match value {
        "" => format!("two descriptors with the key {} and no value", quoted(key)),
        _ => format!("two descriptors with the key {} and the value {}", quoted(key), quoted(value)),
    };
    let finding = Finding::error(place, what).label("again here").help("keep one of them: only one could be found");
    match first {
        Some(first) => finding.also(first, "first here"),
        None => finding,
    }
}

fn key<'c>(item: &Item<'c>) -> Option<&'c str> {
    let key = relax::text(item)?;
    let (fault, help) = match key {
        "" => ("a descriptor's key is empty", "name the entry's key, such as remote_address"),
        key if key.contains('*') => ("a key stands for itself alone", "`*` stands for any text only in `value`"),
        key => return Some(key),
    };
    item.context.report(Finding::error(item.span(), fault).label("here").help(help));
    None
}

fn descriptor(fields: &Fields<'_>, key: &str, value: &str, above: &Above<'_>, made: &mut Made) -> Descriptor {
    let truth = |name| fields.get(name).and_then(|it| relax::truth(&it)).unwrap_or(false);
    let wild = value.contains('*');
    let shared = truth("share_threshold");
    if shared && !wild {
        fields.context.report(
            Finding::error(fields.key_span("share_threshold"), "`share_threshold` without a `*` in the value")
                .label("there is only one value, or each has its own count")
                .help("give it a value such as files/*, or remove `share_threshold`"),
        );
    }
    let varies = value.is_empty() || wild && !shared;
    let value_to_metric = truth("value_to_metric");
    // A file's nesting is bounded, far below the bits.
    let bit = |is_set: bool| u64::from(is_set).checked_shl(above.depth).unwrap_or(0);
    let path = above.path.below(key, value);
    let here = Above {
        domain: above.domain,
        path: &path,
        depth: above.depth + 1,
        varying: above.varying | bit(varies),
        apart: above.apart | bit(!shared),
        valued: above.valued | bit(value_to_metric && !shared),
        value_to_metric: above.value_to_metric | value_to_metric,
    };
    let modes = Modes {
        shadow: truth("shadow_mode"),
        quota: truth("quota_mode"),
        detailed_metric: truth("detailed_metric"),
        metadata: fields.get("metadata").and_then(|it| metadata(&it)),
    };
    let hint = |field: &str| grammar::belongs(&RATE_LIMIT, field);
    let limit = fields
        .get("rate_limit")
        .and_then(|it| Fields::open_hinted(it.context, it.node, &RATE_LIMIT, hint))
        .and_then(|it| rate_limit(&it));
    let told = if modes.detailed_metric { here.apart } else { here.valued };
    let limit = limit.and_then(|it| made.limit(it, modes, &here, fields));
    let below = fields.get("descriptors").map(|it| level(it, &here, made)).unwrap_or_default();
    Descriptor { limit, varying: here.varying, told, below }
}

/// What stands beside a `rate_limit`.
struct Modes {
    shadow: bool,
    quota: bool,
    detailed_metric: bool,
    metadata: Option<serde_json::Value>,
}

fn metadata(item: &Item<'_>) -> Option<serde_json::Value> {
    match &item.node.value {
        Value::Map(entries) if entries.is_empty() => None,
        Value::Map(_) => json(item.context, item.node),
        _ => {
            item.mismatch(None);
            None
        }
    }
}

impl Made {
    /// The limit of a descriptor, with a rule if it counts.
    fn limit(&mut self, said: RateLimit, modes: Modes, here: &Above<'_>, at: &Fields<'_>) -> Option<DescriptorLimit> {
        let rule_name = self.names.unique(here.path.name());
        let mut position = None;
        if !said.limits.is_empty() {
            if self.rules.len() == MOST_RULES {
                self.tell_too_many(at);
                return None;
            }
            position = Some(self.rules.len());
            self.rules.push(rule(rule_name.clone(), &said, &modes, here));
        }
        Some(DescriptorLimit {
            kind: said.kind,
            rule: position,
            rule_name,
            name: said.name,
            replaces: said.replaces,
            unit: said.unit,
            requests_per_unit: said.requests_per_unit,
            shadow: modes.shadow,
            quota: modes.quota,
            detailed_metric: modes.detailed_metric,
            value_to_metric: here.value_to_metric,
            metadata: modes.metadata,
        })
    }

    /// Told once, of the first that is too many.
    fn tell_too_many(&mut self, at: &Fields<'_>) {
        if !std::mem::replace(&mut self.too_many, true) {
            at.context.report(
                Finding::error(at.key_span("rate_limit"), format!("more than {MOST_RULES} limits"))
                    .label("one too many")
                    .help("a descriptor without a value, or with `*` in it, does the work of many"),
            );
        }
    }
}

fn rule(name: String, said: &RateLimit, modes: &Modes, here: &Above<'_>) -> Rule {
    let varies = here.varying != 0;
    Rule {
        side: Side::Descriptor,
        target: Target { service: Some(here.domain.to_owned()), ..Target::default() },
        key: varies.then(|| KeyPart::from(Attribute::custom(KEY))).into_iter().collect(),
        mode: if modes.shadow { Mode::Shadow } else { Mode::Enforce },
        ..Rule::new(name, said.limits.clone())
    }
}

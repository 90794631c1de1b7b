//! Lint for attributes that rules use and the gateway does not provide: no request has them, so keys on them
//! count nothing and conditions on them never hold.

use std::collections::HashSet;

use sluicegate_engine::rule::{Attribute, Cost, Direction, Expr, Rule};
use sluicegate_engine::spelling::nearest;

use crate::diagnostic::DiagnosticBuilder;
use crate::parse::{ParseContext, ParsedRule, RuleSpans};
use crate::settings::{Gateway, Lists};
use crate::source::Span;

/// Prefix of token claims.
const CLAIM_PREFIX: &str = "jwt.";

/// Maximum number of names compared for a spelling suggestion.
const MAX_COMPARED: usize = 100;

/// Checks the attributes of rules and lists. Outbound rules are skipped: the gateway does not evaluate them.
pub(crate) fn missing_attributes(
    context: &ParseContext<'_>,
    gateway: &Gateway,
    rules: &[ParsedRule],
    lists: &Lists,
    list_spans: &[Span],
) {
    let provided: HashSet<&str> = gateway.attributes.iter().map(|source| source.name.as_str()).collect();
    let is_absent = |name: &str| !provided.contains(name) && (gateway.jwt.is_none() || !name.starts_with(CLAIM_PREFIX));
    let check = |attributes: Vec<(&Attribute, Span)>| {
        let mut reported: HashSet<&str> = HashSet::new();
        for (attribute, span) in attributes {
            let Attribute::Custom(name) = attribute else { continue };
            if is_absent(name) && reported.insert(name) {
                report(context, name, span, gateway.attributes.iter().map(|source| source.name.as_str()));
            }
        }
    };
    for ParsedRule { rule, spans } in rules.iter().filter(|parsed| parsed.rule.direction == Direction::Inbound) {
        check(attributes_of(rule, spans));
    }
    for (entry, span) in lists.allow.iter().chain(&lists.deny).zip(list_spans) {
        let mut attributes = Vec::new();
        collect_attributes(&entry.condition, &mut attributes);
        check(attributes.into_iter().map(|attribute| (attribute, *span)).collect());
    }
}

fn report<'a>(context: &ParseContext<'_>, name: &str, span: Span, provided: impl Iterator<Item = &'a str>) {
    let help = match nearest(name, provided.take(MAX_COMPARED)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if name.starts_with(CLAIM_PREFIX) => {
            "add `jwt: { key: jwt.pem, algorithm: RS256 }` to `gateway`".to_owned()
        }
        None => format!("define it under `gateway`: `attributes: {{ {name}: \"header['x-{name}']\" }}`"),
    };
    context.report(
        DiagnosticBuilder::warning(span, format!("the attribute `{name}` is not defined"))
            .label("the gateway does not provide it")
            .help(help),
    );
}

/// The attributes of a rule with their spans.
pub(super) fn attributes_of<'r>(rule: &'r Rule, spans: &RuleSpans) -> Vec<(&'r Attribute, Span)> {
    let mut used: Vec<_> = rule.key.iter().map(|part| (&part.attribute, spans.key)).collect();
    let mut attributes = Vec::new();
    if let Some(when) = &rule.when {
        collect_attributes(when, &mut attributes);
    }
    used.extend(attributes.into_iter().map(|attribute| (attribute, spans.when)));
    if let Cost::Attribute(attribute) = &rule.cost {
        used.push((attribute, spans.cost));
    }
    used
}

/// Collects the attributes of a condition.
fn collect_attributes<'e>(expr: &'e Expr, into: &mut Vec<&'e Attribute>) {
    match expr {
        Expr::All(parts) | Expr::Any(parts) => parts.iter().for_each(|part| collect_attributes(part, into)),
        Expr::Not(inner) => collect_attributes(inner, into),
        Expr::Has(attribute)
        | Expr::OneOf(attribute, _)
        | Expr::StartsWith(attribute, _)
        | Expr::EndsWith(attribute, _)
        | Expr::Contains(attribute, _)
        | Expr::Matches(attribute, _)
        | Expr::InNetwork(attribute, _)
        | Expr::Number(attribute, ..) => into.push(attribute),
    }
}

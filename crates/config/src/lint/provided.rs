//! Attributes that rules name and the gateway does not provide: no request has them, so keys by them count
//! nothing and conditions on them never hold.

use std::collections::HashSet;

use sluicegate_engine::rule::{Attribute, Cost, Expr, Rule, Side};

use crate::diagnostic::Finding;
use crate::read::{Context, Places, ReadRule, nearest};
use crate::settings::{Gateway, Lists};
use crate::source::Span;

/// What claims of the token begin with.
const CLAIMS: &str = "jwt.";

/// How many names a name that is not provided is compared with.
const MOST_COMPARED: usize = 100;

/// Looks at what rules and lists ask the gateway for. Rules for calls going out are asked by others.
pub(crate) fn provided(
    context: &Context<'_>,
    gateway: &Gateway,
    rules: &[ReadRule],
    lists: &Lists,
    list_places: &[Span],
) {
    let provided: HashSet<&str> = gateway.attributes.iter().map(|source| source.name.as_str()).collect();
    let is_absent = |name: &str| !provided.contains(name) && (gateway.jwt.is_none() || !name.starts_with(CLAIMS));
    let look_at = |asked: Vec<(&Attribute, Span)>| {
        let mut told: HashSet<&str> = HashSet::new();
        for (attribute, span) in asked {
            let Attribute::Custom(name) = attribute else { continue };
            if is_absent(name) && told.insert(name) {
                report(context, name, span, gateway.attributes.iter().map(|source| source.name.as_str()));
            }
        }
    };
    for ReadRule { rule, places, .. } in rules.iter().filter(|read| read.rule.side == Side::Inbound) {
        look_at(asked_by(rule, places));
    }
    for (entry, span) in lists.allow.iter().chain(&lists.deny).zip(list_places) {
        let mut attributes = Vec::new();
        gather(&entry.condition, &mut attributes);
        look_at(attributes.into_iter().map(|attribute| (attribute, *span)).collect());
    }
}

fn report<'a>(context: &Context<'_>, name: &str, span: Span, provided: impl Iterator<Item = &'a str>) {
    let help = match nearest(name, provided.take(MOST_COMPARED)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if name.starts_with(CLAIMS) => "add `jwt: { key: jwt.pem, algorithm: RS256 }` to `gateway`".to_owned(),
        None => format!("say where it comes from, under `gateway`: `attributes: {{ {name}: \"header['x-{name}']\" }}`"),
    };
    context.report(
        Finding::warning(span, format!("no request has `{name}` here"))
            .label("the gateway does not provide it")
            .help(help),
    );
}

/// The attributes a rule asks for, and where.
pub(super) fn asked_by<'r>(rule: &'r Rule, places: &Places) -> Vec<(&'r Attribute, Span)> {
    let mut asked: Vec<_> = rule.key.iter().map(|part| (&part.attribute, places.key)).collect();
    let mut attributes = Vec::new();
    if let Some(when) = &rule.when {
        gather(when, &mut attributes);
    }
    asked.extend(attributes.into_iter().map(|attribute| (attribute, places.when)));
    if let Cost::Attribute(attribute) = &rule.cost {
        asked.push((attribute, places.cost));
    }
    asked
}

/// The attributes a condition asks for.
fn gather<'e>(expr: &'e Expr, into: &mut Vec<&'e Attribute>) {
    match expr {
        Expr::All(parts) | Expr::Any(parts) => parts.iter().for_each(|part| gather(part, into)),
        Expr::Not(inner) => gather(inner, into),
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

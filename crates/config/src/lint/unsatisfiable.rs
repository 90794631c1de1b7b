//! Lint for unsatisfiable conditions, as far as a cheap check finds them.
//!
//! Compares pairs of conditions that must hold together and use the same attribute. Every report is certain;
//! many unsatisfiable conditions are not detected.

use sluicegate_engine::rule::expr::Relation;
use sluicegate_engine::rule::{Attribute, Expr, Target};

/// Maximum number of conditions that are compared pairwise.
const MAX_COMPARED: usize = 64;

/// Returns the reason if the condition cannot hold for any request of the target.
pub(super) fn find(when: &Expr, target: &Target) -> Option<String> {
    let mut conjuncts = Vec::new();
    collect_conjuncts(when, &mut conjuncts);
    conjuncts.truncate(MAX_COMPARED);
    let excludes_method = |expr: &&Expr| match expr {
        Expr::OneOf(Attribute::Method, texts) => {
            !target.methods.is_empty() && texts.iter().all(|text| !target.methods.contains(text))
        }
        _ => false,
    };
    if conjuncts.iter().any(excludes_method) {
        return Some(format!("`match` selects only {}", target.methods.join("|")));
    }
    conjuncts.iter().enumerate().find_map(|(index, one)| {
        contradiction_in(one).or_else(|| {
            conjuncts[..index]
                .iter()
                .find_map(|other| contradiction_between(other, one).or_else(|| contradiction_between(one, other)))
        })
    })
}

/// Collects the conditions that must all hold.
fn collect_conjuncts<'e>(expr: &'e Expr, into: &mut Vec<&'e Expr>) {
    match expr {
        Expr::All(all) => all.iter().for_each(|expr| collect_conjuncts(expr, into)),
        other => into.push(other),
    }
}

/// Finds a condition that cannot hold by itself.
fn contradiction_in(expr: &Expr) -> Option<String> {
    let never = match expr {
        Expr::Any(any) => any.is_empty(),
        Expr::OneOf(_, texts) => texts.is_empty(),
        Expr::Not(inner) => matches!(&**inner, Expr::All(all) if all.is_empty()),
        _ => false,
    };
    never.then(|| "never true".to_owned())
}

/// Finds two conditions that cannot hold together.
fn contradiction_between(one: &Expr, other: &Expr) -> Option<String> {
    let (attribute, never) = match (one, other) {
        (Expr::OneOf(a, these), Expr::OneOf(b, those)) if a == b => (a, these.iter().all(|it| !those.contains(it))),
        (Expr::OneOf(a, these), Expr::StartsWith(b, start)) if a == b => {
            (a, these.iter().all(|it| !it.starts_with(start)))
        }
        (Expr::OneOf(a, these), Expr::EndsWith(b, end)) if a == b => (a, these.iter().all(|it| !it.ends_with(end))),
        (Expr::OneOf(a, these), Expr::Contains(b, part)) if a == b => (a, these.iter().all(|it| !it.contains(part))),
        (Expr::StartsWith(a, one), Expr::StartsWith(b, other)) if a == b => {
            (a, !one.starts_with(other) && !other.starts_with(one))
        }
        (Expr::InNetwork(a, these), Expr::InNetwork(b, those)) if a == b => {
            let overlaps = |one: &ipnet::IpNet, other: &ipnet::IpNet| one.contains(other) || other.contains(one);
            (a, !these.iter().any(|one| those.iter().any(|other| overlaps(one, other))))
        }
        (
            Expr::Number(a, Relation::Greater | Relation::AtLeast, min),
            Expr::Number(b, Relation::Less | Relation::AtMost, max),
        ) if a == b => (a, min > max),
        (expr, Expr::Not(not)) => match (expr, &**not) {
            (Expr::OneOf(a, these), Expr::OneOf(b, those)) if a == b => (a, these.iter().all(|it| those.contains(it))),
            (Expr::OneOf(a, _) | Expr::Has(a) | Expr::StartsWith(a, _) | Expr::Number(a, ..), Expr::Has(b))
                if a == b =>
            {
                (a, true)
            }
            (Expr::InNetwork(a, these), Expr::InNetwork(b, those)) if a == b => {
                (a, these.iter().all(|one| those.iter().any(|other| other.contains(one))))
            }
            _ => return None,
        },
        _ => return None,
    };
    never.then(|| format!("contradictory conditions on {attribute}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contradicts(when: &str, target: &str) -> bool {
        find(&Expr::parse(when).unwrap(), &Target::parse(target).unwrap()).is_some()
    }

    #[test]
    fn contradictions_are_found() {
        for when in [
            "false",
            "account == 'a' && account == 'b'",
            "account == 'a' && account != 'a'",
            "has(account) && !has(account)",
            "query['page'] > 10 && query['page'] < 5",
            "client.ip in 10.0.0.0/8 && client.ip in 192.168.0.0/16",
            "client.ip in 10.1.0.0/16 && !(client.ip in 10.0.0.0/8)",
            "path.startsWith('/a') && path.startsWith('/b')",
        ] {
            assert!(contradicts(when, "*"), "{when}");
        }
        assert!(contradicts("method == 'GET'", "POST /x"));
    }

    #[test]
    fn satisfiable_conditions_are_accepted() {
        for when in [
            "true",
            "account == 'a' || account == 'b'",
            "account in ['a', 'b'] && account != 'a'",
            "query['page'] >= 5 && query['page'] <= 5",
            "client.ip in 10.0.0.0/8 && !(client.ip in 10.1.0.0/16)",
            "account != 'a' && account != 'b'",
        ] {
            assert!(!contradicts(when, "GET|POST /x"), "{when}");
        }
        assert!(!contradicts("method == 'GET'", "GET|POST /x"));
    }
}

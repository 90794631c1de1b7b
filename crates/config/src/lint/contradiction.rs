//! Conditions that cannot hold, as far as it can be seen cheaply.
//!
//! Only conditions that must hold together are compared, two at a time, and only where they speak of
//! the same attribute. What is reported is certain; much that cannot hold is not seen.

use sluicegate_engine::rule::expr::Relation;
use sluicegate_engine::rule::{Attribute, Expr, Target};

/// The most conditions that are compared with each other.
const MOST_COMPARED: usize = 64;

/// Why the condition cannot hold for any request of the target, if that can be seen.
pub(super) fn find(when: &Expr, target: &Target) -> Option<String> {
    let mut needed = Vec::new();
    gather(when, &mut needed);
    needed.truncate(MOST_COMPARED);
    let method = |expr: &&Expr| match expr {
        Expr::OneOf(Attribute::Method, texts) => {
            !target.methods.is_empty() && texts.iter().all(|text| !target.methods.contains(text))
        }
        _ => false,
    };
    if needed.iter().any(method) {
        return Some(format!("`match` is for {} only", target.methods.join("|")));
    }
    needed.iter().enumerate().find_map(|(index, one)| {
        alone(one)
            .or_else(|| needed[..index].iter().find_map(|other| together(other, one).or_else(|| together(one, other))))
    })
}

/// The conditions that must all hold.
fn gather<'e>(expr: &'e Expr, into: &mut Vec<&'e Expr>) {
    match expr {
        Expr::All(all) => all.iter().for_each(|expr| gather(expr, into)),
        other => into.push(other),
    }
}

/// A condition that cannot hold by itself.
fn alone(expr: &Expr) -> Option<String> {
    let never = match expr {
        Expr::Any(any) => any.is_empty(),
        Expr::OneOf(_, texts) => texts.is_empty(),
        Expr::Not(inner) => matches!(&**inner, Expr::All(all) if all.is_empty()),
        _ => false,
    };
    never.then(|| "never true".to_owned())
}

/// Two conditions that cannot hold together.
fn together(one: &Expr, other: &Expr) -> Option<String> {
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
            let meet = |one: &ipnet::IpNet, other: &ipnet::IpNet| one.contains(other) || other.contains(one);
            (a, !these.iter().any(|one| those.iter().any(|other| meet(one, other))))
        }
        (
            Expr::Number(a, Relation::Greater | Relation::AtLeast, least),
            Expr::Number(b, Relation::Less | Relation::AtMost, most),
        ) if a == b => (a, least > most),
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
    never.then(|| format!("contradicts itself about {attribute}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contradicts(when: &str, target: &str) -> bool {
        find(&Expr::parse(when).unwrap(), &Target::parse(target).unwrap()).is_some()
    }

    #[test]
    fn contradictions_are_seen() {
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
    fn what_can_hold_is_left_alone() {
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

//! Conditions for nested sets, in which the innermost decides: `geo` networks, locations, host names.

use super::condition::{Condition, all, any, not};

/// Condition for requests whose innermost set has the value true; `default` applies outside all sets.
///
/// Any two sets are nested or disjoint.
pub(super) fn innermost<T>(
    default: bool,
    sets: &[(T, bool)],
    within: impl Fn(&T, &T) -> bool + Copy,
    condition: impl Fn(&T) -> Condition + Copy,
) -> Condition {
    let sets: Vec<&(T, bool)> = sets.iter().collect();
    let differs = outside_value(default, &sets, within, condition);
    if default { not(differs) } else { differs }
}

/// Condition for requests whose innermost set does not have `value`.
fn outside_value<T>(
    value: bool,
    sets: &[&(T, bool)],
    within: impl Fn(&T, &T) -> bool + Copy,
    condition: impl Fn(&T) -> Condition + Copy,
) -> Condition {
    let outermost = sets
        .iter()
        .enumerate()
        .filter(|(at, set)| !sets.iter().enumerate().any(|(other, outer)| other != *at && within(&set.0, &outer.0)));
    any(outermost.map(|(at, set)| {
        let inner: Vec<&(T, bool)> = sets
            .iter()
            .enumerate()
            .filter(|(other, inner)| *other != at && within(&inner.0, &set.0))
            .map(|(_, inner)| *inner)
            .collect();
        if set.1 == value {
            outside_value(value, &inner, within, condition)
        } else {
            all([condition(&set.0), not(outside_value(!value, &inner, within, condition))])
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_set_wins() {
        let of = |default, sets: &[(&str, bool)]| {
            let within = |a: &&str, b: &&str| a != b && a.starts_with(b);
            innermost(default, sets, within, |set| Condition::Path((*set).to_owned())).to_string()
        };
        assert_eq!(of(true, &[]), "true");
        assert_eq!(of(false, &[("a", true)]), "path == 'a'");
        assert_eq!(of(true, &[("a", false), ("b", false)]), "!(path in ['a', 'b'])");
        assert_eq!(of(false, &[("ab", true), ("a", true)]), "path == 'a'");
        let deep = "path == 'a' && !(path == 'ab' && path != 'abc')";
        assert_eq!(of(false, &[("a", true), ("ab", false), ("abc", true)]), deep);
        assert_eq!(of(false, &[("a", false), ("ab", true)]), "path == 'ab'");
    }
}

//! What the admin API says, read leniently.
//!
//! A later server may say more and an earlier one less: what is missing or of another kind counts as not
//! said. Nothing here fails, and nothing grows beyond its bound, whatever comes.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;

use super::text::Text;

/// The most rules, keys or bans that are taken.
const MOST: usize = 10_000;
/// The most keys that are taken of one rule.
const MOST_KEYS: usize = 100;

/// The figures of one second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tick {
    /// When, in milliseconds of the server's clock.
    pub(super) at_ms: u64,
    pub(super) rules: Vec<RuleFigures>,
    pub(super) bans: u64,
    pub(super) edition: u64,
    pub(super) last_error: Option<Text>,
    pub(super) store: Option<Text>,
    pub(super) nodes: Option<u64>,
    pub(super) connections: Option<u64>,
    pub(super) in_flight: Option<u64>,
}

/// What one rule has counted so far, and how it stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RuleFigures {
    pub(super) name: Text,
    pub(super) admitted: u64,
    pub(super) refused: u64,
    pub(super) banned: u64,
    pub(super) degraded: u64,
    pub(super) waiting: u64,
    /// Between 0 and 1, if it is known.
    pub(super) used: Option<f64>,
    /// How it protects the process, if it does.
    pub(super) protection: Option<Protection>,
}

/// What a rule that protects the process does now.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Protection {
    pub(super) state: Text,
    /// What holds: so many at once, a rate, or nothing.
    pub(super) ceiling: Text,
    pub(super) reason: Text,
}

/// The process as a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Status {
    pub(super) version: Text,
    pub(super) uptime: Duration,
    pub(super) may_write: bool,
    pub(super) rules: u64,
    pub(super) origin: Text,
    pub(super) path: Option<Text>,
    pub(super) rules_version: u64,
    pub(super) last_error: Option<Text>,
    pub(super) pending_restart: Vec<Text>,
}

/// The keys of one rule that ask most.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TopKeys {
    pub(super) rule: Text,
    pub(super) over: Duration,
    pub(super) keys: Vec<TopKey>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TopKey {
    pub(super) key: Text,
    /// A lower bound; absent if it is not among those counted.
    pub(super) asked: Option<u64>,
    pub(super) refused: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ban {
    pub(super) rule: Text,
    pub(super) key: Text,
    pub(super) remaining: Duration,
}

/// The store that the fleet shares.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Store {
    pub(super) url: Text,
    pub(super) state: Text,
    pub(super) nodes: Option<u64>,
    /// Names and counts, as they are told.
    pub(super) figures: Vec<(&'static str, u64)>,
    pub(super) failures: Vec<(Text, u64)>,
    pub(super) warnings: Vec<Text>,
    pub(super) last_error: Option<Text>,
}

impl Tick {
    pub(super) fn read(said: &Value) -> Self {
        let gateway = &said["gateway"];
        let mut rules: Vec<RuleFigures> = all(&said["rules"]).map(RuleFigures::read).collect();
        let mut protections = Protection::read(&said["adaptive"]);
        rules.iter_mut().for_each(|rule| rule.protection = protections.remove(&rule.name));
        Self {
            at_ms: count(&said["at_ms"]),
            rules,
            bans: count(&said["bans"]),
            edition: count(&said["edition"]),
            last_error: message(&said["last_error"]),
            store: text(&said["store"]),
            nodes: said["nodes"].as_u64(),
            connections: gateway["connections"].as_u64(),
            in_flight: gateway["in_flight"].as_u64(),
        }
    }
}

impl RuleFigures {
    fn read(said: &Value) -> Self {
        Self {
            name: text(&said["name"]).unwrap_or_default(),
            admitted: count(&said["admitted"]),
            refused: count(&said["refused"]),
            banned: count(&said["banned"]),
            degraded: count(&said["degraded"]),
            waiting: count(&said["waiting"]),
            used: said["used"].as_f64().filter(|used| used.is_finite()).map(|used| used.clamp(0.0, 1.0)),
            protection: None,
        }
    }
}

impl Protection {
    /// Those of all rules that have one, by name.
    fn read(said: &Value) -> HashMap<Text, Self> {
        let read = |said: &Value| {
            let [state, ceiling, reason] =
                ["state", "ceiling", "reason"].map(|name| text(&said[name]).unwrap_or_default());
            Some((text(&said["name"])?, Self { state, ceiling, reason }))
        };
        all(said).filter_map(read).collect()
    }
}

impl Status {
    pub(super) fn read(said: &Value) -> Self {
        let rules = &said["rules"];
        Self {
            version: text(&said["version"]).unwrap_or_default(),
            uptime: seconds(&said["uptime_s"]),
            may_write: said["access"].as_str() == Some("write"),
            rules: count(&rules["count"]),
            origin: text(&rules["origin"]).unwrap_or_default(),
            path: text(&rules["path"]),
            rules_version: count(&rules["version"]),
            last_error: message(&rules["last_error"]),
            pending_restart: all(&rules["pending_restart"]).filter_map(text).collect(),
        }
    }
}

impl TopKeys {
    /// Those of all rules.
    pub(super) fn read(said: &Value) -> Vec<Self> {
        all(&said["rules"]).map(Self::read_one).collect()
    }

    fn read_one(said: &Value) -> Self {
        let mut keys: Vec<TopKey> = Vec::new();
        for entry in all(&said["asked"]["keys"]).take(MOST_KEYS) {
            let key = text(&entry["key"]).unwrap_or_default();
            keys.push(TopKey { key, asked: Some(count(&entry["count"])), refused: None });
        }
        for entry in all(&said["refused"]["keys"]).take(MOST_KEYS) {
            let (key, refused) = (text(&entry["key"]).unwrap_or_default(), Some(count(&entry["count"])));
            match keys.iter_mut().find(|known| known.key == key) {
                Some(known) => known.refused = refused,
                None => keys.push(TopKey { key, asked: None, refused }),
            }
        }
        Self { rule: text(&said["rule"]).unwrap_or_default(), over: seconds(&said["over_s"]), keys }
    }
}

impl Ban {
    pub(super) fn read(said: &Value) -> Vec<Self> {
        let ban = |said: &Value| Self {
            rule: text(&said["rule"]).unwrap_or_default(),
            key: text(&said["key"]).unwrap_or_default(),
            remaining: seconds(&said["remaining_s"]),
        };
        all(&said["bans"]).map(ban).collect()
    }
}

impl Store {
    /// `None`: there is none.
    pub(super) fn read(said: &Value) -> Option<Self> {
        if !said.is_object() {
            return None;
        }
        let names = ["asks", "calls", "timeouts", "breaker_openings", "reconnects"];
        let leases = [("leases", &said["leases"]["keys"]), ("leased_tokens", &said["leases"]["tokens"])];
        let figures = names.into_iter().map(|name| (name, &said[name])).chain(leases);
        let failures = said["failures"].as_object().into_iter().flatten().take(MOST);
        Some(Self {
            url: text(&said["url"]).unwrap_or_default(),
            state: text(&said["state"]).unwrap_or_default(),
            nodes: said["nodes"].as_u64(),
            figures: figures.filter_map(|(name, many)| Some((name, many.as_u64()?))).collect(),
            failures: failures.map(|(kind, many)| (Text::from(kind.as_str()), count(many))).collect(),
            warnings: all(&said["warnings"]).filter_map(text).collect(),
            last_error: message(&said["last_error"]),
        })
    }
}

/// What a problem says of itself.
pub(super) fn problem(said: &Value) -> Option<Text> {
    text(&said["detail"]).or_else(|| text(&said["title"]))
}

fn all(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten().take(MOST)
}

/// A whole number; also one that is written with a fraction.
fn count(value: &Value) -> u64 {
    // A number that does not fit becomes the nearest that does.
    value.as_u64().or_else(|| value.as_f64().map(|number| number as u64)).unwrap_or(0)
}

fn seconds(value: &Value) -> Duration {
    value.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or_default()
}

fn text(value: &Value) -> Option<Text> {
    value.as_str().map(Text::from)
}

/// A text, or what stands with its time.
fn message(value: &Value) -> Option<Text> {
    text(value).or_else(|| text(&value["message"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_makes_no_sense_counts_as_not_said() {
        let nonsense = [
            json!(null),
            json!(7),
            json!([]),
            json!("text"),
            json!({"rules": 7, "bans": "many", "at_ms": -1, "nodes": {}, "gateway": []}),
            json!({"rules": [null, 7, [], {"name": 7, "admitted": -1, "used": "half"}], "bans": [null, {"remaining_s": -1}]}),
            json!({"adaptive": [7, null, {"name": [], "state": 7}, {"state": "limited"}], "rules": [{"name": "x"}]}),
            json!({"rules": [{"rule": [], "asked": 7, "refused": {"keys": {}}}], "failures": [], "warnings": "x"}),
        ];
        for said in &nonsense {
            let tick = Tick::read(said);
            assert!(
                tick.rules.iter().all(|rule| rule.admitted == 0 && rule.used.is_none() && rule.protection.is_none())
            );
            let _ = (Status::read(said), TopKeys::read(said), Ban::read(said), Store::read(said), problem(said));
        }
        let odd = json!({"rules": [{"name": "a", "admitted": 1e300, "refused": 2.0, "used": 17.5}]});
        let rule = &Tick::read(&odd).rules[0];
        assert_eq!((rule.admitted, rule.refused, rule.used), (u64::MAX, 2, Some(1.0)));
        assert_eq!(Store::read(&json!(null)), None);
    }

    #[test]
    fn what_is_leased_is_among_the_store_s_figures() {
        let said = json!({"asks": 7, "leases": {"keys": 3, "tokens": 41, "taken": 9}});
        let figures = Store::read(&said).map(|store| store.figures);
        assert_eq!(figures, Some(vec![("asks", 7), ("leases", 3), ("leased_tokens", 41)]));
    }

    #[test]
    fn keys_that_ask_and_are_refused_are_one_row() {
        let said = json!({"rules": [{"rule": "per-ip", "over_s": 83.2,
            "asked": {"total": 9, "error": 0, "keys": [{"key": "a", "count": 6}, {"key": "b", "count": 3}]},
            "refused": {"total": 5, "error": 0, "keys": [{"key": "b", "count": 3}, {"key": "c", "count": 2}]}}]});
        let keys: Vec<_> = TopKeys::read(&said).remove(0).keys;
        let rows: Vec<_> = keys.iter().map(|key| (key.key.raw(), key.asked, key.refused)).collect();
        assert_eq!(rows, [("a", Some(6), None), ("b", Some(3), Some(3)), ("c", None, Some(2))]);
    }

    #[test]
    fn a_rule_that_protects_the_process_says_what_holds() {
        let said = json!({"rules": [{"name": "guard"}, {"name": "per-ip"}],
            "adaptive": [{"name": "guard", "state": "steady", "ceiling": "18 at once", "reason": "places 18"}]});
        let rules = Tick::read(&said).rules;
        let holds = rules[0].protection.as_ref().map(|it| (it.state.raw(), it.ceiling.raw(), it.reason.raw()));
        assert_eq!(holds, Some(("steady", "18 at once", "places 18")));
        assert_eq!(rules[1].protection, None);
    }

    #[test]
    fn lists_are_bounded() {
        let said = json!({"rules": vec![json!({"name": "x"}); MOST + 1]});
        assert_eq!(Tick::read(&said).rules.len(), MOST);
    }
}

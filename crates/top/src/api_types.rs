//! Types of the admin API, parsed leniently.
//!
//! A newer server may send more and an older one less: a missing or invalid value counts as absent. Parsing never
//! fails, and all sizes are bounded.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;

use super::sanitize::UntrustedText;

/// Maximum number of rules, keys or bans.
const MAX_LIST_ITEMS: usize = 10_000;
/// Maximum number of keys per rule.
const MAX_KEYS_PER_RULE: usize = 100;

/// Statistics of one second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tick {
    /// Server time in milliseconds.
    pub(super) at_ms: u64,
    pub(super) rules: Vec<RuleStats>,
    pub(super) bans: u64,
    pub(super) generation: u64,
    pub(super) last_error: Option<UntrustedText>,
    pub(super) store: Option<UntrustedText>,
    pub(super) nodes: Option<u64>,
    pub(super) connections: Option<u64>,
    pub(super) in_flight: Option<u64>,
}

/// Counters and status of a rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RuleStats {
    pub(super) name: UntrustedText,
    pub(super) admitted: u64,
    pub(super) refused: u64,
    pub(super) banned: u64,
    pub(super) degraded: u64,
    pub(super) waiting: u64,
    /// Used fraction of the limit, if known.
    pub(super) used: Option<f64>,
    /// State of an adaptive rule.
    pub(super) protection: Option<Protection>,
}

/// Current state of an adaptive rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Protection {
    pub(super) state: UntrustedText,
    /// Active ceiling: a concurrency, a rate, or none.
    pub(super) ceiling: UntrustedText,
    pub(super) reason: UntrustedText,
}

/// Status of the process.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ProcessStatus {
    pub(super) version: UntrustedText,
    pub(super) uptime: Duration,
    pub(super) may_write: bool,
    pub(super) rules: u64,
    pub(super) origin: UntrustedText,
    pub(super) path: Option<UntrustedText>,
    pub(super) rules_version: u64,
    pub(super) last_error: Option<UntrustedText>,
    pub(super) pending_restart: Vec<UntrustedText>,
}

/// Top keys of one rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TopKeys {
    pub(super) rule: UntrustedText,
    pub(super) over: Duration,
    pub(super) keys: Vec<TopKey>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TopKey {
    pub(super) key: UntrustedText,
    /// Lower bound of the checks; absent if the key is not among the counted ones.
    pub(super) checked: Option<u64>,
    pub(super) refused: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ban {
    pub(super) rule: UntrustedText,
    pub(super) key: UntrustedText,
    pub(super) remaining: Duration,
}

/// Status of the cluster store.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct StoreStatus {
    pub(super) url: UntrustedText,
    pub(super) state: UntrustedText,
    pub(super) nodes: Option<u64>,
    /// Counters with their display names.
    pub(super) figures: Vec<(&'static str, u64)>,
    pub(super) failures: Vec<(UntrustedText, u64)>,
    pub(super) warnings: Vec<UntrustedText>,
    pub(super) last_error: Option<UntrustedText>,
}

impl Tick {
    pub(super) fn from_json(json: &Value) -> Self {
        let gateway = &json["gateway"];
        let mut rules: Vec<RuleStats> = items(&json["rules"]).map(RuleStats::from_json).collect();
        let mut protections = Protection::from_json(&json["adaptive"]);
        rules.iter_mut().for_each(|rule| rule.protection = protections.remove(&rule.name));
        Self {
            at_ms: count(&json["at_ms"]),
            rules,
            bans: count(&json["bans"]),
            generation: count(&json["generation"]),
            last_error: message(&json["last_error"]),
            store: text(&json["store"]),
            nodes: json["nodes"].as_u64(),
            connections: gateway["connections"].as_u64(),
            in_flight: gateway["in_flight"].as_u64(),
        }
    }
}

impl RuleStats {
    fn from_json(json: &Value) -> Self {
        Self {
            name: text(&json["name"]).unwrap_or_default(),
            admitted: count(&json["admitted"]),
            refused: count(&json["refused"]),
            banned: count(&json["banned"]),
            degraded: count(&json["degraded"]),
            waiting: count(&json["waiting"]),
            used: json["used"].as_f64().filter(|used| used.is_finite()).map(|used| used.clamp(0.0, 1.0)),
            protection: None,
        }
    }
}

impl Protection {
    /// Parses the adaptive rules by name.
    fn from_json(json: &Value) -> HashMap<UntrustedText, Self> {
        let read = |json: &Value| {
            let [state, ceiling, reason] =
                ["state", "ceiling", "reason"].map(|name| text(&json[name]).unwrap_or_default());
            Some((text(&json["name"])?, Self { state, ceiling, reason }))
        };
        items(json).filter_map(read).collect()
    }
}

impl ProcessStatus {
    pub(super) fn from_json(json: &Value) -> Self {
        let rules = &json["rules"];
        Self {
            version: text(&json["version"]).unwrap_or_default(),
            uptime: seconds(&json["uptime_s"]),
            may_write: json["access"].as_str() == Some("write"),
            rules: count(&rules["count"]),
            origin: text(&rules["origin"]).unwrap_or_default(),
            path: text(&rules["path"]),
            rules_version: count(&rules["version"]),
            last_error: message(&rules["last_error"]),
            pending_restart: items(&rules["pending_restart"]).filter_map(text).collect(),
        }
    }
}

impl TopKeys {
    /// Parses the top keys of all rules.
    pub(super) fn from_json(json: &Value) -> Vec<Self> {
        items(&json["rules"]).map(Self::from_json_rule).collect()
    }

    fn from_json_rule(json: &Value) -> Self {
        let mut keys: Vec<TopKey> = Vec::new();
        for entry in items(&json["checked"]["keys"]).take(MAX_KEYS_PER_RULE) {
            let key = text(&entry["key"]).unwrap_or_default();
            keys.push(TopKey { key, checked: Some(count(&entry["count"])), refused: None });
        }
        for entry in items(&json["refused"]["keys"]).take(MAX_KEYS_PER_RULE) {
            let (key, refused) = (text(&entry["key"]).unwrap_or_default(), Some(count(&entry["count"])));
            match keys.iter_mut().find(|known| known.key == key) {
                Some(known) => known.refused = refused,
                None => keys.push(TopKey { key, checked: None, refused }),
            }
        }
        Self { rule: text(&json["rule"]).unwrap_or_default(), over: seconds(&json["over_s"]), keys }
    }
}

impl Ban {
    pub(super) fn from_json(json: &Value) -> Vec<Self> {
        let ban = |json: &Value| Self {
            rule: text(&json["rule"]).unwrap_or_default(),
            key: text(&json["key"]).unwrap_or_default(),
            remaining: seconds(&json["remaining_s"]),
        };
        items(&json["bans"]).map(ban).collect()
    }
}

impl StoreStatus {
    /// Parses the store status; `None` if there is no store.
    pub(super) fn from_json(json: &Value) -> Option<Self> {
        if !json.is_object() {
            return None;
        }
        let names = ["decisions", "calls", "timeouts", "breaker_openings", "reconnects"];
        let leases = [("leases", &json["leases"]["keys"]), ("leased_tokens", &json["leases"]["tokens"])];
        let figures = names.into_iter().map(|name| (name, &json[name])).chain(leases);
        let failures = json["failures"].as_object().into_iter().flatten().take(MAX_LIST_ITEMS);
        Some(Self {
            url: text(&json["url"]).unwrap_or_default(),
            state: text(&json["state"]).unwrap_or_default(),
            nodes: json["nodes"].as_u64(),
            figures: figures.filter_map(|(name, number)| Some((name, number.as_u64()?))).collect(),
            failures: failures.map(|(kind, number)| (UntrustedText::from(kind.as_str()), count(number))).collect(),
            warnings: items(&json["warnings"]).filter_map(text).collect(),
            last_error: message(&json["last_error"]),
        })
    }
}

/// Detail of a problem document.
pub(super) fn problem_detail(json: &Value) -> Option<UntrustedText> {
    text(&json["detail"]).or_else(|| text(&json["title"]))
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten().take(MAX_LIST_ITEMS)
}

/// An integer; also accepts a number with a fraction.
fn count(value: &Value) -> u64 {
    // A number out of range saturates.
    value.as_u64().or_else(|| value.as_f64().map(|number| number as u64)).unwrap_or(0)
}

fn seconds(value: &Value) -> Duration {
    value.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or_default()
}

fn text(value: &Value) -> Option<UntrustedText> {
    value.as_str().map(UntrustedText::from)
}

/// A text, or the text of an object with a timestamp.
fn message(value: &Value) -> Option<UntrustedText> {
    text(value).or_else(|| text(&value["message"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_values_count_as_missing() {
        let nonsense = [
            json!(null),
            json!(7),
            json!([]),
            json!("text"),
            json!({"rules": 7, "bans": "many", "at_ms": -1, "nodes": {}, "gateway": []}),
            json!({"rules": [null, 7, [], {"name": 7, "admitted": -1, "used": "half"}], "bans": [null, {"remaining_s": -1}]}),
            json!({"adaptive": [7, null, {"name": [], "state": 7}, {"state": "limited"}], "rules": [{"name": "x"}]}),
            json!({"rules": [{"rule": [], "checked": 7, "refused": {"keys": {}}}], "failures": [], "warnings": "x"}),
        ];
        for json in &nonsense {
            let tick = Tick::from_json(json);
            assert!(
                tick.rules.iter().all(|rule| rule.admitted == 0 && rule.used.is_none() && rule.protection.is_none())
            );
            let _ = (
                ProcessStatus::from_json(json),
                TopKeys::from_json(json),
                Ban::from_json(json),
                StoreStatus::from_json(json),
                problem_detail(json),
            );
        }
        let odd = json!({"rules": [{"name": "a", "admitted": 1e300, "refused": 2.0, "used": 17.5}]});
        let rule = &Tick::from_json(&odd).rules[0];
        assert_eq!((rule.admitted, rule.refused, rule.used), (u64::MAX, 2, Some(1.0)));
        assert_eq!(StoreStatus::from_json(&json!(null)), None);
    }

    #[test]
    fn leases_are_in_the_store_figures() {
        let json = json!({"decisions": 7, "leases": {"keys": 3, "tokens": 41, "acquired": 9}});
        let figures = StoreStatus::from_json(&json).map(|store| store.figures);
        assert_eq!(figures, Some(vec![("decisions", 7), ("leases", 3), ("leased_tokens", 41)]));
    }

    #[test]
    fn checked_and_refused_keys_share_a_row() {
        let json = json!({"rules": [{"rule": "per-ip", "over_s": 83.2,
            "checked": {"total": 9, "error": 0, "keys": [{"key": "a", "count": 6}, {"key": "b", "count": 3}]},
            "refused": {"total": 5, "error": 0, "keys": [{"key": "b", "count": 3}, {"key": "c", "count": 2}]}}]});
        let keys: Vec<_> = TopKeys::from_json(&json).remove(0).keys;
        let rows: Vec<_> = keys.iter().map(|key| (key.key.raw(), key.checked, key.refused)).collect();
        assert_eq!(rows, [("a", Some(6), None), ("b", Some(3), Some(3)), ("c", None, Some(2))]);
    }

    #[test]
    fn adaptive_rules_report_their_ceiling() {
        let json = json!({"rules": [{"name": "guard"}, {"name": "per-ip"}],
            "adaptive": [{"name": "guard", "state": "steady", "ceiling": "18 in flight", "reason": "concurrency limit 18"}]});
        let rules = Tick::from_json(&json).rules;
        let protection = rules[0].protection.as_ref().map(|it| (it.state.raw(), it.ceiling.raw(), it.reason.raw()));
        assert_eq!(protection, Some(("steady", "18 in flight", "concurrency limit 18")));
        assert_eq!(rules[1].protection, None);
    }

    #[test]
    fn lists_are_bounded() {
        let json = json!({"rules": vec![json!({"name": "x"}); MAX_LIST_ITEMS + 1]});
        assert_eq!(Tick::from_json(&json).rules.len(), MAX_LIST_ITEMS);
    }
}

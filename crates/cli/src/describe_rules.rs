//! Text descriptions of rules.

use std::fmt::Write;
use std::time::Duration;

use sluicegate_engine::algorithm::LimitUnit;
use sluicegate_engine::limit::parse::{HumanBytes, HumanDuration};
use sluicegate_engine::rule::{
    Attribute, ClusterMode, Cost, CostSource, Direction, KeyPart, Mode, OnStoreFailure, Reply, Rule, Scope,
};
use sluicegate_engine::sluice::KeyCapacity;

/// Requests that the rule matches.
pub(crate) fn requests(rule: &Rule) -> String {
    let mut text = match (rule.direction, rule.target.to_string()) {
        (Direction::Inbound, target) if target == "*" => "all requests".to_owned(),
        (Direction::Inbound, target) => target,
        (Direction::Outbound, target) if target == "*" => "all outbound calls".to_owned(),
        (Direction::Outbound, target) => format!("outbound: {target}"),
        (Direction::Descriptor, target) if target == "*" => "all descriptors".to_owned(),
        (Direction::Descriptor, target) => format!("descriptors: {target}"),
    };
    if let Some(when) = &rule.when {
        let _ = write!(text, "\nwhen {when}");
    }
    text
}

/// Key of the rule; a dash if all requests share one count.
pub(crate) fn key(rule: &Rule) -> String {
    if rule.key.is_empty() {
        return "-".to_owned();
    }
    rule.key.iter().map(key_part).collect::<Vec<_>>().join("\n")
}

fn key_part(part: &KeyPart) -> String {
    let default = KeyPart::from(part.attribute.clone());
    let mut text = part.attribute.to_string();
    if part.attribute == Attribute::ClientIp {
        if part.ipv4_prefix != default.ipv4_prefix {
            let _ = write!(text, " IPv4/{}", part.ipv4_prefix);
        }
        let _ = write!(text, " (IPv6/{})", part.ipv6_prefix);
    }
    text
}

/// Limits, one per line.
pub(crate) fn limits(rule: &Rule) -> String {
    let mut lines: Vec<String> = rule.limits.iter().map(ToString::to_string).collect();
    if let Some(ban) = rule.ban {
        lines.push(format!(
            "ban for {} after {} refusals in {}",
            HumanDuration(ban.duration),
            ban.after,
            HumanDuration(ban.within)
        ));
    }
    lines.join("\n")
}

/// True if the rule only paces responses and refuses nothing.
pub(crate) fn is_bandwidth_only(rule: &Rule) -> bool {
    !rule.limits.is_empty() && rule.limits.iter().all(|limit| limit.unit() == LimitUnit::Bytes)
}

/// Cost of one request.
pub(crate) fn cost(rule: &Rule) -> String {
    match &rule.cost {
        _ if is_bandwidth_only(rule) => "bytes".to_owned(),
        Cost::Fixed(cost) => cost.to_string(),
        Cost::Attribute(attribute) => attribute.to_string(),
        Cost::Estimate { reserve, actual } => format!("{reserve}\n{}", actual_cost(actual)),
    }
}

/// Source of the actual cost that replaces the estimate.
fn actual_cost(actual: &CostSource) -> String {
    match actual {
        CostSource::Reported => "actual: reported".to_owned(),
        CostSource::RequestBytes => "actual: request.bytes".to_owned(),
        CostSource::ResponseBytes => "actual: response.bytes".to_owned(),
        CostSource::ResponseHeader(name) => format!("actual: response.header['{name}']"),
        CostSource::ResponseJson(fields) => format!("actual: response.json['{}']", fields.join(".")),
    }
}

/// Action for a request over the limit.
pub(crate) fn on_limit(rule: &Rule) -> String {
    if is_bandwidth_only(rule) {
        return "paced".to_owned();
    }
    let reply = match &rule.on_limit.reply {
        None if rule.limits.is_empty() && rule.adaptive.is_some() => "503".to_owned(),
        None => "429".to_owned(),
        Some(Reply::Refuse { status, .. }) => status.to_string(),
        Some(Reply::Degrade { status, .. }) => format!("degrade: {status}"),
        Some(Reply::Redirect { status, location }) => format!("{status} to {location}"),
    };
    match rule.on_limit.queue {
        Some(queue) => {
            format!("queue up to {} (max {})\nthen {reply}", HumanDuration(queue.max_wait), queue.max_waiting)
        }
        None => reply,
    }
}

/// Mode of the rule: `enforce` or `shadow`.
pub(crate) const fn mode(rule: &Rule) -> &'static str {
    match rule.mode {
        Mode::Enforce => "enforce",
        Mode::Shadow => "shadow",
    }
}

/// Scope of the rule's count.
pub(crate) fn scope(scope: Scope) -> String {
    let Scope::Cluster { mode, on_store_failure } = scope else { return "local".to_owned() };
    let mode = match mode {
        ClusterMode::Exact => "exact",
        ClusterMode::Lease => "lease",
    };
    let failing = match on_store_failure {
        OnStoreFailure::Open => "open",
        OnStoreFailure::Closed => "closed",
        OnStoreFailure::LocalShare => "local_share",
    };
    format!("cluster\n{mode}\n{failing}")
}

/// Maximum number of keys and their memory.
pub(crate) fn key_memory(memory: KeyCapacity) -> String {
    match memory.keys {
        0 => "-".to_owned(),
        keys => format!("{keys}\n{}", size(memory.bytes as u64)),
    }
}

/// A size with three significant digits.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, unit)| bytes >= *unit) {
        Some((_, unit)) if bytes.is_multiple_of(*unit) => HumanBytes(bytes).to_string(),
        Some((name, unit)) => format!("{:.1}{name}", bytes as f64 / *unit as f64),
        None => HumanBytes(bytes).to_string(),
    }
}

/// A duration, exact to the microsecond: `1.5s`, `250ms`, `2m 30s`.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    if time.is_zero() {
        return "0s".to_owned();
    }
    if time < Duration::from_millis(1) {
        return HumanDuration(time).to_string();
    }
    if seconds < 1 {
        return format!("{}ms", trimmed(time.as_nanos() as f64 / 1e6));
    }
    if seconds < 60 {
        return format!("{}s", trimmed(time.as_nanos() as f64 / 1e9));
    }
    let parts = [(seconds / 86_400, "d"), (seconds / 3_600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let shown: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).take(2).map(|(count, unit)| format!("{count}{unit}")).collect();
    shown.join(" ")
}

fn trimmed(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// `1 rule`, `2 rules`.
pub(crate) fn pluralize(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short_and_exact() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (250_000_000, "250ms"),
            (1_500_000_000, "1.5s"),
            (59_999_999_999, "60s"),
            (60_000_000_000, "1m"),
            (150_000_000_000, "2m 30s"),
            (90_061_000_000_000, "1d 1h"),
        ] {
            assert_eq!(duration(Duration::from_nanos(nanos)), text);
        }
    }

    #[test]
    fn sizes_are_short_and_exact() {
        for (bytes, text) in [(0, "0B"), (1_023, "1023B"), (256 << 20, "256MiB"), (89_478_485, "85.3MiB")] {
            assert_eq!(size(bytes), text);
        }
    }
}

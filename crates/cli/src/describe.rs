//! Rules in words.

use std::fmt::Write;
use std::time::Duration;

use sluicegate_engine::Limit;
use sluicegate_engine::limit::parse::{Bytes, Span};
use sluicegate_engine::rule::{
    Actual, Attribute, ClusterMode, Cost, KeyPart, Mode, OnStoreFailure, Reply, Rule, Scope, Side,
};
use sluicegate_engine::sluice::Remembered;

/// Which requests it is for.
pub(crate) fn requests(rule: &Rule) -> String {
    let mut text = match (rule.side, rule.target.to_string()) {
        (Side::Inbound, target) if target == "*" => "everything".to_owned(),
        (Side::Inbound, target) => target,
        (Side::Outbound, target) if target == "*" => "every call going out".to_owned(),
        (Side::Outbound, target) => format!("calls going out: {target}"),
        (Side::Descriptor, target) if target == "*" => "every descriptor".to_owned(),
        (Side::Descriptor, target) => format!("descriptors: {target}"),
    };
    if let Some(when) = &rule.when {
        let _ = write!(text, "\nwhen {when}");
    }
    text
}

/// What is counted apart; a dash if everything is counted together.
pub(crate) fn key(rule: &Rule) -> String {
    if rule.key.is_empty() {
        return "-".to_owned();
    }
    rule.key.iter().map(key_part).collect::<Vec<_>>().join("\n")
}

fn key_part(part: &KeyPart) -> String {
    let usual = KeyPart::from(part.attribute.clone());
    let mut text = part.attribute.to_string();
    if part.attribute == Attribute::ClientIp {
        if part.ipv4_prefix != usual.ipv4_prefix {
            let _ = write!(text, " IPv4/{}", part.ipv4_prefix);
        }
        let _ = write!(text, " (IPv6/{})", part.ipv6_prefix);
    }
    text
}

/// The limits, one per line.
pub(crate) fn limits(rule: &Rule) -> String {
    let mut lines: Vec<String> = rule.limits.iter().map(ToString::to_string).collect();
    if let Some(ban) = rule.ban {
        lines.push(format!("ban for {} after {} refusals in {}", Span(ban.lasting), ban.after, Span(ban.within)));
    }
    lines.join("\n")
}

/// Whether it slows answers down and refuses nothing.
pub(crate) fn is_paced(rule: &Rule) -> bool {
    !rule.limits.is_empty() && rule.limits.iter().all(|limit| matches!(limit, Limit::Bandwidth(_)))
}

/// What one request takes.
pub(crate) fn cost(rule: &Rule) -> String {
    match &rule.cost {
        _ if is_paced(rule) => "bytes".to_owned(),
        Cost::Fixed(cost) => cost.to_string(),
        Cost::Attribute(attribute) => attribute.to_string(),
        Cost::Estimate { reserve, actual } => format!("{reserve}\n{}", settled_by(actual)),
    }
}

/// What takes the place of an estimate.
fn settled_by(actual: &Actual) -> String {
    match actual {
        Actual::Told => "settled later".to_owned(),
        Actual::RequestBytes => "then request.bytes".to_owned(),
        Actual::ResponseBytes => "then response.bytes".to_owned(),
        Actual::ResponseHeader(name) => format!("then response.header['{name}']"),
        Actual::ResponseJson(fields) => format!("then response.json['{}']", fields.join(".")),
    }
}

/// What happens to a request over the limit.
pub(crate) fn on_limit(rule: &Rule) -> String {
    if is_paced(rule) {
        return "slowed down".to_owned();
    }
    let then = match &rule.on_limit.reply {
        None if rule.limits.is_empty() && rule.adaptive.is_some() => "503".to_owned(),
        None => "429".to_owned(),
        Some(Reply::Refuse { status, .. }) => status.to_string(),
        Some(Reply::Degrade { status, .. }) => format!("degrade: {status}"),
        Some(Reply::Redirect { status, location }) => format!("{status} to {location}"),
    };
    match rule.on_limit.queue {
        Some(queue) => {
            format!("wait up to {} ({} in line)\nthen {then}", Span(queue.max_wait), queue.max_waiting)
        }
        None => then,
    }
}

/// Whether it acts.
pub(crate) const fn mode(rule: &Rule) -> &'static str {
    match rule.mode {
        Mode::Enforce => "enforce",
        Mode::Shadow => "shadow",
    }
}

/// Who shares its count.
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

/// How many keys it remembers, and what that takes.
pub(crate) fn remembered(memory: Remembered) -> String {
    match memory.keys {
        0 => "-".to_owned(),
        keys => format!("{keys}\n{}", size(memory.bytes as u64)),
    }
}

/// A size for people: three digits are enough.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, unit)| bytes >= *unit) {
        Some((_, unit)) if bytes.is_multiple_of(*unit) => Bytes(bytes).to_string(),
        Some((name, unit)) => format!("{:.1}{name}", bytes as f64 / *unit as f64),
        None => Bytes(bytes).to_string(),
    }
}

/// A span of time for people, exact to the microsecond: `1.5s`, `250ms`, `2m 30s`.
pub(crate) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    if time.is_zero() {
        return "0s".to_owned();
    }
    if time < Duration::from_millis(1) {
        return Span(time).to_string();
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
pub(crate) fn counted(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short_and_true() {
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
            assert_eq!(span(Duration::from_nanos(nanos)), text);
        }
    }

    #[test]
    fn sizes_are_short_and_true() {
        for (bytes, text) in [(0, "0B"), (1_023, "1023B"), (256 << 20, "256MiB"), (89_478_485, "85.3MiB")] {
            assert_eq!(size(bytes), text);
        }
    }
}

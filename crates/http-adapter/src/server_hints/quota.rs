//! Parses the remaining quota from the `RateLimit` header families.

use std::time::Duration;

use http::HeaderMap;
use sfv::Item;

use super::QuotaStatus;
use super::structured::{dictionary, list, param, text};
use super::time::{ResponseTime, count, seconds};

/// A family of three headers with one number each: limit, remaining and reset.
struct HeaderFamily {
    limit: &'static str,
    remaining: &'static str,
    reset: &'static str,
}

const FAMILIES: [HeaderFamily; 3] = [
    HeaderFamily { limit: "ratelimit-limit", remaining: "ratelimit-remaining", reset: "ratelimit-reset" },
    HeaderFamily { limit: "x-ratelimit-limit", remaining: "x-ratelimit-remaining", reset: "x-ratelimit-reset" },
    HeaderFamily { limit: "x-rate-limit-limit", remaining: "x-rate-limit-remaining", reset: "x-rate-limit-reset" },
];

/// Returns the quota of the first family that parses.
pub(super) fn read(headers: &HeaderMap, now: ResponseTime) -> Option<QuotaStatus> {
    let policies = list(&field(headers, "ratelimit-policy"));
    structured(&field(headers, "ratelimit"), &policies, now)
        .or_else(|| FAMILIES.iter().find_map(|family| triple_headers(headers, family, &policies, now)))
}

/// Joins all lines of a field into one list; empty if a line is not valid text.
fn field(headers: &HeaderMap, name: &str) -> String {
    let lines: Result<Vec<&str>, _> = headers.get_all(name).iter().map(|line| line.to_str()).collect();
    lines.map(|lines| lines.join(", ")).unwrap_or_default()
}

/// Parses the `RateLimit` field: a dictionary in one draft, a list in another.
fn structured(field: &str, policies: &[Item], now: ResponseTime) -> Option<QuotaStatus> {
    let value = dictionary(field);
    match value("remaining") {
        Some(remaining) => {
            let quota = value("limit").as_deref().and_then(count).filter(|quota| *quota > 0);
            let window = quota.and_then(|quota| policy_window(quota, policies));
            quota_status(count(&remaining)?, now.until_number(&value("reset")?)?, quota, window)
        }
        None => list(field).iter().filter_map(|item| policy_item(item, policies, now)).reduce(tighter),
    }
}

/// Parses one item: `"per-ip";r=50;t=30`.
fn policy_item(item: &Item, policies: &[Item], now: ResponseTime) -> Option<QuotaStatus> {
    let policy = policies.iter().find(|policy| text(&policy.bare_item) == text(&item.bare_item));
    let of_policy = |name: &str| policy.and_then(|policy| param(policy, name));
    // Quotas in other units, such as bytes, do not say how many requests remain.
    if of_policy("qu").is_some_and(|unit| unit != "requests") {
        return None;
    }
    let remaining = count(&param(item, "r")?)?;
    let quota = of_policy("q").as_deref().and_then(count).filter(|quota| *quota > 0);
    let window = of_policy("w").as_deref().and_then(seconds);
    // Without a reset time, assume a full window.
    let reset = param(item, "t").and_then(|t| now.until_number(&t)).or(window)?;
    quota_status(remaining, reset, quota, window)
}

/// Parses the three headers of a family. If an intermediary added a second value, the tighter one wins.
fn triple_headers(
    headers: &HeaderMap,
    family: &HeaderFamily,
    policies: &[Item],
    now: ResponseTime,
) -> Option<QuotaStatus> {
    let (limits, resets) = (field(headers, family.limit), field(headers, family.reset));
    let limits: Vec<&str> = numbers(&limits).collect();
    let resets: Vec<&str> = numbers(&resets).collect();
    let remaining = field(headers, family.remaining);
    let budgets = numbers(&remaining).enumerate().filter_map(|(at, remaining)| {
        let at_index = |values: &[&'_ str]| values.get(at).or(values.first()).map(|value| (*value).to_owned());
        let quota = at_index(&limits).as_deref().and_then(count).filter(|quota| *quota > 0);
        let window =
            quota.and_then(|quota| policy_window(quota, policies).or_else(|| limit_window(headers, family, quota)));
        quota_status(count(remaining)?, now.until_number(&at_index(&resets)?)?, quota, window)
    });
    budgets.reduce(tighter)
}

/// The values of a list, without their parameters.
fn numbers(field: &str) -> impl Iterator<Item = &str> {
    field.split(',').filter_map(|value| value.split(';').next()).map(str::trim).filter(|value| !value.is_empty())
}

/// The window of the policy `100;w=60`, as older drafts write it.
fn policy_window(quota: u64, policies: &[Item]) -> Option<Duration> {
    let mut of_quota = policies.iter().filter(|policy| count(&text(&policy.bare_item)) == Some(quota));
    of_quota.find_map(|policy| seconds(&param(policy, "w")?))
}

/// The window given with the limit itself: `RateLimit-Limit: 100, 100;w=60`.
fn limit_window(headers: &HeaderMap, family: &HeaderFamily, quota: u64) -> Option<Duration> {
    policy_window(quota, &list(&field(headers, family.limit)))
}

/// Builds a quota status; `None` if the reset time has already passed.
fn quota_status(remaining: u64, reset: Duration, quota: Option<u64>, window: Option<Duration>) -> Option<QuotaStatus> {
    let window = window.filter(|window| !window.is_zero());
    (!reset.is_zero()).then_some(QuotaStatus { remaining, reset, limit: quota, window })
}

/// Returns the status with less remaining; on a tie, the one that resets later.
fn tighter(a: QuotaStatus, b: QuotaStatus) -> QuotaStatus {
    if (b.remaining, a.reset) < (a.remaining, b.reset) { b } else { a }
}

//! What is left, in the families of headers that tell it.

use std::time::Duration;

use http::HeaderMap;

use super::Budget;
use super::moment::{Now, count, seconds};
use super::structured::{Member, members};

/// Three headers, one number each: what there is, what is left, and when it is back.
struct Family {
    limit: &'static str,
    remaining: &'static str,
    reset: &'static str,
}

const FAMILIES: [Family; 3] = [
    Family { limit: "ratelimit-limit", remaining: "ratelimit-remaining", reset: "ratelimit-reset" },
    Family { limit: "x-ratelimit-limit", remaining: "x-ratelimit-remaining", reset: "x-ratelimit-reset" },
    Family { limit: "x-rate-limit-limit", remaining: "x-rate-limit-remaining", reset: "x-rate-limit-reset" },
];

/// What the first family that makes sense says.
pub(super) fn read(headers: &HeaderMap, now: Now) -> Option<Budget> {
    let policies = members(&field(headers, "ratelimit-policy"));
    structured(&members(&field(headers, "ratelimit")), &policies, now)
        .or_else(|| FAMILIES.iter().find_map(|family| three_headers(headers, family, &policies, now)))
}

/// A field that may be sent in several lines, as one; empty if it cannot be read.
fn field(headers: &HeaderMap, name: &str) -> String {
    let lines: Result<Vec<&str>, _> = headers.get_all(name).iter().map(|line| line.to_str()).collect();
    lines.map(|lines| lines.join(", ")).unwrap_or_default()
}

/// The field `RateLimit`, of either draft.
fn structured(said: &[Member], policies: &[Member], now: Now) -> Option<Budget> {
    let of_key = |key: &str| said.iter().rfind(|member| member.name == key).and_then(|member| member.value.as_deref());
    match of_key("remaining") {
        Some(remaining) => {
            let quota = of_key("limit").and_then(count).filter(|quota| *quota > 0);
            let window = quota.and_then(|quota| window_of(quota, policies));
            budget(count(remaining)?, now.until_number(of_key("reset")?)?, quota, window)
        }
        None => said.iter().filter_map(|member| of_policy(member, policies, now)).reduce(tighter),
    }
}

/// What one member says: `"per-ip";r=50;t=30`.
fn of_policy(said: &Member, policies: &[Member], now: Now) -> Option<Budget> {
    let policy = policies.iter().find(|policy| policy.name == said.name);
    let param = |name: &str| policy.and_then(|policy| policy.param(name));
    // What is counted in bytes, say, does not tell how many requests are left.
    if param("qu").is_some_and(|unit| unit != "requests") {
        return None;
    }
    let remaining = count(said.param("r")?)?;
    let quota = param("q").and_then(count).filter(|quota| *quota > 0);
    let window = param("w").and_then(seconds);
    // Nothing that tells when: at the latest when a window has passed.
    let reset = said.param("t").and_then(|t| now.until_number(t)).or(window)?;
    budget(remaining, reset, quota, window)
}

/// The three headers of a family. If somebody on the way added a second value, the tighter counts.
fn three_headers(headers: &HeaderMap, family: &Family, policies: &[Member], now: Now) -> Option<Budget> {
    let (limits, resets) = (field(headers, family.limit), field(headers, family.reset));
    let limits: Vec<&str> = numbers(&limits).collect();
    let resets: Vec<&str> = numbers(&resets).collect();
    let remaining = field(headers, family.remaining);
    let budgets = numbers(&remaining).enumerate().filter_map(|(at, remaining)| {
        let beside = |values: &[&'_ str]| values.get(at).or(values.first()).map(|value| (*value).to_owned());
        let quota = beside(&limits).as_deref().and_then(count).filter(|quota| *quota > 0);
        let window = quota.and_then(|quota| window_of(quota, policies).or_else(|| window_in(headers, family, quota)));
        budget(count(remaining)?, now.until_number(&beside(&resets)?)?, quota, window)
    });
    budgets.reduce(tighter)
}

/// The values of a list, without their parameters.
fn numbers(field: &str) -> impl Iterator<Item = &str> {
    field.split(',').filter_map(|value| value.split(';').next()).map(str::trim).filter(|value| !value.is_empty())
}

/// The window of the policy `100;w=60`, as older drafts write it.
fn window_of(quota: u64, policies: &[Member]) -> Option<Duration> {
    policies.iter().filter(|policy| count(&policy.name) == Some(quota)).find_map(|policy| seconds(policy.param("w")?))
}

/// The window beside the limit itself: `RateLimit-Limit: 100, 100;w=60`.
fn window_in(headers: &HeaderMap, family: &Family, quota: u64) -> Option<Duration> {
    window_of(quota, &members(&field(headers, family.limit)))
}

/// A budget whose reset has come says nothing any more.
fn budget(remaining: u64, reset: Duration, quota: Option<u64>, window: Option<Duration>) -> Option<Budget> {
    let window = window.filter(|window| !window.is_zero());
    (!reset.is_zero()).then_some(Budget { remaining, reset, quota, window })
}

/// The one with less left; of two with the same left, the one that lasts longer.
fn tighter(a: Budget, b: Budget) -> Budget {
    if (b.remaining, a.reset) < (a.remaining, b.reset) { b } else { a }
}

//! The headers that tell clients what is left to them.
//!
//! | style | headers |
//! |---|---|
//! | [`HeaderStyle::Ietf`] | `RateLimit-Policy: "per-ip";q=300;w=60` and `RateLimit: "per-ip";r=50;t=30`, an item per rule |
//! | [`HeaderStyle::Legacy`] | `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset`, of the tightest rule |
//! | [`HeaderStyle::X`] | the same with `X-` before |
//!
//! Times are whole seconds from now, rounded up. Rules in shadow mode are not shown.

mod number;
mod policy;
mod style;

pub(crate) use policy::Policy;
pub use style::HeaderStyle;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use sluicegate_engine::Outcome;
use sluicegate_engine::sluice::RuleDecision;

use crate::faces::Faces;
use number::push;
pub(crate) use number::{seconds, value};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Limit, remaining, reset.
const LEGACY: [HeaderName; 3] = [
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];
const X: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];

/// Adds what the outcome says is left, in the given style.
pub(crate) fn write(style: HeaderStyle, faces: &Faces, outcome: &Outcome, headers: &mut HeaderMap) {
    match style {
        HeaderStyle::Ietf => ietf(faces, outcome, headers),
        HeaderStyle::Legacy => tightest(&LEGACY, faces, outcome, headers),
        HeaderStyle::X => tightest(&X, faces, outcome, headers),
        HeaderStyle::None => {}
    }
}

/// What each rule that counts said, with the policy of the limit it hangs on.
fn said<'a>(faces: &'a Faces, outcome: &'a Outcome) -> impl Iterator<Item = (RuleDecision, &'a Policy)> {
    outcome.decisions().filter(|(_, said)| !said.shadow).filter_map(|(_, said)| {
        let policy = faces.rule(said.rule)?.policies.get(said.decision.limit)?;
        Some((said, policy))
    })
}

/// Seconds until everything is there again, and at least until the request would be admitted.
fn reset(said: &RuleDecision) -> u64 {
    let wait = if said.decision.is_admitted() { None } else { said.decision.wait() };
    seconds(said.decision.reset().max(wait.unwrap_or_default()))
}

fn ietf(faces: &Faces, outcome: &Outcome, headers: &mut HeaderMap) {
    let mut items = Vec::new();
    for (said, policy) in said(faces, outcome) {
        if let Some(face) = faces.rule(said.rule) {
            headers.append(POLICY, face.policy.clone());
        }
        if items.is_empty() {
            items.reserve_exact(policy.opening.len() + 32);
        } else {
            items.extend_from_slice(b", ");
        }
        items.extend_from_slice(&policy.opening);
        push(&mut items, policy.of_quota(said.decision.status.remaining));
        if policy.has_window {
            items.extend_from_slice(b";t=");
            push(&mut items, reset(&said));
        }
    }
    if !items.is_empty()
        && let Ok(items) = HeaderValue::from_maybe_shared(Bytes::from(items))
    {
        headers.append(RATE_LIMIT, items);
    }
}

/// One rule's numbers under three names: of the one that refused, else of the one with the least left.
fn tightest(names: &[HeaderName; 3], faces: &Faces, outcome: &Outcome, headers: &mut HeaderMap) {
    let least = said(faces, outcome)
        .min_by_key(|(said, policy)| (said.decision.is_admitted(), policy.of_quota(said.decision.status.remaining)));
    if let Some((said, policy)) = least {
        let numbers = [policy.quota, policy.of_quota(said.decision.status.remaining), reset(&said)];
        for (name, number) in names.iter().zip(numbers) {
            headers.insert(name, value(number));
        }
    }
}

//! The headers that tell clients what is left to them.
//!
//! | style | headers |
//! |---|---|
//! | [`HeaderStyle::Ietf`] | `RateLimit-Policy: "per-ip";q=300;w=60` and `RateLimit: "per-ip";r=50;t=30`, an item per rule |
//! | [`HeaderStyle::Legacy`] | `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset`, of the tightest rule |
//! | [`HeaderStyle::X`] | the same with `X-` before |
//!
//! Times are whole seconds from now, rounded up. Rules in shadow mode are not shown.

mod left;
mod line;
mod number;
mod policy;
mod style;
mod written;

pub use left::Left;
pub(crate) use policy::Policy;
pub use style::HeaderStyle;

use http::{HeaderMap, HeaderName, HeaderValue};
use sluicegate_engine::sluice::RuleDecision;

use crate::faces::{Face, Faces};
use crate::told::Told;
use line::{Line, Pieces};
pub(crate) use number::{seconds, value};
pub(crate) use written::write_lines;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Limit, remaining, reset.
static LEGACY: [HeaderName; 3] = [
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];
static X: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];

/// What an answer will say is left, as it was when the request was decided. Much smaller than the outcome
/// it was taken from.
#[derive(Debug, Default)]
pub struct Fields(Kind);

#[derive(Debug, Default)]
enum Kind {
    #[default]
    Nothing,
    /// The lines of `RateLimit-Policy`, most often one, and `RateLimit`.
    Ietf { policy: HeaderValue, further: Vec<HeaderValue>, left: HeaderValue },
    /// Names, and the numbers for them. Where nothing is ever there again, the last number has no name.
    Three(&'static [HeaderName], [u64; 3]),
}

impl Fields {
    /// What is told of a decision, in the given style.
    pub(crate) fn of(style: HeaderStyle, faces: &Faces, told: &impl Told) -> Self {
        let kind = match style {
            HeaderStyle::Ietf => ietf(faces, told),
            HeaderStyle::Legacy => tightest(faces, told).map(|numbers| Kind::Three(&LEGACY, numbers)),
            HeaderStyle::X => tightest(faces, told).map(|numbers| Kind::Three(&X, numbers)),
            HeaderStyle::None => None,
        };
        Self(kind.unwrap_or_default())
    }

    /// Whether one of them takes the place of a header that is `there` already; others are added to those that are.
    pub fn replace(&self, there: impl Fn(&HeaderName) -> bool) -> bool {
        matches!(&self.0, Kind::Three(names, _) if names.iter().any(there))
    }

    /// Adds them to a head that is written out at once, as lines of HTTP/1 with their ends.
    pub fn write_lines(&self, output: &mut Vec<u8>) {
        match &self.0 {
            Kind::Nothing => {}
            Kind::Ietf { policy, further, left } => {
                for policy in [policy].into_iter().chain(further) {
                    written::line(output, &POLICY, |output| Pieces::push(output, policy.as_bytes()));
                }
                written::line(output, &RATE_LIMIT, |output| Pieces::push(output, left.as_bytes()));
            }
            Kind::Three(names, numbers) => {
                for (name, number) in names.iter().zip(numbers) {
                    written::line(output, name, |output| output.push_number(*number));
                }
            }
        }
    }

    /// Adds them to an answer.
    pub fn write(self, headers: &mut HeaderMap) {
        match self.0 {
            Kind::Nothing => {}
            Kind::Ietf { policy, further, left } => {
                headers.append(POLICY, policy);
                for policy in further {
                    headers.append(POLICY, policy);
                }
                headers.append(RATE_LIMIT, left);
            }
            Kind::Three(names, numbers) => {
                for (name, number) in names.iter().zip(numbers) {
                    headers.insert(name, value(number));
                }
            }
        }
    }
}

/// What each rule that counts said, with the rule's face and the policy of the limit it hangs on.
fn said<'a>(faces: &'a Faces, told: &'a impl Told) -> impl Iterator<Item = (RuleDecision, &'a Face, &'a Policy)> {
    told.said().filter(|said| !said.shadow).filter_map(|said| {
        let face = faces.rule(said.rule)?;
        Some((said, face, face.policies.get(said.decision.limit)?))
    })
}

/// Seconds until everything is there again, and at least until the request would be admitted.
fn reset(said: &RuleDecision) -> u64 {
    let wait = if said.decision.is_admitted() { None } else { said.decision.wait() };
    seconds(said.decision.reset().max(wait.unwrap_or_default()))
}

fn ietf(faces: &Faces, told: &impl Told) -> Option<Kind> {
    let mut policies = said(faces, told).map(|(_, face, _)| face.policy.clone());
    let policy = policies.next()?;
    let further = policies.collect();
    let mut left = Line::new();
    push_left(&mut left, faces, told);
    Some(Kind::Ietf { policy, further, left: HeaderValue::from_bytes(left.as_bytes()).ok()? })
}

/// What each rule leaves, as `RateLimit` tells it.
fn push_left(line: &mut impl Pieces, faces: &Faces, told: &impl Told) {
    for (nth, (said, _, policy)) in said(faces, told).enumerate() {
        if nth > 0 {
            line.push(b", ");
        }
        line.push(&policy.opening);
        line.push_number(policy.of_quota(said.decision.status.remaining));
        if policy.has_window {
            line.push(b";t=");
            line.push_number(reset(&said));
        }
    }
}

/// One rule's numbers: of the one that refused, else of the one with the least left.
fn tightest(faces: &Faces, told: &impl Told) -> Option<[u64; 3]> {
    let left = |said: &RuleDecision, policy: &Policy| policy.of_quota(said.decision.status.remaining);
    let (said, _, policy) =
        said(faces, told).min_by_key(|(said, _, policy)| (said.decision.is_admitted(), left(said, policy)))?;
    Some([policy.quota, left(&said, policy), reset(&said)])
}

//! The decision server beside services that decide nothing.
//!
//! Ours runs as its users run it, with a rule file. Every case first asks both sides and looks at the answer, and a
//! request that fails while it is measured stops the case. Where the clients do not look into answers, ours is asked
//! afterwards what is left of the limit: so much less than before must have been let in.

mod empty;
mod h2load;
pub(crate) mod http;
mod proto;
pub(crate) mod resp;
pub(crate) mod rls;

pub(crate) use self::empty::{Empty, run_empty};

/// What may come back to the limit of a rule file while it is measured: about one a second.
const BACK: u64 = 500;
/// What wrk may have under way when it stops, and does not count.
const UNDER_WAY: u64 = 64;

/// Proves by what was left of the limit that so many requests were let in.
fn prove_all_were_let_in(before: u64, after: u64, requests: u64) {
    let taken = before.saturating_sub(after);
    let right = requests.saturating_sub(BACK)..=requests + UNDER_WAY;
    assert!(right.contains(&taken), "of {requests} requests, {taken} were let in");
}

//! The decision server, compared with services that return a constant response.
//!
//! Sluicegate runs as in production, with a rule file. Every case first sends a request to both contenders and checks
//! the response; a failed request during the measurement aborts the case. Load generators that do not check responses
//! are verified afterwards through the remaining quota, which must have decreased by the number of requests.

mod empty;
mod h2load;
pub(crate) mod http;
mod proto;
pub(crate) mod resp;
pub(crate) mod rls;

pub(crate) use self::empty::{EmptyService, run_empty};

/// Maximum number of tokens refilled during a measurement: the rule files refill about one per second.
const MAX_REFILL: u64 = 500;
/// Maximum number of requests that wrk has in flight when it stops and does not count.
const MAX_UNCOUNTED: u64 = 64;

/// Asserts through the remaining quota that all requests were admitted.
fn assert_all_admitted(before: u64, after: u64, requests: u64) {
    let taken = before.saturating_sub(after);
    let expected = requests.saturating_sub(MAX_REFILL)..=requests + MAX_UNCOUNTED;
    assert!(expected.contains(&taken), "{taken} of {requests} requests were admitted");
}

//! Whole decisions: `rules-100`, and the rule sets `growth-rules` uses.

use std::hint::black_box;

use crate::ours;
use crate::peers::{self, Limitador};
use crate::report::{Goal, Row, Unit};
use crate::runner::{Expect, Scale, best_of, nanos_each};

/// Callers taking turns: few, so that matching is measured and not the keyed table again.
pub(crate) const ACCOUNTS: u32 = 64;

/// A rule as a rule file would state it.
pub(crate) struct Rule {
    /// Unique in its set.
    pub(crate) name: String,
    /// Only this method, or any.
    pub(crate) method: Option<&'static str>,
    /// This path and everything under it.
    pub(crate) under: String,
    /// One bucket per account, or one for all.
    pub(crate) per_account: bool,
    /// All of them must admit.
    pub(crate) limits: Vec<TokenBucket>,
}

/// A limit of a rule.
#[derive(Clone, Copy)]
pub(crate) struct TokenBucket {
    /// Tokens added in so many seconds.
    pub(crate) tokens: u64,
    /// The seconds.
    pub(crate) seconds: u64,
    /// Tokens in a full bucket.
    pub(crate) burst: u64,
}

/// A request to be decided.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    /// HTTP method.
    pub(crate) method: &'a str,
    /// HTTP path.
    pub(crate) path: &'a str,
    /// Who calls.
    pub(crate) account: &'a str,
}

const MINUTELY: TokenBucket = TokenBucket { tokens: 1, seconds: 60, burst: 1_000_000 };
const HOURLY: TokenBucket = TokenBucket { tokens: 60, seconds: 3600, burst: 500_000 };
const PLENTIFUL: TokenBucket = TokenBucket { tokens: 1_000_000_000, seconds: 1, burst: 1_000_000_000 };

/// The rule of one of many services, per account.
fn service(nth: u32) -> Rule {
    Rule {
        name: format!("service-{nth}"),
        method: None,
        under: format!("/api/service-{nth}"),
        per_account: true,
        limits: vec![MINUTELY],
    }
}

/// The rules of services `first`, `first + 1` and so on.
pub(crate) fn services(first: u32, count: u32) -> Vec<Rule> {
    (first..first + count).map(service).collect()
}

/// A hundred rules of which two match [`an order`](order): the shop's total and, with two limits per
/// account, its orders.
fn shop() -> Vec<Rule> {
    let mut rules = services(0, 98);
    rules.push(Rule {
        name: "shop-total".to_owned(),
        method: None,
        under: "/shop".to_owned(),
        per_account: false,
        limits: vec![PLENTIFUL],
    });
    rules.push(Rule {
        name: "create-order".to_owned(),
        method: Some("POST"),
        under: "/shop/orders".to_owned(),
        per_account: true,
        limits: vec![MINUTELY, HOURLY],
    });
    rules
}

fn order(account: &str) -> Call<'_> {
    Call { method: "POST", path: "/shop/orders", account }
}

/// The accounts that take turns.
pub(crate) fn accounts() -> Vec<String> {
    (0..ACCOUNTS).map(|nth| format!("account-{nth:04}")).collect()
}

/// From a request's attributes to a verdict. limitador is given the least it can be given: one limit
/// without a condition, and a context kept from call to call to which the account is bound; making a
/// new one, as its server does, takes much longer. The second row leaves out even the binding.
pub(crate) fn hundred(scale: Scale) -> Vec<Row> {
    let accounts = accounts();
    let account = |nth: u32| black_box(accounts[(nth % ACCOUNTS) as usize].as_str());
    let ours = ours::Rules::new(&shop());
    let prepared = Limitador::one_limit(&accounts);
    let mut bound = Limitador::keyed(ACCOUNTS);
    let [ours, theirs, without_binding] = best_of(
        scale.rounds(),
        [
            &mut || nanos_each(scale.size(1_000_000), Expect::Admitted, |nth| ours.admits(&order(account(nth)))),
            &mut || nanos_each(scale.size(200_000), Expect::Admitted, |nth| bound.admits(account(nth))),
            &mut || nanos_each(scale.size(200_000), Expect::Admitted, |nth| prepared.admits_prepared(nth)),
        ],
    );
    let row = |peer, theirs, goal| Row { case: "rules-100", peer, unit: Unit::Nanos, ours, theirs, goal };
    vec![row(peers::LIMITADOR, theirs, Goal::ratio(0.1)), row(peers::LIMITADOR_PREPARED, without_binding, None)]
}

//! Decisions by a rule set: `rules-100`, and the rule sets of `growth-rules`.

use std::hint::black_box;

use crate::ours;
use crate::peers::{self, Limitador};
use crate::report::{Goal, Row, Unit};
use crate::runner::{Expect, Scale, best_of, nanos_each};
use crate::spec::{BenchRequest, BenchRule, BucketSpec};

/// Number of accounts: few, so that rule matching dominates and not the keyed table.
pub(crate) const ACCOUNTS: u32 = 64;

const MINUTELY: BucketSpec = BucketSpec { tokens: 1, seconds: 60, burst: 1_000_000 };
const HOURLY: BucketSpec = BucketSpec { tokens: 60, seconds: 3600, burst: 500_000 };
const PLENTIFUL: BucketSpec = BucketSpec { tokens: 1_000_000_000, seconds: 1, burst: 1_000_000_000 };

/// Per-account rule of one service.
fn service(index: u32) -> BenchRule {
    BenchRule {
        name: format!("service-{index}"),
        method: None,
        path_prefix: format!("/api/service-{index}"),
        per_account: true,
        limits: vec![MINUTELY],
    }
}

/// Rules of the services `first`, `first + 1` and so on.
pub(crate) fn services(first: u32, count: u32) -> Vec<BenchRule> {
    (first..first + count).map(service).collect()
}

/// A hundred rules. Two of them match [`an order`](order): the total of the shop, and orders with two limits per
/// account.
fn shop() -> Vec<BenchRule> {
    let mut rules = services(0, 98);
    rules.push(BenchRule {
        name: "shop-total".to_owned(),
        method: None,
        path_prefix: "/shop".to_owned(),
        per_account: false,
        limits: vec![PLENTIFUL],
    });
    rules.push(BenchRule {
        name: "create-order".to_owned(),
        method: Some("POST"),
        path_prefix: "/shop/orders".to_owned(),
        per_account: true,
        limits: vec![MINUTELY, HOURLY],
    });
    rules
}

fn order(account: &str) -> BenchRequest<'_> {
    BenchRequest { method: "POST", path: "/shop/orders", account }
}

/// Names of the accounts.
pub(crate) fn accounts() -> Vec<String> {
    (0..ACCOUNTS).map(|index| format!("account-{index:04}")).collect()
}

/// Measures a decision from request attributes to verdict. limitador gets the cheapest possible case: one limit without
/// a condition, and a reused context to which the account is bound; a new context per request, as in its server, takes
/// much longer. The second row excludes the binding as well.
pub(crate) fn hundred(scale: Scale) -> Vec<Row> {
    let accounts = accounts();
    let account = |index: u32| black_box(accounts[(index % ACCOUNTS) as usize].as_str());
    let ours = ours::Rules::new(&shop());
    let prepared = Limitador::one_limit(&accounts);
    let mut bound = Limitador::keyed(ACCOUNTS);
    let [ours, theirs, without_binding] = best_of(
        scale.rounds(),
        [
            &mut || nanos_each(scale.size(1_000_000), Expect::Admitted, |index| ours.admits(&order(account(index)))),
            &mut || nanos_each(scale.size(200_000), Expect::Admitted, |index| bound.admits(account(index))),
            &mut || nanos_each(scale.size(200_000), Expect::Admitted, |index| prepared.admits_prepared(index)),
        ],
    );
    let row = |peer, theirs, goal| Row { case: "rules-100", peer, unit: Unit::Nanos, ours, theirs, goal };
    vec![row(peers::LIMITADOR, theirs, Goal::ratio(0.1)), row(peers::LIMITADOR_PREPARED, without_binding, None)]
}

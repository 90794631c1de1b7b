//! `#[limit(rule = "...")]`: rules apply and can be changed at runtime; without the rule, the inline limits apply.

use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sluicegate::clock::ManualClock;
use sluicegate::overload::{GateLimits, OverloadNotice};
use sluicegate::rule::{Adaptive, Attribute, Auto, Ban, Expr, Lists, Mode, Queue, Reply, Rule, Target};
use sluicegate::{Limit, Limited, Sluice, attribute, limit};

const SECOND: Duration = Duration::from_secs(1);

fn poll_once<F: Future + ?Sized>(future: &mut Pin<&mut F>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

fn limits(text: &str) -> [Limit; 1] {
    [text.parse().unwrap()]
}

fn sluice(clock: &ManualClock, rules: impl IntoIterator<Item = Rule>) -> Sluice {
    Sluice::builder().rules(rules).clock(clock.clone()).memory(1 << 20).build().unwrap()
}

fn keyed_by(attribute: &str, rule: Rule) -> Rule {
    Rule { key: vec![attribute.parse::<Attribute>().unwrap().into()], ..rule }
}

struct Order {
    account: String,
    items: Vec<u32>,
}

fn order(account: &str, items: usize) -> Order {
    Order { account: account.to_owned(), items: vec![0; items] }
}

#[limit(rule = "orders", sluice = sluice, with("account" = order.account, "client.ip" = from), cost = order.items.len())]
fn place_order(sluice: &Sluice, order: Order, from: IpAddr) -> Result<usize, Limited> {
    Ok(order.items.len())
}

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

#[test]
fn a_rule_uses_its_key_and_the_cost_and_ignores_its_target() {
    let mut rule = keyed_by("account", Rule::new("orders", limits("3/1m")));
    rule.target = Target::parse("POST /api/orders").unwrap();
    // An HTTP reply has no effect on a function.
    rule.on_limit.reply = Some(Reply::Redirect { status: 302, location: "/busy".to_owned() });
    let sluice = sluice(&ManualClock::new(), [rule]);
    assert_eq!(place_order(&sluice, order("alice", 2), HERE).unwrap(), 2);
    let limited = place_order(&sluice, order("alice", 2), HERE).unwrap_err();
    assert_eq!((limited.name(), limited.limit()), ("orders", Some(&limits("3/1m")[0])));
    assert!(limited.to_string().starts_with("over the limit 3/1m of rule 'orders': try again in "), "{limited}");
    assert!(place_order(&sluice, order("alice", 1), HERE).is_ok());
    assert!(place_order(&sluice, order("bob", 3), HERE).is_ok());
    assert!(place_order(&sluice, order("carol", 4), HERE).unwrap_err().is_permanent());
}

#[test]
fn replaced_rules_apply_to_the_next_call() {
    let clock = ManualClock::new();
    let sluice = sluice(&clock, [Rule::new("orders", limits("1/1m"))]);
    assert!(place_order(&sluice, order("a", 1), HERE).is_ok());
    assert!(place_order(&sluice, order("a", 1), HERE).is_err());
    sluice.replace(vec![Rule::new("orders", limits("5/1m"))], Lists::default()).unwrap();
    let passing = || (0..9).filter(|_| place_order(&sluice, order("a", 1), HERE).is_ok()).count();
    assert_eq!(passing(), 4, "what was taken stays taken");
    clock.advance(Duration::from_secs(120));
    assert_eq!(passing(), 5);
}

#[test]
fn lists_bans_and_conditions_hold() {
    let clock = ManualClock::new();
    let mut rule = keyed_by("client.ip", Rule::new("orders", limits("1/1m")));
    rule.when = Some(Expr::parse("account != 'tester'").unwrap());
    rule.ban = Some(Ban { after: 2, within: Duration::from_secs(60), duration: Duration::from_secs(600) });
    let deny = vec![Expr::parse("account == 'mallory'").unwrap()];
    let sluice =
        Sluice::builder().rule(rule).lists(Lists { allow: vec![], deny }).clock(clock.clone()).build().unwrap();

    let denied = place_order(&sluice, order("mallory", 1), HERE).unwrap_err();
    assert_eq!(denied.to_string(), "on the deny list (rule 'orders' not checked)");
    assert_eq!((denied.limit(), denied.retry_after()), (None, None));
    for _ in 0..3 {
        place_order(&sluice, order("tester", 1), HERE).unwrap();
    }
    place_order(&sluice, order("alice", 1), HERE).unwrap();
    for _ in 0..2 {
        place_order(&sluice, order("alice", 1), HERE).unwrap_err();
    }
    clock.advance(Duration::from_secs(120));
    let banned = place_order(&sluice, order("bob", 1), HERE).unwrap_err();
    assert_eq!(banned.to_string(), "banned by rule 'orders': try again in 8m");
    assert!(place_order(&sluice, order("bob", 1), IpAddr::from([203, 0, 113, 9])).is_ok());
}

#[test]
fn a_shadow_rule_refuses_nothing() {
    let rule = Rule { mode: Mode::Shadow, ..Rule::new("orders", limits("1/1m")) };
    let sluice = sluice(&ManualClock::new(), [rule]);
    for _ in 0..3 {
        place_order(&sluice, order("a", 1), HERE).unwrap();
    }
    assert_eq!(sluice.counts()[0].refused, 2);
}

struct Service {
    sluice: Arc<Sluice>,
}

impl Service {
    #[limit(rule = "queries", sluice = self.sluice, with("client.ip" = peer, "method" = "SELECT", "header['X-Tier']" = tier))]
    async fn query(&self, peer: Option<SocketAddr>, tier: &str, forever: bool) -> Result<(), Limited> {
        if forever {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    #[limit(rule = "queries", sluice = self.sluice, on_limit = Self::cached)]
    fn count(&self) -> u32 {
        7
    }

    fn cached(&self) -> u32 {
        0
    }
}

#[test]
fn permits_of_a_rule_are_held_until_the_call_ends_or_is_dropped() {
    fn sent<F: Future + Send>(future: F) -> F {
        future
    }
    let mut rule = Rule::new("queries", [Limit::concurrency(1).unwrap()]);
    rule.when = Some(Expr::parse("method != 'INSERT' && header['x-tier'] != 'vip'").unwrap());
    let service = Service { sluice: Arc::new(sluice(&ManualClock::new(), [rule])) };
    {
        let mut running = pin!(sent(service.query(None, "", true)));
        assert!(poll_once(&mut running).is_pending());
        assert!(matches!(poll_once(&mut pin!(service.query(None, "", false))), Poll::Ready(Err(_))));
        assert!(matches!(poll_once(&mut pin!(service.query(None, "vip", false))), Poll::Ready(Ok(()))));
        assert_eq!(service.count(), 0, "the fallback");
    }
    assert!(matches!(poll_once(&mut pin!(service.query(None, "", false))), Poll::Ready(Ok(()))));
    assert_eq!(service.count(), 7);
}

#[test]
fn a_rule_with_a_queue_lets_calls_wait() {
    let clock = ManualClock::new();
    let mut rule = keyed_by("client.ip", Rule::new("queries", limits("1/1s")));
    rule.on_limit.queue = Some(Queue { max_wait: 5 * SECOND, max_waiting: 1 });
    let service = Service { sluice: Arc::new(sluice(&clock, [rule])) };
    let peer = Some("203.0.113.9:5000".parse().unwrap());
    assert!(poll_once(&mut pin!(service.query(peer, "", false))).is_ready());
    {
        let mut dropped = pin!(service.query(peer, "", false));
        assert!(poll_once(&mut dropped).is_pending());
        assert!(
            matches!(poll_once(&mut pin!(service.query(peer, "", false))), Poll::Ready(Err(_))),
            "the line is full"
        );
    }
    let mut waiting = pin!(service.query(peer, "", false));
    assert!(poll_once(&mut waiting).is_pending(), "the one who left made room");
    clock.advance(2 * SECOND);
    assert!(matches!(poll_once(&mut waiting), Poll::Ready(Ok(()))));
    assert_eq!(clock.pending_timers(), 0);
}

#[test]
fn a_sync_call_blocks_its_thread_in_a_rules_queue() {
    let clock = ManualClock::new();
    let mut rule = Rule::new("queries", limits("1/1s"));
    rule.on_limit.queue = Some(Queue { max_wait: 5 * SECOND, max_waiting: 1 });
    let service = Service { sluice: Arc::new(sluice(&clock, [rule])) };
    assert_eq!(service.count(), 7);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| service.count());
        while clock.next_timer().is_none() {
            std::thread::yield_now();
        }
        clock.advance(2 * SECOND);
        assert_eq!(waiter.join().unwrap(), 7);
    });
}

#[limit("2/1h", rule = "creat-order", sluice = sluice, key = who)]
fn misspelt(sluice: &Sluice, who: &str) -> Result<(), Limited> {
    Ok(())
}

#[test]
fn inline_limits_apply_while_a_rule_is_missing() {
    let sluice = sluice(&ManualClock::new(), [Rule::new("create-order", limits("9/1m"))]);
    assert_eq!((0..5).filter(|_| misspelt(&sluice, "alice").is_ok()).count(), 2);
    assert_eq!(misspelt(&sluice, "alice").unwrap_err().name(), "integration::attribute_rules::misspelt");
    assert!(misspelt(&sluice, "bob").is_ok());
    assert!(attribute::missing_rules().contains(&"creat-order"));
    sluice.replace(vec![Rule::new("creat-order", limits("1/1m"))], Lists::default()).unwrap();
    assert_eq!((0..5).filter(|_| misspelt(&sluice, "alice").is_ok()).count(), 1);
    assert!(!attribute::missing_rules().contains(&"creat-order"));
}

#[limit("2/1h", rule = "parcels", sluice = sluice, key = account, with("acount" = account, "client.ip" = from))]
fn send_parcel(sluice: &Sluice, account: &str, from: Option<IpAddr>) -> Result<(), Limited> {
    Ok(())
}

#[test]
fn a_rule_keyed_by_a_missing_attribute_keeps_the_inline_limits() {
    let clock = ManualClock::new();
    let parcels = || Rule::new("parcels", limits("1/1m"));
    let passed = |sluice: &Sluice, who: &str, from| (0..5).filter(|_| send_parcel(sluice, who, from).is_ok()).count();
    for (who, key) in [("alice", "account"), ("bob", "param['account']"), ("carol", "method")] {
        let sluice = sluice(&clock, [keyed_by(key, parcels())]);
        assert_eq!(passed(&sluice, who, Some(HERE)), 2, "{key}: the inline limits apply");
        assert!(attribute::missing_rules().contains(&"parcels"), "{key}");
        let deny = vec![Expr::parse("acount == 'mallory'").unwrap()];
        sluice.replace(vec![keyed_by(key, parcels())], Lists { allow: vec![], deny }).unwrap();
        assert_eq!(passed(&sluice, "mallory", Some(HERE)), 0, "the lists come first all the same");
    }
    let sluice = sluice(&clock, [keyed_by("client.ip", parcels())]);
    assert_eq!(passed(&sluice, "dave", Some(HERE)), 1);
    assert!(!attribute::missing_rules().contains(&"parcels"));
    assert_eq!(passed(&sluice, "dave", None), 5, "given, and unknown this time: not counted, as everywhere");
}

#[limit(rule = "reports")]
async fn report() -> Result<(), Limited> {
    Ok(())
}

#[test]
fn the_installed_sluice_decides_and_can_be_replaced() {
    fn call() -> Result<(), Limited> {
        match poll_once(&mut pin!(report())) {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("this call does not wait"),
        }
    }
    // Nothing is installed yet: 10 per second, so a few go through.
    call().unwrap();
    assert!(attribute::missing_rules().contains(&"reports"));
    let clock = ManualClock::new();
    assert!(sluicegate::install(sluice(&clock, [Rule::new("reports", limits("1/1m"))])).is_none());
    call().unwrap();
    assert_eq!(call().unwrap_err().name(), "reports");
    assert!(!attribute::missing_rules().contains(&"reports"));
    let installed = sluicegate::installed().unwrap();
    assert_eq!(installed.counts()[0].refused, 1);
    // Another sluice starts with empty counters.
    let before = sluicegate::install(sluice(&clock, [Rule::new("reports", limits("2/1m"))])).unwrap();
    assert_eq!(before.rules(), installed.rules());
    assert_eq!((0..5).filter(|_| call().is_ok()).count(), 2);
}

#[limit(rule = "protect", sluice = sluice)]
fn protected(sluice: &Sluice) -> Result<(), Limited> {
    Ok(())
}

#[test]
fn an_overload_refusal_carries_the_readings() {
    let protect = Rule { adaptive: Some(Adaptive::Auto(Auto::default())), ..Rule::new("protect", []) };
    let sluice = sluice(&ManualClock::new(), [protect]);
    let gate = sluice.gates().remove(0).1;
    gate.set_limits(GateLimits { max_in_flight: Some(0), ..GateLimits::OPEN });
    let limited = protected(&sluice).unwrap_err();
    assert_eq!((limited.name(), limited.limit(), limited.reason()), ("protect", None, None));
    assert_eq!(limited.to_string(), "limited by overload protection 'protect': try again in 1s");
    let reason = "places 0, average 90ms against 10ms unloaded";
    gate.set_notice(OverloadNotice { state: "steady", reason: reason.to_owned(), readings: Vec::new() });
    let limited = protected(&sluice).unwrap_err();
    assert_eq!((limited.reason(), limited.retry_after()), (Some(reason), Some(SECOND)));
    assert_eq!(limited.to_string(), format!("limited by overload protection 'protect' ({reason}): try again in 1s"));
}

#[derive(Debug)]
enum WorkError {
    Limited,
    NotFound,
    TimedOut,
}

impl From<Limited> for WorkError {
    fn from(_: Limited) -> Self {
        Self::Limited
    }
}

#[limit(rule = "protect", sluice = sluice)]
fn work(sluice: &Sluice, clock: &ManualClock, end: fn() -> Result<(), WorkError>) -> Result<(), WorkError> {
    clock.advance(Duration::from_millis(20));
    end()?;
    clock.advance(Duration::from_millis(20));
    Ok(())
}

#[limit(rule = "protect", sluice = sluice, overload = |error| matches!(error, WorkError::TimedOut))]
fn work_with_classifier(sluice: &Sluice, end: Result<(), WorkError>) -> Result<(), WorkError> {
    end
}

#[limit(rule = "protect", sluice = sluice, on_limit = work_fallback)]
async fn work_later(sluice: &Sluice, end: impl Future<Output = u32>) -> u32 {
    end.await
}

async fn work_fallback(_: &Sluice, _: impl Future<Output = u32>) -> u32 {
    0
}

/// A fast failure must not count as a fast success: under overload most calls fail fast.
#[test]
fn an_adaptive_rule_records_call_completions() {
    let clock = ManualClock::new();
    let protect = Rule { adaptive: Some(Adaptive::Auto(Auto::default())), ..Rule::new("protect", []) };
    let sluice = sluice(&clock, [protect]);
    let gate = sluice.gates().remove(0).1;
    let recorded = || {
        let interval = gate.take_interval();
        assert_eq!(gate.in_flight(), 0, "the permit is released");
        (interval.arrived, interval.completed, interval.failed)
    };
    work(&sluice, &clock, || Ok(())).unwrap();
    assert_eq!(gate.throughput().average, Some(0.04), "the duration covers the complete body");
    assert_eq!(recorded(), (1, 1, 0));
    assert!(work(&sluice, &clock, || Err(WorkError::NotFound)).is_err());
    assert_eq!(recorded(), (1, 0, 1));
    // A panic is a bug, not a sign of overload.
    let panics = || work(&sluice, &clock, || panic!("on purpose"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    assert_eq!(recorded(), (1, 0, 0));
    // The function can classify its errors.
    for (end, expected) in
        [(Ok(()), (1, 1, 0)), (Err(WorkError::NotFound), (1, 1, 0)), (Err(WorkError::TimedOut), (1, 0, 1))]
    {
        drop(work_with_classifier(&sluice, end));
        assert_eq!(recorded(), expected);
    }
    // A value that is not a `Result` cannot fail; a cancelled call has an unknown completion.
    assert_eq!(poll_once(&mut pin!(work_later(&sluice, std::future::ready(7)))), Poll::Ready(7));
    assert_eq!(recorded(), (1, 1, 0));
    let mut cancelled = Box::pin(work_later(&sluice, std::future::pending()));
    assert!(poll_once(&mut cancelled.as_mut()).is_pending());
    assert_eq!(gate.in_flight(), 1);
    drop(cancelled);
    assert_eq!(recorded(), (1, 0, 0));
}

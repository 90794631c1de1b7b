//! `#[limit]` on everything that can be called: how often, by which key, and what a refused call gets.

use std::error::Error;
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use sluicegate::{Limit, Limited, limit};

/// Number of admitted calls.
fn count_allowed<T, E>(calls: usize, mut call: impl FnMut() -> Result<T, E>) -> usize {
    (0..calls).filter(|_| call().is_ok()).count()
}

/// The output of a future that need not wait.
fn poll_ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it should be ready"),
    }
}

#[limit]
fn plain() -> Result<(), Limited> {
    Ok(())
}

#[test]
fn default_limit_is_ten_per_second() {
    assert!(plain().is_ok());
    // However slow this machine is, a hundred calls in a row meet the limit.
    let limited = std::iter::repeat_with(plain).take(1_000_000).find_map(Result::err).unwrap();
    assert_eq!(limited.limit(), Some(&"10/s".parse().unwrap()));
    assert_eq!(limited.name(), "integration::attribute::plain");
    assert!(
        limited.to_string().starts_with("over the limit 10/1s of integration::attribute::plain: try again in "),
        "{limited}"
    );
}

#[limit("5/1h", "3/1m")]
fn two_limits() -> Result<(), Limited> {
    Ok(())
}

#[test]
fn several_limits_hold_together() {
    assert_eq!(count_allowed(9, two_limits), 3);
    assert_eq!(two_limits().unwrap_err().limit(), Some(&"3/1m".parse().unwrap()));
}

/// Each algorithm, identified by its refusal of a call that can never be admitted.
mod each {
    use super::*;

    macro_rules! forms {
        ($($name:ident: $algorithm:ident($($form:tt)*), $limit:expr;)*) => {
            $(#[limit($algorithm($($form)*), cost = u64::MAX)] fn $name() -> Result<(), Limited> { Ok(()) })*

            #[test]
            fn algorithm_can_be_written() {
                $(assert_eq!($name().unwrap_err().limit().map(Limit::to_string).as_deref(), Some($limit));)*
            }
        };
    }

    forms! {
        token_bucket: token_bucket("10/s", burst = 20), "token_bucket 10/s, burst 20";
        token_bucket_alone: token_bucket("10/s"), "token_bucket 10/s, burst 10";
        leaky_bucket: leaky_bucket("5/s", queue = 15), "leaky_bucket 5/s, queue 15";
        leaky_bucket_alone: leaky_bucket("5/s"), "leaky_bucket 5/s, queue 5";
        fixed_window: fixed_window("100/1m"), "fixed_window 100/1m";
        first_use: fixed_window("9/1h", align = "first_use"), "fixed_window 9/1h, from first use";
        epoch: fixed_window("9/1h", align = "epoch"), "fixed_window 9/1h";
        sliding_window: sliding_window("15/3s", cells = 30), "sliding_window 15/3s, 30 cells";
        sliding_window_alone: sliding_window("15/3s"), "sliding_window 15/3s, 10 cells";
        interpolated: interpolated_window("100/1m"), "interpolated_window 100/1m";
        sliding_log: sliding_log("5/1s"), "sliding_log 5/1s";
        concurrency: concurrency(50), "concurrency 50";
        bandwidth: bandwidth("2MiB/s", burst = "8MiB"), "bandwidth 2MiB/1s, burst 8MiB";
        bandwidth_alone: bandwidth("600/1m"), "bandwidth 600B/1m, burst 10B";
    }
}

#[limit(warm_up("1/1h", over = "10h", cold_factor = 4))]
fn cold() -> Result<(), Limited> {
    Ok(())
}

#[test]
fn a_cold_start_is_slower_than_the_rate() {
    cold().unwrap();
    let limited = cold().unwrap_err();
    assert!(limited.retry_after().unwrap().as_secs() > 3_600, "{limited}");
    assert_eq!(limited.limit().unwrap().to_string(), "warm_up 1/1h after 10h, cold factor 4");
}

#[limit("1/1h")]
async fn asynchronous(text: &str) -> Result<String, Limited> {
    Ok(text.to_owned())
}

#[test]
fn an_async_function_is_limited_when_it_runs() {
    // A future that is never polled takes nothing.
    drop(asynchronous("dropped"));
    assert_eq!(poll_ready(asynchronous("a")).unwrap(), "a");
    let limited = poll_ready(asynchronous("b")).unwrap_err();
    assert_eq!(limited.name(), "integration::attribute::asynchronous");
}

#[limit("1/1h", key = *who)]
async fn spawned(who: &u64) -> Result<u64, Limited> {
    Ok(*who)
}

#[limit("1/1h", wait = "1s", key = who.get())]
async fn spawned_and_queued(who: std::cell::Cell<u8>) -> Result<u8, Limited> {
    std::future::ready(()).await;
    Ok(1)
}

#[test]
fn futures_are_send() {
    fn sent<F: Future + Send>(future: F) -> F {
        future
    }
    assert_eq!(poll_ready(sent(spawned(&7))).unwrap(), 7);
    // What the key borrows is not kept while waiting: a `Cell` may be sent but not shared.
    drop(sent(spawned_and_queued(std::cell::Cell::new(1))));
}

struct Shop<T> {
    tenant: String,
    stock: Vec<T>,
}

trait Sells {
    fn sell(&mut self) -> Result<usize, Limited>;
    async fn deliver(&self, to: &str) -> Result<usize, Limited>;
    #[limit("1/1h")]
    fn close(&self) -> Result<(), Limited> {
        Ok(())
    }
}

impl<T: Clone + Send> Shop<T> {
    fn of(tenant: &str, stock: Vec<T>) -> Self {
        Self { tenant: tenant.to_owned(), stock }
    }

    #[limit("1/1h", key = self.tenant)]
    fn count(&self) -> Result<usize, Limited> {
        Ok(self.stock.len())
    }

    #[limit("1/1h", key = self.tenant)]
    fn take(&mut self) -> Result<Option<T>, Limited> {
        Ok(self.stock.pop())
    }

    #[limit("1/1h", key = self.tenant)]
    fn dissolve(mut self) -> Result<Vec<T>, Limited> {
        Ok(std::mem::take(&mut self.stock))
    }

    #[limit("1/1h", key = self.tenant)]
    async fn shared(self: Arc<Self>) -> Result<usize, Limited> {
        Ok(self.stock.len())
    }

    #[limit("1/1h")]
    fn open() -> Result<Self, Limited>
    where
        T: Default,
    {
        Ok(Self::of("new", vec![T::default()]))
    }
}

impl<T> Sells for Shop<T> {
    #[limit("1/1h", key = self.tenant)]
    fn sell(&mut self) -> Result<usize, Limited> {
        Ok(self.stock.len())
    }

    #[limit("1/1h", key = (self.tenant, to))]
    async fn deliver(&self, to: &str) -> Result<usize, Limited> {
        Ok(to.len())
    }
}

#[test]
fn methods_use_fields_of_self() {
    let (mut north, mut south) = (Shop::of("north", vec![1, 2]), Shop::of("south", vec![3]));
    assert_eq!((count_allowed(3, || north.count()), count_allowed(3, || south.count())), (1, 1));
    assert_eq!((count_allowed(3, || north.take()), count_allowed(3, || south.take())), (1, 1));
    assert_eq!((count_allowed(3, || north.sell()), count_allowed(3, || south.sell())), (1, 1));
    assert_eq!(count_allowed(3, || poll_ready(north.deliver("here"))), 1);
    assert_eq!(count_allowed(3, || poll_ready(north.deliver("there"))), 1);
    let shared = Arc::new(Shop::of("east", vec!['a']));
    assert_eq!(count_allowed(3, || poll_ready(Arc::clone(&shared).shared())), 1);
    assert_eq!(Shop::of("west", vec!["x"]).dissolve().unwrap(), ["x"]);
    assert!(Shop::of("west", vec!["x"]).dissolve().is_err());
    assert!(north.close().is_ok());
    assert_eq!(south.close().unwrap_err().name(), "integration::attribute::Sells::close");
}

#[test]
fn all_instances_of_a_generic_function_share_a_limiter() {
    assert!(Shop::<u8>::open().is_ok());
    let limited = Shop::<String>::open().map(|_| ()).unwrap_err();
    assert!(
        limited.name().starts_with("integration::attribute::Shop<") && limited.name().ends_with("::open"),
        "{limited}"
    );
}

#[limit("1/1h", key = (left, right.1))]
fn generic<'a, L, R>(left: &'a L, right: (u8, R), _rest: impl Debug) -> Result<&'a L, Box<dyn Error>>
where
    L: Hash + ?Sized,
    R: Hash + Display,
{
    // Nothing was moved.
    let _moved: (u8, R) = right;
    Ok(left)
}

#[test]
fn keys_are_any_hashable_type() {
    assert_eq!(count_allowed(2, || generic("a", (1, String::from("x")), ())), 1);
    assert_eq!(count_allowed(2, || generic("a", (2, String::from("x")), ())), 0, "only the key counts");
    assert_eq!(count_allowed(2, || generic("a", (1, String::from("y")), ())), 1);
    assert_eq!(count_allowed(2, || generic(&5, (1, 'x'), ())), 1);
}

struct Order {
    account: String,
    items: Vec<u32>,
}

#[limit("10/1h", key = order.account, cost = order.items.len(), max_keys = 100)]
fn submit(order: Order) -> Result<String, Limited> {
    Ok(order.account)
}

#[test]
fn cost_is_computed_from_arguments() {
    let order = |account: &str, items: usize| Order { account: account.to_owned(), items: vec![0; items] };
    assert_eq!(submit(order("alice", 9)).unwrap(), "alice");
    assert!(submit(order("alice", 2)).is_err());
    assert!(submit(order("alice", 1)).is_ok());
    assert!(submit(order("alice", 0)).is_ok(), "what costs nothing always fits");
    let never = submit(order("bob", 11)).unwrap_err();
    assert!(never.is_permanent(), "{never}");
    assert_eq!(never.to_string(), "cost exceeds the limit 10/1h of integration::attribute::submit");
    assert!(submit(order("bob", 10)).is_ok());
}

#[limit("1/1h")]
fn twin_one() -> Result<(), Limited> {
    Ok(())
}

#[limit("1/1h")]
fn twin_two() -> Result<(), Limited> {
    Ok(())
}

#[test]
fn every_function_has_its_own_limiter() {
    assert_eq!((count_allowed(2, twin_one), count_allowed(2, twin_two)), (1, 1));
}

#[limit("3/1h")]
#[limit("1/1h", key = ip)]
fn stacked(ip: IpAddr) -> Result<(), Limited> {
    Ok(())
}

#[test]
fn attributes_can_be_stacked() {
    let mut last = 0;
    let from_everywhere = || {
        last += 1;
        stacked(IpAddr::from([203, 0, 113, last]))
    };
    assert_eq!(count_allowed(9, from_everywhere), 3);
}

#[limit("1/1h", key = a, cost = b, on_limit = pattern_fallback)]
fn pattern((a, mut b): (String, u64), mut c: Vec<u8>, _: (), &d: &u8) -> String {
    b += 1;
    c.push(d);
    format!("{a} {b} {c:?}")
}

fn pattern_fallback((a, b): (String, u64), c: Vec<u8>, _: (), d: &u8) -> String {
    format!("not {a} {b} {c:?} {d}")
}

#[test]
fn a_fallback_receives_all_arguments() {
    let call = || pattern(("x".to_owned(), 1), vec![1], (), &9);
    assert_eq!(call(), "x 2 [1, 9]");
    assert_eq!(call(), "not x 1 [1] 9");
}

struct Counter {
    calls: u32,
    instead: u32,
}

impl Counter {
    #[limit("1/1h", on_limit = Self::less)]
    fn more(&mut self, by: u32) -> u32 {
        self.calls += by;
        self.calls
    }

    fn less(&mut self, by: u32) -> u32 {
        self.instead += by;
        self.instead
    }

    #[limit("1/1h", on_limit = outside)]
    async fn inside(&self, text: &mut String) {
        text.push_str("inside");
    }
}

async fn outside(counter: &Counter, text: &mut String) {
    text.push_str(&format!(", outside {}", counter.calls));
}

#[test]
fn methods_fall_back_to_methods_and_functions() {
    let mut counter = Counter { calls: 0, instead: 0 };
    assert_eq!([counter.more(2), counter.more(3), counter.more(4)], [2, 3, 7]);
    let mut text = String::new();
    poll_ready(counter.inside(&mut text));
    poll_ready(counter.inside(&mut text));
    assert_eq!(text, "inside, outside 2");
}

type OrderResult<T> = Result<T, Failure>;

#[derive(Debug, PartialEq)]
enum Failure {
    Busy(String),
}

impl From<Limited> for Failure {
    fn from(limited: Limited) -> Self {
        Self::Busy(limited.to_string())
    }
}

#[limit("1/1h")]
fn aliased() -> OrderResult<u8> {
    Ok(1)
}

#[limit("1/1h")]
async fn boxed() -> Result<impl Iterator<Item = u8>, Box<dyn Error + Send + Sync>> {
    Ok([1, 2].into_iter())
}

#[test]
fn a_refusal_becomes_the_functions_own_error() {
    assert_eq!(aliased(), Ok(1));
    let Failure::Busy(text) = aliased().unwrap_err();
    assert!(text.starts_with("over the limit 1/1h of integration::attribute::aliased: try again in "), "{text}");
    assert_eq!(poll_ready(boxed()).unwrap().count(), 2);
    let error = poll_ready(boxed()).map(|_| ()).unwrap_err();
    assert!(error.is::<Limited>());
}

#[limit("1/1h")]
/// Documented.
#[inline]
#[allow(unsafe_code, reason = "it is what is tested")]
unsafe fn careful() -> Result<u8, Limited> {
    Ok(1)
}

#[test]
fn an_unsafe_function_stays_unsafe() {
    #[allow(unsafe_code, reason = "it is what is tested")]
    // SAFETY: it does nothing that is not safe.
    let (first, second) = unsafe { (careful(), careful()) };
    assert!(first.is_ok() && second.is_err());
}

#[limit("1/1h", on_limit = refused_from_c)]
extern "C" fn called_from_c() -> u8 {
    1
}

fn refused_from_c() -> u8 {
    0
}

#[test]
fn extern_functions_are_limited() {
    assert_eq!([called_from_c(), called_from_c()], [1, 0]);
}

/// Names that the expansion uses too.
#[limit("1/1h", key = (key, cost), on_limit = names_fallback)]
fn names(key: u8, cost: u8, limited: u8, pending: u8, guard: u8) -> [u8; 5] {
    [key, cost, limited, pending, guard]
}

fn names_fallback(key: u8, cost: u8, limited: u8, pending: u8, guard: u8) -> [u8; 5] {
    [guard, pending, limited, cost, key]
}

#[test]
fn expansion_names_do_not_clash_with_arguments() {
    assert_eq!(names(1, 2, 3, 4, 5), [1, 2, 3, 4, 5]);
    assert_eq!(names(1, 2, 3, 4, 5), [5, 4, 3, 2, 1]);
}

mod renamed {
    pub(crate) use sluicegate as gate;
}

#[limit("1/1h", crate = crate::attribute::renamed::gate)]
fn through_another_name() -> Result<(), Limited> {
    Ok(())
}

#[test]
fn the_crate_can_have_another_name() {
    assert_eq!(count_allowed(2, through_another_name), 1);
}

#[limit("1/1h")]
fn early(stop: bool) -> Result<&'static str, Limited> {
    if stop {
        return Ok("early");
    }
    early(true)
}

#[test]
fn a_body_can_return_early_and_call_itself() {
    assert!(early(false).is_err(), "the inner call was refused");
}

#[test]
fn many_threads_never_exceed_the_limit() {
    #[limit("100/1h")]
    fn counted() -> Result<(), Limited> {
        Ok(())
    }
    let total: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| count_allowed(100, counted))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(total, 100);
}

//! Who gets a request.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_config::settings::{self, Balance, HealthCheck, HostHeader, Servers, UpstreamProtocol};
use sluicegate_engine::clock::{ClockHandle, ManualClock};

use super::super::{Attempt, Health, Tried, Upstream, UpstreamError, Upstreams};
use super::{plain, upstream, upstreams};

const SECOND: Duration = Duration::from_secs(1);

fn shop(servers: u16, balance: Balance, clock: &ManualClock) -> Arc<Upstream> {
    let urls = (1..=servers).map(|port| format!("http://127.0.0.1:{port}"));
    upstream(settings::Upstream { balance, ..plain(urls) }, clock.clone())
}

fn pick(upstream: &Arc<Upstream>) -> Attempt {
    upstream.pick(&Tried::default()).unwrap()
}

fn position(attempt: &Attempt) -> usize {
    attempt.server().position()
}

fn share(upstream: &Arc<Upstream>, requests: usize) -> Vec<usize> {
    let mut share = vec![0; upstream.servers().len()];
    (0..requests).for_each(|_| share[position(&pick(upstream))] += 1);
    share
}

/// Lets all requests to one server fail until it rests.
fn exhaust(upstream: &Arc<Upstream>, server: usize) {
    let mut others = Tried::default();
    upstream.servers().iter().filter(|it| it.position() != server).for_each(|it| others.add(it));
    (0..3).for_each(|_| upstream.pick(&others).unwrap().failed());
}

#[test]
fn round_robin_is_even_also_when_some_are_not_to_be_had() {
    let shop = shop(3, Balance::RoundRobin, &ManualClock::new());
    assert_eq!(share(&shop, 300), [100, 100, 100]);
    let order: Vec<_> = (0..6).map(|_| position(&pick(&shop))).collect();
    assert_eq!(order[..3], order[3..], "in turn");
    exhaust(&shop, 1);
    assert_eq!(share(&shop, 300), [150, 0, 150], "no neighbour gets a double share");
    shop.servers()[2].watched.take_out("asked in vain".to_owned());
    assert_eq!(share(&shop, 300), [300, 0, 0]);
}

#[test]
fn least_in_flight_fills_up_who_has_fewer() {
    let shop = shop(3, Balance::LeastInFlight, &ManualClock::new());
    assert_eq!(share(&shop, 300), [100, 100, 100], "ties in turn");
    let mut held: Vec<_> = (0..30).map(|_| pick(&shop)).collect();
    let in_flight = |held: &[Attempt]| {
        let mut count = [0; 3];
        held.iter().for_each(|attempt| count[position(attempt)] += 1);
        count
    };
    assert_eq!(in_flight(&held), [10, 10, 10]);
    held.retain(|attempt| position(attempt) != 2);
    held.extend((0..5).map(|_| pick(&shop)));
    assert_eq!(in_flight(&held), [10, 10, 5]);
    exhaust(&shop, 2);
    held.extend((0..4).map(|_| pick(&shop)));
    assert_eq!(in_flight(&held), [12, 12, 5]);
}

#[test]
fn a_request_is_never_sent_to_the_same_server_twice() {
    for servers in [1, 2, 3, 40] {
        let shop = shop(servers, Balance::RoundRobin, &ManualClock::new());
        let mut tried = Tried::default();
        let mut seen = Vec::new();
        while let Some(attempt) = shop.pick(&tried) {
            attempt.failed();
            tried.add(attempt.server());
            seen.push(position(&attempt));
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..usize::from(servers)).collect::<Vec<_>>());
    }
}

#[test]
fn what_is_built_in_has_no_servers() {
    let demo = settings::Upstream::new("demo", Servers::Builtin);
    let all = upstreams(demo, ManualClock::new());
    assert_eq!((all.position("demo"), all.position("shop")), (Some(0), None));
    assert!(all.get(0).pick(&Tried::default()).is_none());
    assert!(all.status()[0].servers.is_empty());
}

#[test]
fn the_host_is_the_one_the_file_says() {
    for (host, sent) in [
        (HostHeader::Client, None),
        (HostHeader::Server, Some("127.0.0.1:1")),
        (HostHeader::Fixed("shop.example:8080".to_owned()), Some("shop.example:8080")),
    ] {
        let shop = upstream(settings::Upstream { host, ..plain(["http://127.0.0.1:1/v1"]) }, ManualClock::new());
        assert_eq!(shop.host(&shop.servers()[0]).map(|host| host.to_str().unwrap()), sent);
    }
}

#[test]
fn after_a_rest_one_request_at_a_time_tries_the_server() {
    let clock = ManualClock::new();
    let shop = shop(2, Balance::RoundRobin, &clock);
    exhaust(&shop, 0);
    clock.advance(SECOND);
    let trial = pick(&shop);
    assert_eq!(position(&trial), 0, "it is tried as soon as it may be");
    assert_eq!(share(&shop, 10), [0, 10], "by one at a time");
    drop(trial);
    let trial = pick(&shop);
    assert_eq!(position(&trial), 0, "who was cancelled has found out nothing");
    trial.failed();
    drop(trial);
    clock.advance(SECOND);
    assert_eq!(share(&shop, 10), [0, 10], "the second rest is longer");
    clock.advance(SECOND);
    let trial = pick(&shop);
    trial.answered();
    assert_eq!(share(&shop, 10), [5, 5], "though the answer's body is still under way");
}

#[test]
fn if_all_rest_the_one_that_is_back_first_is_tried() {
    let clock = ManualClock::new();
    let shop = shop(3, Balance::RoundRobin, &clock);
    for server in [2, 0, 1] {
        exhaust(&shop, server);
        clock.advance(SECOND / 10);
    }
    assert_eq!(share(&shop, 10), [0, 0, 10]);
    let mut tried = Tried::default();
    tried.add(&shop.servers()[2]);
    assert_eq!(position(&shop.pick(&tried).unwrap()), 0);
    // Health checks are no guess: whoever they took out stays out.
    shop.servers()[2].watched.take_out("asked in vain".to_owned());
    assert_eq!(share(&shop, 10), [10, 0, 0]);
    shop.servers().iter().for_each(|server| server.watched.take_out("asked in vain".to_owned()));
    assert!(shop.pick(&Tried::default()).is_none());
}

#[test]
fn a_lone_server_is_always_tried() {
    let clock = ManualClock::new();
    let shop = shop(1, Balance::RoundRobin, &clock);
    for _ in 0..100 {
        pick(&shop).failed();
        clock.advance(SECOND / 10);
    }
    pick(&shop).answered();
    shop.servers()[0].watched.take_out("asked in vain".to_owned());
    assert!(shop.pick(&Tried::default()).is_none());
}

#[test]
fn operators_see_how_servers_fare() {
    let clock = ManualClock::new();
    let shop = shop(3, Balance::RoundRobin, &clock);
    let _held: Vec<_> = (0..4).map(|_| pick(&shop)).collect();
    exhaust(&shop, 1);
    clock.advance(SECOND / 4);
    shop.servers()[2].watched.take_out("answered 503 Service Unavailable".to_owned());
    let status = shop.status();
    assert_eq!(status.name, "shop");
    let seen: Vec<_> =
        status.servers.iter().map(|it| (it.url.as_str(), it.health.to_string(), it.in_flight, it.failures)).collect();
    assert_eq!(
        seen,
        [
            ("http://127.0.0.1:1", "well".to_owned(), 2, 0),
            ("http://127.0.0.1:2", "resting for 750 ms after 3 failures in a row".to_owned(), 1, 3),
            ("http://127.0.0.1:3", "out: answered 503 Service Unavailable".to_owned(), 1, 0),
        ]
    );
    clock.advance(SECOND);
    assert_eq!(shop.status().servers[1].health, Health::Resting { failures: 3, left: Duration::ZERO });
    assert_eq!(shop.status().servers[1].health.to_string(), "being tried after 3 failures in a row");
}

#[test]
fn many_threads_leave_nothing_in_flight() {
    let shop = shop(3, Balance::LeastInFlight, &ManualClock::new());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let shop = &shop;
            scope.spawn(move || {
                for nth in 0..5_000 {
                    let attempt = pick(shop);
                    match (nth + thread) % 7 {
                        0 => attempt.failed(),
                        1 => {}
                        _ => attempt.answered(),
                    }
                }
            });
        }
    });
    assert!(shop.status().servers.iter().all(|server| server.in_flight == 0));
}

#[test]
fn what_cannot_work_is_refused_with_the_remedy() {
    let refused = |settings: settings::Upstream| {
        let made = Upstreams::new(&[settings], Path::new("/nowhere"), &ClockHandle::system());
        made.err().map(|error: UpstreamError| error.to_string()).unwrap_or_default()
    };
    let health = |check| settings::Upstream { health: Some(check), ..plain(["http://127.0.0.1:1"]) };
    for (wrong, said) in [
        (plain(["http://127.0.0.1:1", "shop"]), "upstream shop: shop does not begin with http://"),
        (plain(["http://me:secret@shop"]), "http://***@shop has a login"),
        (settings::Upstream { host: HostHeader::Fixed("a b".to_owned()), ..plain(["http://a"]) }, "host a b cannot"),
        (plain(["https://sh_op!"]), "no certificate can be for"),
        (settings::Upstream { connections: Some(0), ..plain(["http://a"]) }, "connections is zero"),
        (health(HealthCheck { every: Duration::ZERO, ..HealthCheck::new("/") }), "health.every is zero"),
        (health(HealthCheck { failures: 0, ..HealthCheck::new("/") }), "health.failures is zero"),
        (health(HealthCheck::new("a b")), "health.path a b cannot be sent: write a path such as /healthz"),
        (health(HealthCheck::new("healthz")), "health.path healthz cannot be sent"),
        (settings::Upstream { protocol: UpstreamProtocol::Http2, ..health(HealthCheck::new("*")) }, "health.path *"),
        (settings::Upstream { ca: Some("ca.pem".to_owned()), ..plain(["https://a"]) }, "/nowhere/ca.pem"),
    ] {
        let error = refused(wrong);
        assert!(error.contains(said), "{error:?} does not say {said:?}");
    }
}

//! Tests of server selection.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_config::settings::{self, Balance, HealthCheck, HostHeader, Servers, UpstreamProtocol};
use sluicegate_engine::clock::{ClockHandle, ManualClock};

use super::super::{Attempt, AttemptedServers, Health, Upstream, UpstreamError, Upstreams};
use super::{plain, upstream, upstreams};

const SECOND: Duration = Duration::from_secs(1);

fn upstream_with(servers: u16, balance: Balance, clock: &ManualClock) -> Arc<Upstream> {
    let urls = (1..=servers).map(|port| format!("http://127.0.0.1:{port}"));
    upstream(settings::Upstream { balance, ..plain(urls) }, clock.clone())
}

fn pick(upstream: &Arc<Upstream>) -> Attempt {
    upstream.pick(&AttemptedServers::default()).unwrap()
}

fn position(attempt: &Attempt) -> usize {
    attempt.server().position()
}

fn share(upstream: &Arc<Upstream>, requests: usize) -> Vec<usize> {
    let mut share = vec![0; upstream.servers().len()];
    (0..requests).for_each(|_| share[position(&pick(upstream))] += 1);
    share
}

/// Fails all requests to one server until it is ejected.
fn eject(upstream: &Arc<Upstream>, server: usize) {
    let mut others = AttemptedServers::default();
    upstream.servers().iter().filter(|it| it.position() != server).for_each(|it| others.add(it));
    (0..3).for_each(|_| upstream.pick(&others).unwrap().failed());
}

#[test]
fn round_robin_is_even_when_some_servers_are_unavailable() {
    let shop = upstream_with(3, Balance::RoundRobin, &ManualClock::new());
    assert_eq!(share(&shop, 300), [100, 100, 100]);
    let order: Vec<_> = (0..6).map(|_| position(&pick(&shop))).collect();
    assert_eq!(order[..3], order[3..], "round robin");
    eject(&shop, 1);
    assert_eq!(share(&shop, 300), [150, 0, 150], "no other server gets a double share");
    shop.servers()[2].health.mark_unhealthy("no response".to_owned());
    assert_eq!(share(&shop, 300), [300, 0, 0]);
}

#[test]
fn least_in_flight_prefers_the_least_loaded_server() {
    let shop = upstream_with(3, Balance::LeastInFlight, &ManualClock::new());
    assert_eq!(share(&shop, 300), [100, 100, 100], "ties are broken round robin");
    let mut attempts: Vec<_> = (0..30).map(|_| pick(&shop)).collect();
    let in_flight = |attempts: &[Attempt]| {
        let mut count = [0; 3];
        attempts.iter().for_each(|attempt| count[position(attempt)] += 1);
        count
    };
    assert_eq!(in_flight(&attempts), [10, 10, 10]);
    attempts.retain(|attempt| position(attempt) != 2);
    attempts.extend((0..5).map(|_| pick(&shop)));
    assert_eq!(in_flight(&attempts), [10, 10, 5]);
    eject(&shop, 2);
    attempts.extend((0..4).map(|_| pick(&shop)));
    assert_eq!(in_flight(&attempts), [12, 12, 5]);
}

#[test]
fn a_request_is_never_sent_to_the_same_server_twice() {
    for servers in [1, 2, 3, 40] {
        let shop = upstream_with(servers, Balance::RoundRobin, &ManualClock::new());
        let mut attempted = AttemptedServers::default();
        let mut seen = Vec::new();
        while let Some(attempt) = shop.pick(&attempted) {
            attempt.failed();
            attempted.add(attempt.server());
            seen.push(position(&attempt));
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..usize::from(servers)).collect::<Vec<_>>());
    }
}

#[test]
fn a_builtin_upstream_has_no_servers() {
    let demo = settings::Upstream::new("demo", Servers::Builtin);
    let all = upstreams(demo, ManualClock::new());
    assert_eq!((all.position("demo"), all.position("shop")), (Some(0), None));
    assert!(all.get(0).pick(&AttemptedServers::default()).is_none());
    assert!(all.status()[0].servers.is_empty());
}

#[test]
fn the_host_header_follows_the_settings() {
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
fn after_an_ejection_one_request_at_a_time_probes_the_server() {
    let clock = ManualClock::new();
    let shop = upstream_with(2, Balance::RoundRobin, &clock);
    eject(&shop, 0);
    clock.advance(SECOND);
    let probe = pick(&shop);
    assert_eq!(position(&probe), 0, "it is probed as soon as its ejection ends");
    assert_eq!(share(&shop, 10), [0, 10], "by one request at a time");
    drop(probe);
    let probe = pick(&shop);
    assert_eq!(position(&probe), 0, "a cancelled probe proves nothing");
    probe.failed();
    drop(probe);
    clock.advance(SECOND);
    assert_eq!(share(&shop, 10), [0, 10], "the second ejection is longer");
    clock.advance(SECOND);
    let probe = pick(&shop);
    probe.succeeded();
    assert_eq!(share(&shop, 10), [5, 5], "although the response body is still in flight");
}

#[test]
fn if_all_servers_are_ejected_the_first_to_return_is_tried() {
    let clock = ManualClock::new();
    let shop = upstream_with(3, Balance::RoundRobin, &clock);
    for server in [2, 0, 1] {
        eject(&shop, server);
        clock.advance(SECOND / 10);
    }
    assert_eq!(share(&shop, 10), [0, 0, 10]);
    let mut attempted = AttemptedServers::default();
    attempted.add(&shop.servers()[2]);
    assert_eq!(position(&shop.pick(&attempted).unwrap()), 0);
    // Health checks are authoritative: an unhealthy server stays excluded.
    shop.servers()[2].health.mark_unhealthy("no response".to_owned());
    assert_eq!(share(&shop, 10), [10, 0, 0]);
    shop.servers().iter().for_each(|server| server.health.mark_unhealthy("no response".to_owned()));
    assert!(shop.pick(&AttemptedServers::default()).is_none());
}

#[test]
fn a_lone_server_is_always_tried() {
    let clock = ManualClock::new();
    let shop = upstream_with(1, Balance::RoundRobin, &clock);
    for _ in 0..100 {
        pick(&shop).failed();
        clock.advance(SECOND / 10);
    }
    pick(&shop).succeeded();
    shop.servers()[0].health.mark_unhealthy("no response".to_owned());
    assert!(shop.pick(&AttemptedServers::default()).is_none());
}

#[test]
fn status_reports_server_health() {
    let clock = ManualClock::new();
    let shop = upstream_with(3, Balance::RoundRobin, &clock);
    let _attempts: Vec<_> = (0..4).map(|_| pick(&shop)).collect();
    eject(&shop, 1);
    clock.advance(SECOND / 4);
    shop.servers()[2].health.mark_unhealthy("status 503 Service Unavailable".to_owned());
    let status = shop.status();
    assert_eq!(status.name, "shop");
    let seen: Vec<_> =
        status.servers.iter().map(|it| (it.url.as_str(), it.health.to_string(), it.in_flight, it.failures)).collect();
    assert_eq!(
        seen,
        [
            ("http://127.0.0.1:1", "healthy".to_owned(), 2, 0),
            ("http://127.0.0.1:2", "ejected for 750 ms after 3 consecutive failures".to_owned(), 1, 3),
            ("http://127.0.0.1:3", "unhealthy: status 503 Service Unavailable".to_owned(), 1, 0),
        ]
    );
    clock.advance(SECOND);
    assert_eq!(shop.status().servers[1].health, Health::Ejected { failures: 3, remaining: Duration::ZERO });
    assert_eq!(shop.status().servers[1].health.to_string(), "probing after 3 consecutive failures");
}

#[test]
fn many_threads_leave_nothing_in_flight() {
    let shop = upstream_with(3, Balance::LeastInFlight, &ManualClock::new());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let shop = &shop;
            scope.spawn(move || {
                for index in 0..5_000 {
                    let attempt = pick(shop);
                    match (index + thread) % 7 {
                        0 => attempt.failed(),
                        1 => {}
                        _ => attempt.succeeded(),
                    }
                }
            });
        }
    });
    assert!(shop.status().servers.iter().all(|server| server.in_flight == 0));
}

#[test]
fn invalid_settings_are_rejected_with_a_remedy() {
    let refused = |settings: settings::Upstream| {
        let result = Upstreams::new(&[settings], Path::new("/nowhere"), &ClockHandle::system());
        result.err().map(|error: UpstreamError| error.to_string()).unwrap_or_default()
    };
    let health = |check| settings::Upstream { health: Some(check), ..plain(["http://127.0.0.1:1"]) };
    for (wrong, message) in [
        (plain(["http://127.0.0.1:1", "shop"]), "upstream shop: shop does not start with http://"),
        (plain(["http://me:secret@shop"]), "http://***@shop must not contain credentials"),
        (
            settings::Upstream { host: HostHeader::Fixed("a b".to_owned()), ..plain(["http://a"]) },
            "host a b is invalid",
        ),
        (plain(["https://sh_op!"]), "not valid in a certificate"),
        (settings::Upstream { max_connections: Some(0), ..plain(["http://a"]) }, "max_connections is zero"),
        (health(HealthCheck { interval: Duration::ZERO, ..HealthCheck::new("/") }), "health.interval is zero"),
        (health(HealthCheck { failures: 0, ..HealthCheck::new("/") }), "health.failures is zero"),
        (health(HealthCheck::new("a b")), "health.path a b is invalid: write a path such as /healthz"),
        (health(HealthCheck::new("healthz")), "health.path healthz is invalid"),
        (settings::Upstream { protocol: UpstreamProtocol::Http2, ..health(HealthCheck::new("*")) }, "health.path *"),
        (settings::Upstream { ca: Some("ca.pem".to_owned()), ..plain(["https://a"]) }, "/nowhere/ca.pem"),
    ] {
        let error = refused(wrong);
        assert!(error.contains(message), "{error:?} does not contain {message:?}");
    }
}

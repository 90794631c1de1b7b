//! Upstream failures as seen by clients, and the release of all resources.

use crate::support;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sluicegate_engine::clock::ManualClock;
use sluicegate_gateway::Health;
use socket2::{Domain, Socket, Type};
use support::raw::{Client, RawResponse};
use support::scripted::{Latch, ScriptedServer};
use support::{TestGateway, wait_until};

const SECOND: Duration = Duration::from_secs(1);

/// Rule file with two permits and these servers; `upstream` holds further upstream settings.
fn file(servers: &[SocketAddr], upstream: &str) -> String {
    let urls: Vec<String> = servers.iter().map(|server| format!("\"http://{server}\"")).collect();
    format!(
        "gateway:\n  listen: 127.0.0.1:0\n  threads: 1\n  max_in_flight: 4\n  upstreams: {{ shop: {{ servers: [{}], {upstream} }} }}\n  \
         routes: [{{ path: \"/{{*rest}}\", upstream: shop }}]\n\
         rules: [{{ name: two, limits: [{{ concurrency: 2 }}] }}]\n",
        urls.join(", ")
    )
}

/// An address without a listener.
fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// All resources were released: in-flight permits, upstream connections, and both permits of the rule.
fn assert_all_permits_released(gateway: &TestGateway) {
    let running = gateway.running();
    wait_until("requests are in flight", || running.stats().listener().counts().in_flight == 0);
    wait_until("requests are counted as in flight", || {
        running.stats().upstreams().iter().flat_map(|upstream| &upstream.servers).all(|server| server.in_flight == 0)
    });
    let request = sluicegate_engine::rule::Request::new("GET", "/");
    wait_until("permits leaked", || {
        let all: Vec<_> = (0..2).map(|_| running.sluice().decide(&request)).collect();
        all.iter().all(sluicegate_engine::Outcome::is_admitted)
    });
}

fn post(client: &mut Client, path: &str, body: &str) -> Option<RawResponse> {
    client.send(format!("POST {path} HTTP/1.1\r\nHost: shop\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    client.read_response()
}

fn unhealthy_servers(gateway: &TestGateway) -> Vec<bool> {
    let status = gateway.running().stats().upstreams();
    status[0].servers.iter().map(|server| matches!(server.health, Health::Unhealthy { .. })).collect()
}

#[test]
fn an_unreachable_server_is_a_502_and_keeps_the_client_connection() {
    let gateway = TestGateway::from_yaml(&file(&[closed_port()], ""));
    let mut client = Client::connect(gateway.at);
    for _ in 0..5 {
        let response = client.get("/");
        assert_eq!((response.status, response.header("content-type")), (502, Some("application/problem+json")));
        assert!(response.text().contains("no server of shop could be reached"), "{}", response.text());
    }
    assert_eq!(post(&mut client, "/", "x").unwrap().status, 502);
    assert_all_permits_released(&gateway);
}

#[test]
fn a_server_that_closes_at_once_is_a_502() {
    let server = ScriptedServer::new(|_| {});
    let gateway = TestGateway::from_yaml(&file(&[server.at], ""));
    let mut client = Client::connect(gateway.at);
    for _ in 0..5 {
        assert_eq!(client.get("/").status, 502);
        assert_eq!(post(&mut client, "/", "x").unwrap().status, 502);
    }
    assert_all_permits_released(&gateway);
    wait_until("connections leaked", || server.open() == 0);
}

#[test]
fn a_connect_timeout_is_a_504() {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let at = listener.local_addr().unwrap();
    let waiting = |_| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        drop(socket.connect(&at));
        socket
    };
    let _waiting: Vec<Socket> = (0..8).map(waiting).collect();
    let clock = ManualClock::new();
    let gateway =
        TestGateway::with_clock(&file(&[at.as_socket().unwrap()], "timeouts: { connect: 700ms }"), clock.clone());
    let mut client = Client::connect(gateway.at);
    client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
    wait_until("no connection attempt", || gateway.running().stats().upstreams()[0].servers[0].in_flight == 1);
    clock.advance(Duration::from_millis(650));
    std::thread::yield_now();
    assert_eq!(gateway.running().stats().upstreams()[0].servers[0].in_flight, 1);
    // Regardless of the order of connecting and advancing the clock, the timeout has expired then.
    clock.advance(Duration::from_millis(700));
    assert_eq!(client.read_response().unwrap().status, 504);
    assert_all_permits_released(&gateway);
}

#[test]
fn a_response_timeout_is_a_504() {
    let server = ScriptedServer::new(|connection| {
        connection.request();
        connection.wait_for_end();
    });
    let clock = ManualClock::new();
    let gateway = TestGateway::with_clock(&file(&[server.at], "timeouts: { response: 3s }"), clock.clone());
    let mut client = Client::connect(gateway.at);
    client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
    wait_until("the server has the request", || server.requests().len() == 1);
    clock.advance(3 * SECOND - Duration::from_nanos(1));
    assert_eq!(gateway.running().stats().upstreams()[0].servers[0].in_flight, 1);
    clock.advance(Duration::from_nanos(1));
    let response = client.read_response().unwrap();
    assert_eq!(response.status, 504);
    assert!(response.text().contains("shop did not respond in time"), "{}", response.text());
    // The server may still be processing the request: its connection is not reused.
    wait_until("the connection leaked", || server.open() == 0);
    assert_eq!(server.requests().len(), 1, "a request that may have been executed is not retried");
    assert_all_permits_released(&gateway);
}

#[test]
fn a_stalled_response_is_aborted_and_never_looks_complete() {
    for head in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
        let body = if head.contains("chunked") { "5\r\nbegun\r\n" } else { "begun" };
        let server = ScriptedServer::new(move |connection| {
            connection.request();
            connection.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}"));
            connection.wait_for_end();
        });
        let clock = ManualClock::new();
        let gateway = TestGateway::with_clock(&file(&[server.at], "timeouts: { body: 2s }"), clock.clone());
        let mut client = Client::connect(gateway.at);
        client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
        let start = client.exactly(15).unwrap();
        assert_eq!(start, b"HTTP/1.1 200 OK");
        wait_until("the part is read", || gateway.running().stats().upstreams()[0].servers[0].in_flight == 1);
        let reading = std::thread::spawn(move || client.rest());
        wait_until("the stalled response is aborted", || {
            clock.advance(Duration::from_millis(100));
            std::thread::sleep(Duration::from_millis(1));
            server.open() == 0
        });
        let rest = String::from_utf8(reading.join().unwrap()).unwrap();
        assert!(rest.contains("begun") && !rest.ends_with("0\r\n\r\n"), "{rest:?}");
        assert_all_permits_released(&gateway);
    }
}

#[test]
fn an_aborted_response_never_looks_complete() {
    for (head, body) in [("Content-Length: 100", "begun"), ("Transfer-Encoding: chunked", "5\r\nbegun\r\n")] {
        let server = ScriptedServer::new(move |connection| {
            connection.request();
            connection.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}"));
        });
        let gateway = TestGateway::from_yaml(&file(&[server.at], ""));
        for _ in 0..3 {
            let mut client = Client::connect(gateway.at);
            client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
            assert_eq!(client.read_response(), None, "{head}");
        }
        assert_all_permits_released(&gateway);
        wait_until("connections leaked", || server.open() == 0);
    }
}

#[test]
fn an_invalid_response_is_a_502() {
    for response_text in [
        "garbage\r\n\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        "\0\0\0\0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    ] {
        let server = ScriptedServer::new(move |connection| {
            connection.request();
            connection.send(response_text);
            connection.wait_for_end();
        });
        let gateway = TestGateway::from_yaml(&file(&[server.at], "retries: 0"));
        let mut client = Client::connect(gateway.at);
        let response = client.get("/");
        assert_eq!(response.status, 502, "{response_text:?}: {response:?}");
        wait_until("the connection leaked", || server.open() == 0);
        assert_all_permits_released(&gateway);
    }
}

#[test]
fn idle_connections_closed_by_servers_cause_no_errors() {
    // Responds once per connection without announcing the close, and closes.
    let server = ScriptedServer::new(|connection| {
        if connection.request() {
            connection.respond("once");
        }
    });
    let gateway = TestGateway::from_yaml(&file(&[server.at], ""));
    let mut client = Client::connect(gateway.at);
    for number in 0..300 {
        let response = client.get("/");
        assert_eq!((response.status, response.text().as_str()), (200, "once"), "request {number}");
    }
    assert_all_permits_released(&gateway);
    assert_eq!(server.requests().len(), 300);
}

#[test]
fn non_idempotent_requests_are_not_retried() {
    // Reads every request and responds to the first of each connection only.
    let server = ScriptedServer::new(|connection| {
        if connection.request() {
            connection.respond("once");
        }
        connection.request();
    });
    let gateway = TestGateway::from_yaml(&file(&[server.at], ""));
    let mut client = Client::connect(gateway.at);
    assert_eq!(post(&mut client, "/orders", "1").unwrap().status, 200);
    assert_eq!(post(&mut client, "/orders", "2").unwrap().status, 502);
    assert_eq!(server.requests(), ["POST /orders HTTP/1.1"; 2]);
    // An idempotent request is retried.
    assert_eq!(post(&mut client, "/orders", "3").unwrap().status, 200);
    assert_eq!(client.get("/").status, 200);
    assert_eq!(server.requests().len(), 5);
    assert_all_permits_released(&gateway);
}

#[test]
fn a_request_that_breaks_connections_does_not_break_all_of_them() {
    let latch = Latch::default();
    let server = {
        let latch = latch.clone();
        ScriptedServer::new(move |connection| {
            if connection.request() {
                latch.wait();
                connection.respond("once");
            }
            connection.request();
        })
    };
    let gateway = TestGateway::from_yaml(&file(&[server.at], "").replace("concurrency: 2", "concurrency: 4"));
    let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(gateway.at)).collect();
    clients.iter_mut().for_each(|client| client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n"));
    wait_until("all are in flight", || server.requests().len() == 4);
    latch.open();
    assert!(clients.iter_mut().all(|client| client.read_response().unwrap().status == 200));
    // Four connections are idle now. The request breaks one of them and is retried on a new one.
    assert_eq!(clients[0].get("/bad").status, 200);
    assert_eq!(server.requests().iter().filter(|line| line.contains("/bad")).count(), 2);
    assert_all_permits_released(&gateway);
}

#[test]
fn only_safe_requests_are_retried_on_another_server() {
    let broken = ScriptedServer::new(|connection| {
        connection.request();
    });
    let well = ScriptedServer::new(|connection| connection.respond_all("well"));
    let gateway = TestGateway::from_yaml(&file(&[broken.at, well.at], ""));
    let mut client = Client::connect(gateway.at);
    // Round robin: the first attempt goes to the broken server and fails there; the retry goes to the other one.
    assert_eq!(client.get("/a").status, 200);
    assert_eq!((broken.requests().len(), well.requests().len()), (1, 1));
    let mut lost = 0;
    for _ in 0..4 {
        lost += usize::from(post(&mut client, "/b", "x").unwrap().status == 502);
    }
    let seen = |server: &ScriptedServer| server.requests().iter().filter(|line| line.starts_with("POST")).count();
    assert_eq!(seen(&broken) + seen(&well), 4, "each was sent once");
    assert!(lost >= 1 && lost == seen(&broken), "{lost}");

    // If the server cannot have seen the request, any request is retried on the next server.
    let gateway = TestGateway::from_yaml(&file(&[closed_port(), well.at], ""));
    let mut client = Client::connect(gateway.at);
    for _ in 0..6 {
        assert_eq!(post(&mut client, "/c", "x").unwrap().status, 200);
    }
    assert_all_permits_released(&gateway);
}

#[test]
fn zero_retries_disables_retries() {
    let broken = ScriptedServer::new(|connection| {
        connection.request();
    });
    let other = ScriptedServer::new(|connection| {
        connection.request();
    });
    let gateway = TestGateway::from_yaml(&file(&[broken.at, other.at], "retries: 0"));
    assert_eq!(Client::connect(gateway.at).get("/").status, 502);
    assert_eq!(broken.requests().len() + other.requests().len(), 1);
    assert_all_permits_released(&gateway);
}

#[test]
fn health_checks_remove_and_restore_servers() {
    let is_well = Arc::new(AtomicBool::new(true));
    let server = || {
        let is_well = Arc::clone(&is_well);
        ScriptedServer::new(move |connection| {
            while connection.request() {
                let status = if is_well.load(Ordering::SeqCst) { "200 OK" } else { "500 Sick" };
                connection.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
            }
        })
    };
    let (one, two) = (server(), server());
    let clock = ManualClock::new();
    let health = "health: { path: /health, interval: 1s, failures: 2, successes: 2 }";
    let gateway = TestGateway::with_clock(&file(&[one.at, two.at], health), clock.clone());
    let mut client = Client::connect(gateway.at);
    assert_eq!(client.get("/").status, 200);
    let pass = |expected: [bool; 2]| {
        wait_until("the health check detects it", || {
            clock.advance(Duration::from_millis(50));
            std::thread::sleep(Duration::from_millis(1));
            unhealthy_servers(&gateway) == expected
        });
    };
    is_well.store(false, Ordering::SeqCst);
    pass([true, true]);
    let count_requests =
        |path: &str| [&one, &two].map(|it| it.requests().iter().filter(|line| line.contains(path)).count());
    let before = count_requests("GET / ");
    let mut client = Client::connect(gateway.at);
    let response = client.get("/");
    assert_eq!((response.status, response.header("retry-after")), (503, Some("1")));
    assert!(response.text().contains("no healthy server of shop"), "{}", response.text());
    assert_eq!(count_requests("GET / "), before, "an unhealthy server gets no requests");
    is_well.store(true, Ordering::SeqCst);
    pass([false, false]);
    assert_eq!(Client::connect(gateway.at).get("/").status, 200);
    assert_all_permits_released(&gateway);
}

#[test]
fn a_client_disconnect_cancels_its_request() {
    let server = ScriptedServer::new(|connection| {
        connection.request();
        connection.wait_for_end();
    });
    let gateway = TestGateway::from_yaml(&file(&[server.at], ""));
    for number in 1..=5 {
        let mut client = Client::connect(gateway.at);
        client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
        wait_until("the server has the request", || server.requests().len() == number);
        drop(client);
        wait_until("the server sees the end", || server.open() == 0);
    }
    assert_all_permits_released(&gateway);
}

#[test]
fn a_client_disconnect_cancels_the_response() {
    let server = ScriptedServer::new(|connection| {
        connection.request();
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nbegun");
        connection.wait_for_end();
    });
    let gateway = TestGateway::from_yaml(&file(&[server.at], ""));
    for _ in 0..5 {
        let mut client = Client::connect(gateway.at);
        client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
        client.exactly(15).unwrap();
        drop(client);
        wait_until("the server sees the end", || server.open() == 0);
    }
    assert_all_permits_released(&gateway);
}

#[test]
fn a_client_disconnect_leaves_the_queue() {
    let latch = Latch::default();
    let server = {
        let latch = latch.clone();
        ScriptedServer::new(move |connection| {
            while connection.request() {
                latch.wait();
                connection.respond("done");
            }
        })
    };
    let rules = "rules: [{ name: one, limits: [{ concurrency: 1 }], on_limit: { queue: { max_wait: 50s } } }]";
    let gateway = TestGateway::from_yaml(&support::proxy_yaml(&[server.at], rules));
    let mut first = Client::connect(gateway.at);
    first.send("GET /1 HTTP/1.1\r\nHost: shop\r\n\r\n");
    wait_until("the first is in flight", || server.requests().len() == 1);
    let waiting = || gateway.running().sluice().counts()[0].waiting;
    let mut others: Vec<Client> = Vec::new();
    for number in 1..=3 {
        let mut client = Client::connect(gateway.at);
        client.send(format!("GET /w{number} HTTP/1.1\r\nHost: shop\r\n\r\n"));
        wait_until("one more is queued", || waiting() == number);
        others.push(client);
    }
    drop(others.remove(0));
    wait_until("one has left the queue", || waiting() == 2);
    latch.open();
    assert_eq!(first.read_response().unwrap().status, 200);
    for mut client in others {
        assert_eq!(client.read_response().unwrap().status, 200);
    }
    assert_eq!(server.requests().iter().filter(|line| line.contains("/w1")).count(), 0, "it was not sent");
    wait_until("no request waits", || waiting() == 0);
}

#[test]
fn upstream_connections_are_bounded_and_none_leaks() {
    let server = ScriptedServer::new(|connection| connection.respond_all("well"));
    let gateway =
        TestGateway::from_yaml(&file(&[server.at], "max_connections: 1").replace("concurrency: 2", "concurrency: 50"));
    let at = gateway.at;
    let clients: Vec<_> = (0..8)
        .map(|_| {
            std::thread::spawn(move || {
                let mut client = Client::connect(at);
                (0..10).map(|_| client.get("/").status).collect::<Vec<_>>()
            })
        })
        .collect();
    for client in clients {
        // Four requests are in flight at a time; the others queue.
        assert_eq!(client.join().unwrap(), [200; 10]);
    }
    wait_until("only one connection remains", || server.open() <= 1);
    assert_all_permits_released(&gateway);
}

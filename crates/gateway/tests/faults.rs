//! What clients see when the programs behind the gateway fail, and that nothing is left behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test")]

mod support;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sluicegate_engine::clock::ManualClock;
use sluicegate_gateway::Health;
use socket2::{Domain, Socket, Type};
use support::raw::{Answer, Client};
use support::scripted::{Latch, Scripted};
use support::{Served, until};

const SECOND: Duration = Duration::from_secs(1);

/// A gateway with two permits before these servers; `upstream` is what else is said of them.
fn file(servers: &[SocketAddr], upstream: &str) -> String {
    let urls: Vec<String> = servers.iter().map(|server| format!("\"http://{server}\"")).collect();
    format!(
        "gateway:\n  listen: 127.0.0.1:0\n  threads: 1\n  in_flight: 4\n  upstreams: {{ shop: {{ servers: [{}], {upstream} }} }}\n  \
         routes: [{{ path: \"/{{*rest}}\", upstream: shop }}]\n\
         rules: [{{ name: two, limits: [{{ concurrency: 2 }}] }}]\n",
        urls.join(", ")
    )
}

/// An address where nobody listens.
fn deserted() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Everything that requests held is back: turns, places at servers, and both permits of the rule.
fn assert_all_is_back(served: &Served) {
    let running = served.running();
    until("requests are under way", || running.vitals().door().counts().in_flight == 0);
    until("requests are counted as under way", || {
        running.vitals().upstreams().iter().flat_map(|upstream| &upstream.servers).all(|server| server.in_flight == 0)
    });
    let request = sluicegate_engine::rule::Request::new("GET", "/");
    until("permits are missing", || {
        let all: Vec<_> = (0..2).map(|_| running.sluice().decide(&request)).collect();
        all.iter().all(sluicegate_engine::Outcome::is_admitted)
    });
}

fn post(client: &mut Client, path: &str, body: &str) -> Option<Answer> {
    client.send(format!("POST {path} HTTP/1.1\r\nHost: shop\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    client.answer()
}

fn out(served: &Served) -> Vec<bool> {
    let status = served.running().vitals().upstreams();
    status[0].servers.iter().map(|server| matches!(server.health, Health::Out { .. })).collect()
}

#[test]
fn a_server_that_is_not_there_is_a_502_and_the_connection_goes_on() {
    let served = Served::of(&file(&[deserted()], ""));
    let mut client = Client::connect(served.at);
    for _ in 0..5 {
        let answer = client.get("/");
        assert_eq!((answer.status, answer.header("content-type")), (502, Some("application/problem+json")));
        assert!(answer.text().contains("no server of shop could be reached"), "{}", answer.text());
    }
    assert_eq!(post(&mut client, "/", "x").unwrap().status, 502);
    assert_all_is_back(&served);
}

#[test]
fn a_server_that_closes_at_once_is_a_502() {
    let server = Scripted::new(|_| {});
    let served = Served::of(&file(&[server.at], ""));
    let mut client = Client::connect(served.at);
    for _ in 0..5 {
        assert_eq!(client.get("/").status, 502);
        assert_eq!(post(&mut client, "/", "x").unwrap().status, 502);
    }
    assert_all_is_back(&served);
    until("connections are left", || server.open() == 0);
}

#[test]
fn a_connection_that_never_comes_about_is_a_504_at_the_timeout() {
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
    let served = Served::with_clock(&file(&[at.as_socket().unwrap()], "timeouts: { connect: 700ms }"), clock.clone());
    let mut client = Client::connect(served.at);
    client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
    until("nobody connects", || served.running().vitals().upstreams()[0].servers[0].in_flight == 1);
    clock.advance(Duration::from_millis(650));
    std::thread::yield_now();
    assert_eq!(served.running().vitals().upstreams()[0].servers[0].in_flight, 1);
    // Whether the connection was begun before the time went on or after, it is over then.
    clock.advance(Duration::from_millis(700));
    assert_eq!(client.answer().unwrap().status, 504);
    assert_all_is_back(&served);
}

#[test]
fn an_answer_that_does_not_begin_is_a_504_at_the_timeout() {
    let server = Scripted::new(|caller| {
        caller.request();
        caller.wait_for_end();
    });
    let clock = ManualClock::new();
    let served = Served::with_clock(&file(&[server.at], "timeouts: { answer: 3s }"), clock.clone());
    let mut client = Client::connect(served.at);
    client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
    until("the server has the request", || server.requests().len() == 1);
    clock.advance(3 * SECOND - Duration::from_nanos(1));
    assert_eq!(served.running().vitals().upstreams()[0].servers[0].in_flight, 1);
    clock.advance(Duration::from_nanos(1));
    let answer = client.answer().unwrap();
    assert_eq!(answer.status, 504);
    assert!(answer.text().contains("shop did not answer in time"), "{}", answer.text());
    // It may be at work on it still: its connection is not used for anybody else.
    until("the connection is left", || server.open() == 0);
    assert_eq!(server.requests().len(), 1, "what may have been done is not repeated");
    assert_all_is_back(&served);
}

#[test]
fn an_answer_that_stalls_is_cut_off_and_never_looks_complete() {
    for head in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
        let body = if head.contains("chunked") { "5\r\nbegun\r\n" } else { "begun" };
        let server = Scripted::new(move |caller| {
            caller.request();
            caller.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}"));
            caller.wait_for_end();
        });
        let clock = ManualClock::new();
        let served = Served::with_clock(&file(&[server.at], "timeouts: { body: 2s }"), clock.clone());
        let mut client = Client::connect(served.at);
        client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
        let begun = client.exactly(15).unwrap();
        assert_eq!(begun, b"HTTP/1.1 200 OK");
        until("the part is read", || served.running().vitals().upstreams()[0].servers[0].in_flight == 1);
        let reading = std::thread::spawn(move || client.rest());
        until("the stalled answer is given up", || {
            clock.advance(Duration::from_millis(100));
            std::thread::sleep(Duration::from_millis(1));
            server.open() == 0
        });
        let rest = String::from_utf8(reading.join().unwrap()).unwrap();
        assert!(rest.contains("begun") && !rest.ends_with("0\r\n\r\n"), "{rest:?}");
        assert_all_is_back(&served);
    }
}

#[test]
fn an_answer_that_breaks_off_never_looks_complete() {
    for (head, body) in [("Content-Length: 100", "begun"), ("Transfer-Encoding: chunked", "5\r\nbegun\r\n")] {
        let server = Scripted::new(move |caller| {
            caller.request();
            caller.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}"));
        });
        let served = Served::of(&file(&[server.at], ""));
        for _ in 0..3 {
            let mut client = Client::connect(served.at);
            client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
            assert_eq!(client.answer(), None, "{head}");
        }
        assert_all_is_back(&served);
        until("connections are left", || server.open() == 0);
    }
}

#[test]
fn what_is_no_answer_is_a_502() {
    for said in [
        "garbage\r\n\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        "\0\0\0\0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    ] {
        let server = Scripted::new(move |caller| {
            caller.request();
            caller.send(said);
            caller.wait_for_end();
        });
        let served = Served::of(&file(&[server.at], "retries: 0"));
        let mut client = Client::connect(served.at);
        let answer = client.get("/");
        assert_eq!(answer.status, 502, "{said:?}: {answer:?}");
        until("the connection is left", || server.open() == 0);
        assert_all_is_back(&served);
    }
}

#[test]
fn kept_connections_that_servers_close_are_nobodys_error() {
    // It says nothing of closing, answers once on each connection, and is gone.
    let server = Scripted::new(|caller| {
        if caller.request() {
            caller.answer("once");
        }
    });
    let served = Served::of(&file(&[server.at], ""));
    let mut client = Client::connect(served.at);
    for number in 0..300 {
        let answer = client.get("/");
        assert_eq!((answer.status, answer.text().as_str()), (200, "once"), "request {number}");
    }
    assert_all_is_back(&served);
    assert_eq!(server.requests().len(), 300);
}

#[test]
fn what_may_have_been_done_is_not_done_twice() {
    // Reads every request, and answers the first of each connection only.
    let server = Scripted::new(|caller| {
        if caller.request() {
            caller.answer("once");
        }
        caller.request();
    });
    let served = Served::of(&file(&[server.at], ""));
    let mut client = Client::connect(served.at);
    assert_eq!(post(&mut client, "/orders", "1").unwrap().status, 200);
    assert_eq!(post(&mut client, "/orders", "2").unwrap().status, 502);
    assert_eq!(server.requests(), ["POST /orders HTTP/1.1"; 2]);
    // One that changes nothing is tried once more.
    assert_eq!(post(&mut client, "/orders", "3").unwrap().status, 200);
    assert_eq!(client.get("/").status, 200);
    assert_eq!(server.requests().len(), 5);
    assert_all_is_back(&served);
}

#[test]
fn a_request_that_ends_connections_does_not_end_them_all() {
    let latch = Latch::default();
    let server = {
        let latch = latch.clone();
        Scripted::new(move |caller| {
            if caller.request() {
                latch.wait();
                caller.answer("once");
            }
            caller.request();
        })
    };
    let served = Served::of(&file(&[server.at], "").replace("concurrency: 2", "concurrency: 4"));
    let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(served.at)).collect();
    clients.iter_mut().for_each(|client| client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n"));
    until("all are under way", || server.requests().len() == 4);
    latch.open();
    assert!(clients.iter_mut().all(|client| client.answer().unwrap().status == 200));
    // Four connections are kept now. It ends one of them, and gets a new one.
    assert_eq!(clients[0].get("/bad").status, 200);
    assert_eq!(server.requests().iter().filter(|line| line.contains("/bad")).count(), 2);
    assert_all_is_back(&served);
}

#[test]
fn only_what_is_safe_is_tried_on_the_next_server() {
    let broken = Scripted::new(|caller| {
        caller.request();
    });
    let well = Scripted::new(|caller| caller.answer_all("well"));
    let served = Served::of(&file(&[broken.at, well.at], ""));
    let mut client = Client::connect(served.at);
    // In turn: the first goes to the broken one, is lost there, and is tried on the other.
    assert_eq!(client.get("/a").status, 200);
    assert_eq!((broken.requests().len(), well.requests().len()), (1, 1));
    let mut lost = 0;
    for _ in 0..4 {
        lost += usize::from(post(&mut client, "/b", "x").unwrap().status == 502);
    }
    let seen = |server: &Scripted| server.requests().iter().filter(|line| line.starts_with("POST")).count();
    assert_eq!(seen(&broken) + seen(&well), 4, "each was sent once");
    assert!(lost >= 1 && lost == seen(&broken), "{lost}");

    // Where nothing can have been seen, everything is tried on the next.
    let served = Served::of(&file(&[deserted(), well.at], ""));
    let mut client = Client::connect(served.at);
    for _ in 0..6 {
        assert_eq!(post(&mut client, "/c", "x").unwrap().status, 200);
    }
    assert_all_is_back(&served);
}

#[test]
fn no_retries_are_no_retries() {
    let broken = Scripted::new(|caller| {
        caller.request();
    });
    let other = Scripted::new(|caller| {
        caller.request();
    });
    let served = Served::of(&file(&[broken.at, other.at], "retries: 0"));
    assert_eq!(Client::connect(served.at).get("/").status, 502);
    assert_eq!(broken.requests().len() + other.requests().len(), 1);
    assert_all_is_back(&served);
}

#[test]
fn health_checks_take_servers_out_and_let_them_in_again() {
    let is_well = Arc::new(AtomicBool::new(true));
    let server = || {
        let is_well = Arc::clone(&is_well);
        Scripted::new(move |caller| {
            while caller.request() {
                let status = if is_well.load(Ordering::SeqCst) { "200 OK" } else { "500 Sick" };
                caller.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
            }
        })
    };
    let (one, two) = (server(), server());
    let clock = ManualClock::new();
    let health = "health: { path: /health, every: 1s, failures: 2, successes: 2 }";
    let served = Served::with_clock(&file(&[one.at, two.at], health), clock.clone());
    let mut client = Client::connect(served.at);
    assert_eq!(client.get("/").status, 200);
    let pass = |expected: [bool; 2]| {
        until("health checks find out", || {
            clock.advance(Duration::from_millis(50));
            std::thread::sleep(Duration::from_millis(1));
            out(&served) == expected
        });
    };
    is_well.store(false, Ordering::SeqCst);
    pass([true, true]);
    let asked = |path: &str| [&one, &two].map(|it| it.requests().iter().filter(|line| line.contains(path)).count());
    let before = asked("GET / ");
    let mut client = Client::connect(served.at);
    let answer = client.get("/");
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    assert!(answer.text().contains("no server of shop is well"), "{}", answer.text());
    assert_eq!(asked("GET / "), before, "who is out is not asked");
    is_well.store(true, Ordering::SeqCst);
    pass([false, false]);
    assert_eq!(Client::connect(served.at).get("/").status, 200);
    assert_all_is_back(&served);
}

#[test]
fn a_client_that_goes_away_takes_its_request_along() {
    let server = Scripted::new(|caller| {
        caller.request();
        caller.wait_for_end();
    });
    let served = Served::of(&file(&[server.at], ""));
    for number in 1..=5 {
        let mut client = Client::connect(served.at);
        client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
        until("the server has the request", || server.requests().len() == number);
        drop(client);
        until("the server sees the end", || server.open() == 0);
    }
    assert_all_is_back(&served);
}

#[test]
fn a_client_that_goes_away_amid_the_answer_takes_it_along() {
    let server = Scripted::new(|caller| {
        caller.request();
        caller.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nbegun");
        caller.wait_for_end();
    });
    let served = Served::of(&file(&[server.at], ""));
    for _ in 0..5 {
        let mut client = Client::connect(served.at);
        client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
        client.exactly(15).unwrap();
        drop(client);
        until("the server sees the end", || server.open() == 0);
    }
    assert_all_is_back(&served);
}

#[test]
fn a_client_that_goes_away_in_the_line_leaves_it() {
    let latch = Latch::default();
    let server = {
        let latch = latch.clone();
        Scripted::new(move |caller| {
            while caller.request() {
                latch.wait();
                caller.answer("done");
            }
        })
    };
    let rules = "rules: [{ name: one, limits: [{ concurrency: 1 }], on_limit: { queue: { max_wait: 50s } } }]";
    let served = Served::of(&support::before(&[server.at], rules));
    let mut first = Client::connect(served.at);
    first.send("GET /1 HTTP/1.1\r\nHost: shop\r\n\r\n");
    until("the first is under way", || server.requests().len() == 1);
    let waiting = || served.running().sluice().counts()[0].waiting;
    let mut others: Vec<Client> = Vec::new();
    for number in 1..=3 {
        let mut client = Client::connect(served.at);
        client.send(format!("GET /w{number} HTTP/1.1\r\nHost: shop\r\n\r\n"));
        until("one more waits", || waiting() == number);
        others.push(client);
    }
    drop(others.remove(0));
    until("one has left the line", || waiting() == 2);
    latch.open();
    assert_eq!(first.answer().unwrap().status, 200);
    for mut client in others {
        assert_eq!(client.answer().unwrap().status, 200);
    }
    assert_eq!(server.requests().iter().filter(|line| line.contains("/w1")).count(), 0, "it was not sent");
    until("nobody waits", || waiting() == 0);
}

#[test]
fn connections_to_a_server_are_bounded_and_none_is_lost() {
    let server = Scripted::new(|caller| caller.answer_all("well"));
    let served = Served::of(&file(&[server.at], "connections: 1").replace("concurrency: 2", "concurrency: 50"));
    let at = served.at;
    let clients: Vec<_> = (0..8)
        .map(|_| {
            std::thread::spawn(move || {
                let mut client = Client::connect(at);
                (0..10).map(|_| client.get("/").status).collect::<Vec<_>>()
            })
        })
        .collect();
    for client in clients {
        // The gateway lets four in at once; what is more waits for its turn.
        assert_eq!(client.join().unwrap(), [200; 10]);
    }
    until("only one is left", || server.open() <= 1);
    assert_all_is_back(&served);
}

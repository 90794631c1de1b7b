//! Clients that leave, and servers that fail: what is noted then.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_engine::clock::ManualClock;
use socket2::{Domain, Socket, Type};

use super::file::LogFile;
use super::support::file::gateway;
use super::support::frames::{Http2, RESET, frame, get};
use super::support::raw::Client;
use super::support::scripted::Scripted;
use super::support::{Served, until};

fn fields(log: &LogFile, servers: &[SocketAddr]) -> String {
    let urls: Vec<String> = servers.iter().map(|server| format!("\"http://{server}\"")).collect();
    format!(
        "{}\nupstreams: {{ shop: {{ servers: [{}] }} }}\nroutes: [{{ path: \"/{{*rest}}\", upstream: shop }}]",
        log.setting("json"),
        urls.join(", ")
    )
}

/// A server that reads requests and answers none.
fn silent() -> Scripted {
    Scripted::new(|caller| {
        caller.request();
        caller.wait_for_end();
    })
}

fn told(line: &Value) -> [Value; 6] {
    ["status", "verdict", "failure", "upstream", "attempts", "aborted"].map(|name| line[name].clone())
}

/// nginx's word for it: no answer was sent that could have a status.
#[test]
fn who_left_before_any_answer_is_a_499() {
    let (log, server) = (LogFile::new(), silent());
    let served = Served::of(&gateway(&fields(&log, &[server.at]), ""));
    let mut client = Client::connect(served.at);
    client.send("GET /1 HTTP/1.1\r\nHost: shop\r\n\r\n");
    until("the server has it", || server.requests().len() == 1);
    drop(client);
    let line = &log.objects(1)[0];
    assert_eq!(told(line), [json!(499), json!("allowed"), Value::Null, json!("shop"), json!(1), json!(true)], "{line}");
    assert_eq!(line["server"], json!(format!("http://{}", server.at)));

    // A stream of HTTP/2 that is taken back.
    let mut client = Http2::connect(served.at);
    client.send(get(1, "/2"));
    until("the server has it", || server.requests().len() == 2);
    client.send(frame(RESET, 0, 1, &8_u32.to_be_bytes()));
    let line = &log.objects(2)[1];
    assert_eq!(told(line), [json!(499), json!("allowed"), Value::Null, json!("shop"), json!(1), json!(true)], "{line}");

    // One that asked for another protocol.
    let mut client = Client::connect(served.at);
    client.send("GET /3 HTTP/1.1\r\nHost: shop\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n");
    until("the server has it", || server.requests().len() == 3);
    drop(client);
    let line = &log.objects(3)[2];
    assert_eq!(told(line), [json!(499), json!("allowed"), Value::Null, json!("shop"), json!(1), json!(true)], "{line}");
}

#[test]
fn who_left_the_line_was_neither_allowed_nor_sent_on() {
    let (log, server) = (LogFile::new(), silent());
    let clock = ManualClock::new();
    let rules = "rules: [{ name: one, limits: [{ concurrency: 1 }], on_limit: { queue: { max_wait: 50s } } }]";
    let served = Served::with_clock(&gateway(&fields(&log, &[server.at]), rules), clock.clone());
    let mut first = Client::connect(served.at);
    first.send("GET /1 HTTP/1.1\r\nHost: shop\r\n\r\n");
    until("the first is under way", || server.requests().len() == 1);
    let mut second = Client::connect(served.at);
    second.send("GET /2 HTTP/1.1\r\nHost: shop\r\n\r\n");
    until("the second waits", || served.running().sluice().counts()[0].waiting == 1);
    clock.advance(Duration::from_millis(1_500));
    drop(second);
    let line = &log.objects(1)[0];
    let expected = [json!(499), json!("failed"), json!("abandoned"), Value::Null, Value::Null, json!(true)];
    assert_eq!(told(line), expected, "{line}");
    assert_eq!((&line["wait"], &line["target"]), (&json!(1.5), &json!("/2")));
}

/// Where no more are worked on at once than `in_flight` says, that line is waited in, too.
#[test]
fn waiting_to_be_worked_on_is_waiting() {
    let (log, server) = (LogFile::new(), silent());
    let clock = ManualClock::new();
    let fields = format!("{}\nin_flight: 1", fields(&log, &[server.at]));
    let served = Served::with_clock(&gateway(&fields, ""), clock.clone());
    let waiting = || served.running().vitals().door().counts().requests_waiting;
    let mut clients = [(); 3].map(|()| Client::connect(served.at));
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(format!("GET /{number} HTTP/1.1\r\nHost: shop\r\n\r\n"));
        until("one is worked on", || server.requests().len() == 1);
        until("the others wait", || waiting() == number);
    }
    let [first, second, third] = clients;
    clock.advance(Duration::from_millis(1_500));
    drop(first);
    until("the second is worked on", || server.requests().len() == 2);
    clock.advance(Duration::from_millis(500));
    drop(third);
    until("nobody waits", || waiting() == 0);
    drop(second);
    let told = |line: &Value| ["target", "wait", "duration"].map(|name| line[name].clone());
    let lines: Vec<_> = log.objects(3).iter().map(told).collect();
    assert_eq!(
        lines,
        [
            [json!("/0"), json!(0.0), json!(1.5)],
            [json!("/2"), json!(2.0), json!(2.0)],
            [json!("/1"), json!(1.5), json!(2.0)]
        ]
    );
}

#[test]
fn who_left_amid_the_answer_had_its_status() {
    let log = LogFile::new();
    let server = Scripted::new(|caller| {
        caller.request();
        caller.send("HTTP/1.1 203 Told\r\nContent-Length: 1000\r\n\r\nbegun");
        caller.wait_for_end();
    });
    let served = Served::of(&gateway(&fields(&log, &[server.at]), ""));
    let mut client = Client::connect(served.at);
    client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
    client.exactly(15).unwrap();
    drop(client);
    let line = &log.objects(1)[0];
    assert_eq!(told(line), [json!(203), json!("allowed"), Value::Null, json!("shop"), json!(1), json!(true)], "{line}");
    assert_eq!(line["response_bytes"], 5);
}

#[test]
fn servers_that_fail_are_named() {
    // Taken, so that nobody else gets it, and nobody listens.
    let taken = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    taken.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let deserted = taken.local_addr().unwrap().as_socket().unwrap();
    let broken = Scripted::new(|caller| {
        caller.request();
    });
    let log = LogFile::new();
    let served = Served::of(&gateway(&fields(&log, &[deserted, broken.at]), ""));
    let mut client = Client::connect(served.at);
    // In turn, the first goes to the one that is not there, and on to the other.
    assert_eq!(client.get("/").status, 502);
    client.send("GET / HTTP/1.1\r\nHost: shop\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n");
    assert_eq!(client.answer().unwrap().status, 502);
    let lines = log.objects(2);
    let expected = [json!(502), json!("failed"), json!("bad_answer"), json!("shop"), json!(2), Value::Null];
    assert_eq!(told(&lines[0]), expected, "{}", lines[0]);
    assert_eq!(lines[0]["server"], json!(format!("http://{}", broken.at)));
    assert!(lines[0].get("upstream_time").is_none());
    // What asks for another protocol is tried once.
    assert_eq!((&lines[1]["status"], &lines[1]["attempts"]), (&json!(502), &json!(1)), "{}", lines[1]);
    assert!(lines[1]["server"].is_string(), "{}", lines[1]);
}

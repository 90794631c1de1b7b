//! Access-log tests: client disconnects and failing servers.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_engine::clock::ManualClock;
use socket2::{Domain, Socket, Type};

use super::file::LogFile;
use super::support::file::gateway_yaml;
use super::support::frames::{Http2, RESET, frame, get};
use super::support::raw::Client;
use super::support::scripted::ScriptedServer;
use super::support::{TestGateway, wait_until};

fn fields(log: &LogFile, servers: &[SocketAddr]) -> String {
    let urls: Vec<String> = servers.iter().map(|server| format!("\"http://{server}\"")).collect();
    format!(
        "{}\nupstreams: {{ shop: {{ servers: [{}] }} }}\nroutes: [{{ path: \"/{{*rest}}\", upstream: shop }}]",
        log.setting("json"),
        urls.join(", ")
    )
}

/// A server that reads requests and never responds.
fn silent() -> ScriptedServer {
    ScriptedServer::new(|connection| {
        connection.request();
        connection.wait_for_end();
    })
}

fn outcome_fields(line: &Value) -> [Value; 6] {
    ["status", "verdict", "failure", "upstream", "attempts", "aborted"].map(|name| line[name].clone())
}

/// The nginx status for it: no response was sent that could have a status.
#[test]
fn a_disconnect_before_the_response_is_a_499() {
    let (log, server) = (LogFile::new(), silent());
    let gateway = TestGateway::from_yaml(&gateway_yaml(&fields(&log, &[server.at]), ""));
    let mut client = Client::connect(gateway.at);
    client.send("GET /1 HTTP/1.1\r\nHost: shop\r\n\r\n");
    wait_until("the server has the request", || server.requests().len() == 1);
    drop(client);
    let line = &log.objects(1)[0];
    assert_eq!(
        outcome_fields(line),
        [json!(499), json!("allowed"), Value::Null, json!("shop"), json!(1), json!(true)],
        "{line}"
    );
    assert_eq!(line["server"], json!(format!("http://{}", server.at)));

    // An HTTP/2 stream that is reset.
    let mut client = Http2::connect(gateway.at);
    client.send(get(1, "/2"));
    wait_until("the server has the request", || server.requests().len() == 2);
    client.send(frame(RESET, 0, 1, &8_u32.to_be_bytes()));
    let line = &log.objects(2)[1];
    assert_eq!(
        outcome_fields(line),
        [json!(499), json!("allowed"), Value::Null, json!("shop"), json!(1), json!(true)],
        "{line}"
    );

    // An upgrade request.
    let mut client = Client::connect(gateway.at);
    client.send("GET /3 HTTP/1.1\r\nHost: shop\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n");
    wait_until("the server has the request", || server.requests().len() == 3);
    drop(client);
    let line = &log.objects(3)[2];
    assert_eq!(
        outcome_fields(line),
        [json!(499), json!("allowed"), Value::Null, json!("shop"), json!(1), json!(true)],
        "{line}"
    );
}

#[test]
fn a_disconnect_in_the_queue_is_neither_allowed_nor_forwarded() {
    let (log, server) = (LogFile::new(), silent());
    let clock = ManualClock::new();
    let rules = "rules: [{ name: one, limits: [{ concurrency: 1 }], on_limit: { queue: { max_wait: 50s } } }]";
    let gateway = TestGateway::with_clock(&gateway_yaml(&fields(&log, &[server.at]), rules), clock.clone());
    let mut first = Client::connect(gateway.at);
    first.send("GET /1 HTTP/1.1\r\nHost: shop\r\n\r\n");
    wait_until("the first is in flight", || server.requests().len() == 1);
    let mut second = Client::connect(gateway.at);
    second.send("GET /2 HTTP/1.1\r\nHost: shop\r\n\r\n");
    wait_until("the second is queued", || gateway.running().sluice().counts()[0].waiting == 1);
    clock.advance(Duration::from_millis(1_500));
    drop(second);
    let line = &log.objects(1)[0];
    let expected = [json!(499), json!("failed"), json!("abandoned"), Value::Null, Value::Null, json!(true)];
    assert_eq!(outcome_fields(line), expected, "{line}");
    assert_eq!((&line["wait"], &line["target"]), (&json!(1.5), &json!("/2")));
}

/// Waiting for the `in_flight` limit counts as queue time, too.
#[test]
fn waiting_for_an_in_flight_permit_counts_as_wait() {
    let (log, server) = (LogFile::new(), silent());
    let clock = ManualClock::new();
    let fields = format!("{}\nmax_in_flight: 1", fields(&log, &[server.at]));
    let gateway = TestGateway::with_clock(&gateway_yaml(&fields, ""), clock.clone());
    let waiting = || gateway.running().stats().listener().counts().requests_queued;
    let mut clients = [(); 3].map(|()| Client::connect(gateway.at));
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(format!("GET /{number} HTTP/1.1\r\nHost: shop\r\n\r\n"));
        wait_until("one is worked on", || server.requests().len() == 1);
        wait_until("the others wait", || waiting() == number);
    }
    let [first, second, third] = clients;
    clock.advance(Duration::from_millis(1_500));
    drop(first);
    wait_until("the second is worked on", || server.requests().len() == 2);
    clock.advance(Duration::from_millis(500));
    drop(third);
    wait_until("no request waits", || waiting() == 0);
    drop(second);
    let timing_fields = |line: &Value| ["target", "wait", "duration"].map(|name| line[name].clone());
    let lines: Vec<_> = log.objects(3).iter().map(timing_fields).collect();
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
fn a_disconnect_during_the_response_keeps_its_status() {
    let log = LogFile::new();
    let server = ScriptedServer::new(|connection| {
        connection.request();
        connection.send("HTTP/1.1 203 Told\r\nContent-Length: 1000\r\n\r\nbegun");
        connection.wait_for_end();
    });
    let gateway = TestGateway::from_yaml(&gateway_yaml(&fields(&log, &[server.at]), ""));
    let mut client = Client::connect(gateway.at);
    client.send("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
    client.exactly(15).unwrap();
    drop(client);
    let line = &log.objects(1)[0];
    assert_eq!(
        outcome_fields(line),
        [json!(203), json!("allowed"), Value::Null, json!("shop"), json!(1), json!(true)],
        "{line}"
    );
    assert_eq!(line["response_bytes"], 5);
}

#[test]
fn failing_servers_are_named() {
    // Bound, so that no other process gets the port, but not listening.
    let taken = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    taken.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let deserted = taken.local_addr().unwrap().as_socket().unwrap();
    let broken = ScriptedServer::new(|connection| {
        connection.request();
    });
    let log = LogFile::new();
    let gateway = TestGateway::from_yaml(&gateway_yaml(&fields(&log, &[deserted, broken.at]), ""));
    let mut client = Client::connect(gateway.at);
    // Round robin: the first attempt goes to the unreachable server, the retry to the other one.
    assert_eq!(client.get("/").status, 502);
    client.send("GET / HTTP/1.1\r\nHost: shop\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n");
    assert_eq!(client.read_response().unwrap().status, 502);
    let lines = log.objects(2);
    let expected = [json!(502), json!("failed"), json!("bad_response"), json!("shop"), json!(2), Value::Null];
    assert_eq!(outcome_fields(&lines[0]), expected, "{}", lines[0]);
    assert_eq!(lines[0]["server"], json!(format!("http://{}", broken.at)));
    assert!(lines[0].get("upstream_time").is_none());
    // Upgrade requests are tried once.
    assert_eq!((&lines[1]["status"], &lines[1]["attempts"]), (&json!(502), &json!(1)), "{}", lines[1]);
    assert!(lines[1]["server"].is_string(), "{}", lines[1]);
}

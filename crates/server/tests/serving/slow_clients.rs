//! Clients that send slowly, or do not read: they cost nobody but themselves.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::places::RULES;
use crate::support::folder::Folder;
use crate::support::place::{Io, Place};
use crate::support::resp::{Resp, command};
use crate::support::rls::Rls;
use crate::support::served::Served;
use crate::support::web::Web;
use crate::support::{soon, until};

/// One thread, so that nobody can be served on another while one is waited for.
fn served(folder: &Folder, timeouts: &str) -> Served {
    let services = "rls: 127.0.0.1:0, http: 127.0.0.1:0, resp: 127.0.0.1:0";
    Served::start(folder, &format!("server: {{ {services}, threads: 1, timeouts: {timeouts} }}\n{RULES}"))
}

async fn others_are_served(served: &Served) {
    let mut web = Web::to(&served.place(1)).await.unwrap();
    assert_eq!(web.get("/healthz").await.unwrap().status, 200);
    let mut rls = Rls::to(&served.place(0)).await.unwrap();
    assert!(rls.ask("nowhere", &[("a", "b")]).await.unwrap().0);
    let mut resp = Resp::to(&served.place(2)).await.unwrap();
    assert!(resp.ask(&["PING"]).await.is_ok());
}

/// Sends this, and answers what comes until the server closes.
async fn closed_after(place: &Place, sent: &[u8]) -> Vec<u8> {
    let mut io = place.connect(b"").await.unwrap();
    io.write_all(sent).await.unwrap();
    io.flush().await.unwrap();
    let mut came = Vec::new();
    // That it is reset is as good.
    drop(soon("to be let go", io.read_to_end(&mut came)).await);
    came
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_and_bodies_that_do_not_come_are_not_waited_for() {
    let folder = Folder::new();
    let served = served(&folder, "{ head: 300ms, request_body: 300ms }");
    let half_body =
        b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    let half_json = b"POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{";
    let mut half_frame = PREFACE.to_vec();
    half_frame.extend(b"\x00\x00\x40\x01\x04\x00\x00\x00\x01\x82");
    let sent: [(usize, &[u8]); 7] = [
        (1, b""),
        (1, b"GET /heal"),
        (1, half_body),
        (1, half_json),
        (0, b"PRI * HTTP/2.0\r\n"),
        (0, &half_frame),
        (0, b""),
    ];
    let closing = sent.map(|(nth, bytes)| (served.place(nth), bytes.to_vec()));
    let closing = closing.map(|(place, bytes)| tokio::spawn(async move { closed_after(&place, &bytes).await }));
    others_are_served(&served).await;
    for (closed, (_, sent)) in closing.into_iter().zip(sent) {
        let came = soon(&format!("after {:?}", String::from_utf8_lossy(sent)), closed).await.unwrap();
        assert!(!came.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&came));
    }
    until("all have gone", async || served.running.vitals().door().counts().open == 0).await;
}

/// A call over HTTP/2 whose message does not come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_do_not_come_are_not_waited_for() {
    let folder = Folder::new();
    let served = served(&folder, "{ head: 300ms, request_body: 300ms, idle: 300ms }");
    // HEADERS that end the head and not the stream: POST, http, the path, and application/grpc, none of them indexed.
    let path = b"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    let mut head = b"\x83\x86\x04".to_vec();
    head.push(u8::try_from(path.len()).unwrap());
    head.extend(path);
    head.extend(b"\x01\x01x\x0f\x10\x10application/grpc");
    let mut sent = PREFACE.to_vec();
    sent.extend([0, 0, u8::try_from(head.len()).unwrap(), 1, 4, 0, 0, 0, 1]);
    sent.extend(&head);
    let came = closed_after(&served.place(0), &sent).await;
    assert!(!came.is_empty());
    until("it has gone", async || served.running.vitals().door().counts().open == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_commands_cost_nobody_else() {
    for timeouts in ["{ idle: 500ms }", "{ request_body: 500ms }"] {
        let folder = Folder::new();
        let served = served(&folder, timeouts);
        let halves: [&[u8]; 4] = [b"*3\r\n$12\r\nSLUICE", b"*", b"PIN", b"*2\r\n$4\r\nECHO\r\n$100\r\nabc"];
        let closing = halves.map(|half| {
            let place = served.place(2);
            tokio::spawn(async move { closed_after(&place, half).await })
        });
        others_are_served(&served).await;
        for closed in closing {
            assert_eq!(soon("to be let go", closed).await.unwrap(), b"");
        }
        until("all have gone", async || served.running.vitals().door().counts().open == 0).await;
    }
}

/// Sends commands without end and reads nothing, until nobody takes any more of them.
async fn flood(mut io: Io) -> usize {
    let bytes = command(&["CL.THROTTLE", "flood", "10", "1", "60"]).repeat(1_000);
    let mut sent = 0;
    while let Ok(Ok(taken)) = tokio::time::timeout(Duration::from_millis(500), io.write(&bytes)).await {
        sent += taken;
        assert!(sent < 1 << 28, "it is read from for ever");
    }
    // Kept open for a while still.
    tokio::time::sleep(Duration::from_millis(200)).await;
    sent
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_that_nobody_reads_are_not_made_without_end() {
    let folder = Folder::new();
    let served = served(&folder, "{ idle: 1h }");
    let floods: Vec<_> = (0..4)
        .map(|_| {
            let place = served.place(2);
            tokio::spawn(async move { flood(place.connect(b"").await.unwrap()).await })
        })
        .collect();
    let begun = Instant::now();
    while floods.iter().any(|flood| !flood.is_finished()) {
        others_are_served(&served).await;
        assert!(begun.elapsed() < crate::support::GUARD);
    }
    for flood in floods {
        assert!(flood.await.unwrap() > 0);
    }
    until("all have gone", async || served.running.vitals().door().counts().open == 0).await;
}

/// A quarter of a megabyte that asks for a hundred: they are made as they are taken, and others are served meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_goes_on_as_its_replies_are_read() {
    let folder = Folder::new();
    let served = served(&folder, "{ idle: 1h }");
    let mut io = served.place(2).connect(b"").await.unwrap();
    let docs = command(&["COMMAND", "DOCS"]);
    io.write_all(&[docs.clone(), command(&["PING"])].concat()).await.unwrap();
    let mut described = Vec::new();
    while !described.ends_with(b"+PONG\r\n") {
        assert!(soon("a reply", io.read_buf(&mut described)).await.unwrap() > 0);
    }
    described.truncate(described.len() - b"+PONG\r\n".len());

    let last = command(&["CL.THROTTLE", "last", "9", "1", "3600"]);
    let transaction = [command(&["MULTI"]), docs.repeat(9_998), last, command(&["EXEC"]), command(&["PING"])].concat();
    io.write_all(&transaction).await.unwrap();
    let mut begun = vec![0; b"+OK\r\n".len() + 9_999 * b"+QUEUED\r\n".len() + b"*9999\r\n".len()];
    soon("it has begun", io.read_exact(&mut begun)).await.unwrap();
    assert!(begun.ends_with(b"+QUEUED\r\n*9999\r\n"));
    others_are_served(&served).await;
    let mut other = Resp::to(&served.place(2)).await.unwrap();
    let looked = other.ask(&["CL.THROTTLE", "last", "9", "1", "3600", "0"]).await.unwrap();
    assert_eq!(looked.numbers(), [0, 10, 10, -1, 0], "it has come to its end though nobody has read");

    let mut came = vec![0; described.len()];
    for nth in 0..9_998 {
        soon("the next reply", io.read_exact(&mut came)).await.unwrap();
        assert!(came == described, "the {nth}th is another: {}", came.escape_ascii());
    }
    let end = b"*5\r\n:0\r\n:10\r\n:9\r\n:-1\r\n:3600\r\n+PONG\r\n";
    came.resize(end.len(), 0);
    soon("the end", io.read_exact(&mut came)).await.unwrap();
    assert_eq!(came.escape_ascii().to_string(), end.escape_ascii().to_string());
}

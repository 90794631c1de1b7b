//! Slow clients: senders that stall and readers that do not read must not affect other clients.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::endpoints::RULES;
use crate::support::decision_server::TestDecisionServer;
use crate::support::endpoint::{BoxedIo, TestEndpoint};
use crate::support::http_client::TestHttpClient;
use crate::support::resp::{TestRespClient, encode_command};
use crate::support::rls::TestRlsClient;
use crate::support::temp_dir::TempDir;
use crate::support::{wait_until, with_timeout};

/// Starts a server with one thread, so a blocked client would block all others.
fn start_server(dir: &TempDir, timeouts: &str) -> TestDecisionServer {
    let services = "rls: 127.0.0.1:0, http: 127.0.0.1:0, resp: 127.0.0.1:0";
    TestDecisionServer::start(dir, &format!("server: {{ {services}, threads: 1, timeouts: {timeouts} }}\n{RULES}"))
}

async fn assert_others_are_served(served: &TestDecisionServer) {
    let mut web = TestHttpClient::connect(&served.endpoint(1)).await.unwrap();
    assert_eq!(web.get("/healthz").await.unwrap().status, 200);
    let mut rls = TestRlsClient::connect(&served.endpoint(0)).await.unwrap();
    assert!(rls.check("nowhere", &[("a", "b")]).await.unwrap().0);
    let mut resp = TestRespClient::connect(&served.endpoint(2)).await.unwrap();
    assert!(resp.call(&["PING"]).await.is_ok());
}

/// Sends bytes and returns everything received until the server closes the connection.
async fn read_until_closed(endpoint: &TestEndpoint, sent: &[u8]) -> Vec<u8> {
    let mut io = endpoint.connect(b"").await.unwrap();
    io.write_all(sent).await.unwrap();
    io.flush().await.unwrap();
    let mut received = Vec::new();
    // A reset is equally good.
    drop(with_timeout("the connection closes", io.read_to_end(&mut received)).await);
    received
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn incomplete_headers_and_bodies_time_out() {
    let dir = TempDir::new();
    let served = start_server(&dir, "{ header: 300ms, request_body: 300ms }");
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
    let closing = sent.map(|(index, bytes)| (served.endpoint(index), bytes.to_vec()));
    let closing =
        closing.map(|(endpoint, bytes)| tokio::spawn(async move { read_until_closed(&endpoint, &bytes).await }));
    assert_others_are_served(&served).await;
    for (closed, (_, sent)) in closing.into_iter().zip(sent) {
        let received = with_timeout(&format!("after {:?}", String::from_utf8_lossy(sent)), closed).await.unwrap();
        assert!(!received.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&received));
    }
    wait_until("all are closed", async || served.running.monitor().listener().counts().open == 0).await;
}

/// An HTTP/2 call with a gRPC message that never arrives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn incomplete_grpc_messages_time_out() {
    let dir = TempDir::new();
    let served = start_server(&dir, "{ header: 300ms, request_body: 300ms, idle: 300ms }");
    // HEADERS with END_HEADERS but without END_STREAM: POST, http, the path, and application/grpc, none of them
    // indexed.
    let path = b"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    let mut head = b"\x83\x86\x04".to_vec();
    head.push(u8::try_from(path.len()).unwrap());
    head.extend(path);
    head.extend(b"\x01\x01x\x0f\x10\x10application/grpc");
    let mut sent = PREFACE.to_vec();
    sent.extend([0, 0, u8::try_from(head.len()).unwrap(), 1, 4, 0, 0, 0, 1]);
    sent.extend(&head);
    let received = read_until_closed(&served.endpoint(0), &sent).await;
    assert!(!received.is_empty());
    wait_until("the connection is closed", async || served.running.monitor().listener().counts().open == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn incomplete_commands_time_out_and_do_not_block_others() {
    for timeouts in ["{ idle: 500ms }", "{ request_body: 500ms }"] {
        let dir = TempDir::new();
        let served = start_server(&dir, timeouts);
        let incomplete: [&[u8]; 4] = [b"*3\r\n$12\r\nSLUICE", b"*", b"PIN", b"*2\r\n$4\r\nECHO\r\n$100\r\nabc"];
        let closing = incomplete.map(|half| {
            let endpoint = served.endpoint(2);
            tokio::spawn(async move { read_until_closed(&endpoint, half).await })
        });
        assert_others_are_served(&served).await;
        for closed in closing {
            assert_eq!(with_timeout("the connection closes", closed).await.unwrap(), b"");
        }
        wait_until("all are closed", async || served.running.monitor().listener().counts().open == 0).await;
    }
}

/// Sends commands without reading replies, until the server stops reading.
async fn flood(mut io: BoxedIo) -> usize {
    let bytes = encode_command(&["CL.THROTTLE", "flood", "10", "1", "60"]).repeat(1_000);
    let mut sent = 0;
    while let Ok(Ok(written)) = tokio::time::timeout(Duration::from_millis(500), io.write(&bytes)).await {
        sent += written;
        assert!(sent < 1 << 28, "the server reads without limit");
    }
    // Stay connected a little longer.
    tokio::time::sleep(Duration::from_millis(200)).await;
    sent
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_replies_apply_backpressure() {
    let dir = TempDir::new();
    let served = start_server(&dir, "{ idle: 1h }");
    let floods: Vec<_> = (0..4)
        .map(|_| {
            let endpoint = served.endpoint(2);
            tokio::spawn(async move { flood(endpoint.connect(b"").await.unwrap()).await })
        })
        .collect();
    let start = Instant::now();
    while floods.iter().any(|flood| !flood.is_finished()) {
        assert_others_are_served(&served).await;
        assert!(start.elapsed() < crate::support::TEST_TIMEOUT);
    }
    for flood in floods {
        assert!(flood.await.unwrap() > 0);
    }
    wait_until("all are closed", async || served.running.monitor().listener().counts().open == 0).await;
}

/// A transaction of 250 kB with replies of 100 MB: replies are produced as they are read, and other clients
/// are served at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_continues_as_its_replies_are_read() {
    let dir = TempDir::new();
    let served = start_server(&dir, "{ idle: 1h }");
    let mut io = served.endpoint(2).connect(b"").await.unwrap();
    let docs = encode_command(&["COMMAND", "DOCS"]);
    io.write_all(&[docs.clone(), encode_command(&["PING"])].concat()).await.unwrap();
    let mut docs_reply = Vec::new();
    while !docs_reply.ends_with(b"+PONG\r\n") {
        assert!(with_timeout("a reply", io.read_buf(&mut docs_reply)).await.unwrap() > 0);
    }
    docs_reply.truncate(docs_reply.len() - b"+PONG\r\n".len());

    let last = encode_command(&["CL.THROTTLE", "last", "9", "1", "3600"]);
    let transaction =
        [encode_command(&["MULTI"]), docs.repeat(9_998), last, encode_command(&["EXEC"]), encode_command(&["PING"])]
            .concat();
    io.write_all(&transaction).await.unwrap();
    let mut queued = vec![0; b"+OK\r\n".len() + 9_999 * b"+QUEUED\r\n".len() + b"*9999\r\n".len()];
    with_timeout("the transaction starts", io.read_exact(&mut queued)).await.unwrap();
    assert!(queued.ends_with(b"+QUEUED\r\n*9999\r\n"));
    assert_others_are_served(&served).await;
    let mut other = TestRespClient::connect(&served.endpoint(2)).await.unwrap();
    let peeked = other.call(&["CL.THROTTLE", "last", "9", "1", "3600", "0"]).await.unwrap();
    assert_eq!(peeked.integers(), [0, 10, 10, -1, 0], "the transaction ran to its end although its replies are unread");

    let mut received = vec![0; docs_reply.len()];
    for index in 0..9_998 {
        with_timeout("the next reply", io.read_exact(&mut received)).await.unwrap();
        assert!(received == docs_reply, "reply {index} differs: {}", received.escape_ascii());
    }
    let end = b"*5\r\n:0\r\n:10\r\n:9\r\n:-1\r\n:3600\r\n+PONG\r\n";
    received.resize(end.len(), 0);
    with_timeout("the end", io.read_exact(&mut received)).await.unwrap();
    assert_eq!(received.escape_ascii().to_string(), end.escape_ascii().to_string());
}

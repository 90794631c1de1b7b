//! The API over a real socket, called by curl.

use std::convert::Infallible;
use std::process::Command;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::TestApi;

fn is_send<T: Send>(value: T) -> T {
    value
}

/// Serves one test; ends with the runtime.
async fn serve(subject: &TestApi) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let api = subject.api.clone();
    tokio::spawn(async move {
        while let Ok((stream, peer)) = listener.accept().await {
            let api = api.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request: Request<Incoming>| {
                    let api = api.clone();
                    is_send(async move { Ok::<_, Infallible>(api.handle(request, peer).await) })
                });
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    format!("http://{address}")
}

async fn curl(arguments: &[&str]) -> String {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "30", "--noproxy", "*", "--write-out", "\n%{http_code}"]);
    command.args(arguments);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn curl_gets_decisions() {
    let subject = TestApi::new();
    let base = serve(&subject).await;
    let url = |path: &str| format!("{base}{path}");
    let check =
        [&url("/v1/check"), "--json", r#"{"service":"shop","attributes":{"account":"alice"}}"#].map(String::from);
    let check: Vec<&str> = check.iter().map(String::as_str).collect();
    assert!(curl(&check).await.starts_with(r#"{"allowed":true,"verdict":"allowed""#));
    let form = curl(&[&url("/v1/check"), "--data", r#"{"service":"shop"}"#]).await;
    assert!(form.contains("send JSON with `Content-Type: application/json`") && form.ends_with("\n415"), "{form}");
    let large = format!(r#"{{"service":"{}"}}"#, "x".repeat(5_000));
    let large = curl(&[&url("/v1/check"), "--json", &large]).await;
    assert!(large.contains("exceeds 4096 bytes") && large.ends_with("\n413"), "{large}");
    let chunked = [&url("/v1/check"), "--json", "{}", "--header", "transfer-encoding: chunked"].map(String::from);
    let chunked: Vec<&str> = chunked.iter().map(String::as_str).collect();
    assert!(curl(&chunked).await.ends_with("\n200"));
    let auth = url("/v1/auth");
    let auth = curl(&[&auth, "--header", "x-original-method: GET", "--header", "x-original-uri: /a"]).await;
    assert_eq!(auth, "\n200");
    assert!(curl(&[&url("/docs"), "--location"]).await.contains("swagger-ui"));
    assert_eq!(curl(&[&url("/docs"), "--head", "--location", "--output", "/dev/null"]).await, "\n200");
}

/// A request that waits for a permit is dropped with its client.
#[tokio::test]
async fn a_disconnected_client_leaves_the_queue() {
    let subject = TestApi::new();
    let base = serve(&subject).await;
    let permit = r#"{"rule":"jobs","attributes":{"account":"a"}}"#;
    for _ in 0..2 {
        assert_eq!(subject.post("/v1/permits", permit).await.status, 201);
    }
    let body = r#"{"rule":"jobs","attributes":{"account":"a"},"wait":"5s"}"#;
    let mut waiting =
        Command::new("curl").args(["--silent", "--json", body, &format!("{base}/v1/permits")]).spawn().unwrap();
    let wait_for_active = |active: usize| {
        let api = subject.api.clone();
        tokio::time::timeout(Duration::from_secs(60), async move {
            while api.reservation_counts().active != active {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
    };
    wait_for_active(3).await.unwrap();
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    wait_for_active(2).await.unwrap();
}

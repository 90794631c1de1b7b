//! Each protocol over TCP, Unix sockets and TLS, and with a secret.

use sluicegate_net::Shutdown;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::rustls::ALL_VERSIONS;

use crate::support::decision_server::TestDecisionServer;
use crate::support::endpoint::TestEndpoint;
use crate::support::http_client::TestHttpClient;
use crate::support::resp::{RespReply, TestRespClient};
use crate::support::rls::{RlsError, SERVING, TestRlsClient, UNAUTHENTICATED};
use crate::support::temp_dir::TempDir;
use crate::support::test_certs;
use crate::support::{wait_until, with_timeout};

/// Seven per hour and account, in every protocol.
pub(crate) const RULES: &str = "
rules:
  - { name: per-account, match: service shop, key: account, limits: [{ token_bucket: 7/1h, burst: 7 }] }
  - { name: described, direction: descriptor, match: service edge, key: \"descriptor['account']\", limits: [{ token_bucket: 7/1h, burst: 7 }] }
";

/// Checks that each protocol responds at its endpoint and that HTTP and RESP share one count.
async fn all_protocols_respond(endpoints: &[TestEndpoint; 3], account: &str) {
    let [rls, http, resp] = endpoints;
    let mut rls = TestRlsClient::connect(rls).await.unwrap();
    for expected in [(true, 6), (true, 5)] {
        assert_eq!(rls.check("edge", &[("account", account)]).await.unwrap(), expected);
    }
    assert_eq!(rls.health("ratelimit").await.unwrap(), SERVING);
    let mut web = TestHttpClient::connect(http).await.unwrap();
    assert_eq!(web.check("per-account", account).await.unwrap(), (true, 6, false));
    assert_eq!(web.get("/healthcheck").await.unwrap().status, 200);
    let mut resp = TestRespClient::connect(resp).await.unwrap();
    assert_eq!(resp.call(&["PING"]).await.unwrap(), RespReply::Status("PONG".to_owned()));
    // One rule, two protocols.
    assert_eq!(resp.check("per-account", account).await.unwrap(), (true, 5, false));
    assert_eq!(web.check("per-account", account).await.unwrap(), (true, 4, false));
    assert_eq!(resp.call(&["CL.THROTTLE", account, "3", "1", "3600"]).await.unwrap().integers(), [0, 4, 3, -1, 3600]);
}

/// Busy-polling threads give the same decisions, wake up for new requests and stop on shutdown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn busy_polling_threads_serve_all_protocols() {
    let dir = TempDir::new();
    let services = "rls: 127.0.0.1:0, http: 127.0.0.1:0, resp: 127.0.0.1:0";
    let served =
        TestDecisionServer::start(&dir, &format!("server: {{ {services}, threads: 1, busy_poll: 200us }}\n{RULES}"));
    let endpoints = [0, 1, 2].map(|index| served.endpoint(index));
    for account in ["alice", "bob", "carol"] {
        all_protocols_respond(&endpoints, account).await;
    }
    let open = TestRespClient::connect(&endpoints[2]).await.unwrap();
    let report = served.stop(Shutdown::Close).await;
    assert_eq!(report.aborted, 0);
    drop(open);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tcp_and_unix_sockets_share_one_server() {
    let dir = TempDir::new();
    let service = |name: &str| format!("{name}: {{ address: \"127.0.0.1:0\", unix: {name}.sock }}");
    let rules =
        format!("server:\n  {}\n  {}\n  {}\n  threads: 2\n{RULES}", service("rls"), service("http"), service("resp"));
    let served = TestDecisionServer::start(&dir, &rules);
    let network = [0, 1, 2].map(|index| served.endpoint(index));
    let unix = ["rls", "http", "resp"].map(|name| TestEndpoint::Unix(dir.file_path(&format!("{name}.sock"))));
    all_protocols_respond(&network, "alice").await;
    all_protocols_respond(&unix, "bob").await;
    // Quota spent over one endpoint is spent for the other.
    let mut web = TestHttpClient::connect(&unix[1]).await.unwrap();
    assert_eq!(web.check("per-account", "alice").await.unwrap(), (true, 3, false));
    let mut resp = TestRespClient::connect(&network[2]).await.unwrap();
    assert_eq!(resp.check("per-account", "bob").await.unwrap(), (true, 3, false));
    drop((web, resp));
    served.stop(Shutdown::Close).await;
    for endpoint in network.iter().chain(&unix) {
        // A child process forked by a parallel test may hold the socket for a short time.
        wait_until("the socket is closed", async || endpoint.connect(b"").await.is_err()).await;
    }
    for name in ["rls", "http", "resp"] {
        assert!(!dir.file_path(&format!("{name}.sock")).exists(), "the socket file is removed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_protocols_work_over_tls_1_2_and_1_3() {
    let dir = TempDir::new();
    test_certs::create_ca(dir.path(), "ca");
    test_certs::create_signed(dir.path(), "server", "ca");
    let tls = "{ address: \"127.0.0.1:0\", tls: { certificate: server.pem, key: server.key } }";
    let served =
        TestDecisionServer::start(&dir, &format!("server: {{ rls: {tls}, http: {tls}, resp: {tls} }}\n{RULES}"));
    for version in ALL_VERSIONS {
        let client = test_certs::client_config(dir.path(), "ca", None, &[version]);
        let at = served.addresses();
        let endpoints = [at[0], at[1], at[2]].map(|at| TestEndpoint::Tls(at, client.clone()));
        all_protocols_respond(&endpoints, &format!("{:?}", version.version)).await;
    }
    // Without TLS a client gets no response and its connection is closed.
    for index in 0..3 {
        let mut io = served.endpoint(index).connect(b"").await.unwrap();
        io.write_all(b"PING\r\n\r\n").await.unwrap();
        let mut received = Vec::new();
        drop(with_timeout("the connection closes", io.read_to_end(&mut received)).await);
        assert!(!received.starts_with(b"+") && !received.starts_with(b"HTTP"), "{received:?}");
    }
    let report = served.stop(Shutdown::Close).await;
    assert_eq!(report.aborted, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_without_the_secret_are_rejected() {
    let dir = TempDir::new();
    dir.write("secret.txt", "correct horse\n");
    let service = "{ address: \"127.0.0.1:0\", secret_file: secret.txt }";
    let served = TestDecisionServer::start(
        &dir,
        &format!("server: {{ rls: {service}, http: {service}, resp: {service} }}\n{RULES}"),
    );
    for secret in [None, Some("correct hors"), Some("correct horse "), Some("wrong horse"), Some("")] {
        let mut rls = TestRlsClient::connect(&served.endpoint(0)).await.unwrap();
        rls.secret = secret.map(str::to_owned);
        let result = rls.check("edge", &[("account", "alice")]).await;
        assert!(matches!(result, Err(RlsError(Some(UNAUTHENTICATED), _))), "{secret:?}: {result:?}");
        // Health checks need no secret.
        assert_eq!(rls.health("").await.unwrap(), SERVING);

        let mut web = TestHttpClient::connect(&served.endpoint(1)).await.unwrap();
        web.secret = secret.map(str::to_owned);
        for (method, path) in [("POST", "/v1/check"), ("GET", "/v1/auth"), ("POST", "/json"), ("GET", "/json")] {
            let kind = [("content-type", "application/json")];
            // Trailing whitespace is not part of a header value.
            let is_valid = secret == Some("correct horse ");
            let status = web.call(method, path, &kind, "{}").await.unwrap().status;
            assert_eq!(status == 401, !is_valid, "{secret:?} {path}: {status}");
        }
        // The API documentation needs no secret either: a browser cannot send one for a page.
        for path in ["/healthcheck", "/docs/", "/openapi.json"] {
            assert_eq!(web.get(path).await.unwrap().status, 200, "{path}");
        }

        let mut resp = TestRespClient::connect(&served.endpoint(2)).await.unwrap();
        if let Some(secret) = secret {
            let refused = resp.call(&["AUTH", secret]).await.unwrap();
            assert!(matches!(&refused, RespReply::Error(error) if error.starts_with("WRONGPASS")), "{refused:?}");
        }
        for args in [&["CL.THROTTLE", "k", "1", "1", "60"][..], &["SLUICE.CHECK", "per-account", "account", "alice"]] {
            let refused = resp.call(args).await.unwrap();
            assert!(matches!(&refused, RespReply::Error(error) if error.starts_with("NOAUTH")), "{refused:?}");
        }
    }
    let mut rls = TestRlsClient::connect(&served.endpoint(0)).await.unwrap();
    rls.secret = Some("correct horse".to_owned());
    assert_eq!(rls.check("edge", &[("account", "alice")]).await.unwrap(), (true, 6));
    let mut web = TestHttpClient::connect(&served.endpoint(1)).await.unwrap();
    web.secret = Some("correct horse".to_owned());
    assert_eq!(web.check("per-account", "alice").await.unwrap(), (true, 6, false));
    let mut resp = TestRespClient::connect(&served.endpoint(2)).await.unwrap();
    assert_eq!(resp.call(&["AUTH", "correct horse"]).await.unwrap(), RespReply::Status("OK".to_owned()));
    assert_eq!(resp.check("per-account", "alice").await.unwrap(), (true, 5, false));
    drop(served);
}

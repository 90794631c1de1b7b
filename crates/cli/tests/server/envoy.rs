//! A real Envoy with the real program: over mutual TLS, over a Unix socket, with a secret, and while the program
//! is killed and restarted.

use std::path::PathBuf;

use sluicegate_testkit::servers::{Envoy, EnvoyConfig, RateLimitEndpoint};

use super::program::Program;
use super::support::endpoint::TestEndpoint;
use super::support::http_client::TestHttpClient;
use super::support::temp_dir::TempDir;
use super::support::test_certs::{create_ca, create_signed};
use super::support::upstream::Upstream;
use super::support::wait_until;

const RULES: &str = "rules: [{ name: per-path, direction: descriptor, match: service edge, key: \"descriptor['path']\", \
                     limits: [{ token_bucket: 3/1d, burst: 3 }] }]\n";

const SECRET: &str = "open-sesame-0123456789abcdef";

fn rules(rls: &str) -> String {
    format!("server: {{ rls: {rls}, threads: 1 }}\n{RULES}")
}

/// An Envoy that calls this service and refuses requests if the call fails.
fn envoy_config(upstream: &Upstream, service: RateLimitEndpoint) -> EnvoyConfig {
    EnvoyConfig {
        upstream: upstream.address,
        domain: "edge",
        service,
        secret: None,
        failure_mode_deny: true,
        extra_yaml: "",
    }
}

/// Statuses of consecutive requests through this Envoy.
async fn statuses(envoy: &Envoy, path: &str, times: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..times {
        let mut web = TestHttpClient::connect(&TestEndpoint::Tcp(envoy.address())).await.unwrap();
        statuses.push(web.get(path).await.unwrap().status);
    }
    statuses
}

fn address(program: &Program) -> std::net::SocketAddr {
    match program.address("RLS") {
        TestEndpoint::Tcp(at) => at,
        _ => panic!("no address: {}", program.log()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envoy_calls_over_tls_with_a_certificate_and_a_secret() {
    let folder = TempDir::new();
    for name in ["ours", "theirs"] {
        create_ca(folder.path(), name);
    }
    create_signed(folder.path(), "server", "ours");
    create_signed(folder.path(), "envoy", "theirs");
    folder.write("secret", SECRET);
    let tls = "{ certificate: server.pem, key: server.key, client_ca: theirs.pem }";
    let rls = format!("{{ address: \"127.0.0.1:0\", tls: {tls}, secret_file: secret }}");
    let mut program = Program::start(folder, &rules(&rls)).await;
    let at = address(&program);
    let file = |name: &str| program.folder.file_path(name);
    let shown = || Some((file("envoy.pem"), file("envoy.key")));
    let tls =
        |authority: PathBuf, shows| RateLimitEndpoint::Tls { address: at, ca: authority, client_certificate: shows };
    let upstream = Upstream::start().await;
    let with = |secret, service| EnvoyConfig { secret, ..envoy_config(&upstream, service) };

    let trusted = Envoy::start(&with(Some(SECRET), tls(file("ours.pem"), shown()))).unwrap();
    assert_eq!(statuses(&trusted, "/a", 4).await, [200, 200, 200, 429]);
    for (what, stranger) in [
        ("shows no certificate", with(Some(SECRET), tls(file("ours.pem"), None))),
        ("knows no secret", with(None, tls(file("ours.pem"), shown()))),
        ("knows another secret", with(Some("open-sesame-0123456789abcdee"), tls(file("ours.pem"), shown()))),
        ("trusts another authority", with(Some(SECRET), tls(file("theirs.pem"), shown()))),
        ("speaks no TLS", with(Some(SECRET), RateLimitEndpoint::Tcp(at))),
    ] {
        let stranger = Envoy::start(&stranger).unwrap();
        assert_eq!(statuses(&stranger, "/b", 2).await, [500, 500], "{what}");
    }
    assert_eq!(statuses(&trusted, "/b", 4).await, [200, 200, 200, 429], "strangers have spent nothing");
    drop(trusted);
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envoy_calls_over_a_unix_socket() {
    let mut program = Program::start(TempDir::new(), &rules("{ unix: rls.sock }")).await;
    let upstream = Upstream::start().await;
    let envoy =
        Envoy::start(&envoy_config(&upstream, RateLimitEndpoint::Unix(program.folder.file_path("rls.sock")))).unwrap();
    assert_eq!(statuses(&envoy, "/a", 4).await, [200, 200, 200, 429]);
    assert_eq!(statuses(&envoy, "/b", 1).await, [200]);
    drop(envoy);
    program.stop().await;
}

/// A killed server cannot close its connections cleanly. Envoy applies its failure mode and reconnects once the
/// server is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envoy_survives_a_server_crash() {
    // No other test connects from this address: the port stays free until it is needed again.
    let mut program = Program::start(TempDir::new(), &rules("127.0.0.2:0")).await;
    let at = address(&program);
    let upstream = Upstream::start().await;
    let closed = envoy_config(&upstream, RateLimitEndpoint::Tcp(at));
    let open = Envoy::start(&EnvoyConfig { failure_mode_deny: false, ..closed.clone() }).unwrap();
    let closed = Envoy::start(&closed).unwrap();
    for path in ["/a", "/b"] {
        assert_eq!(statuses(&open, path, 2).await, [200, 200]);
        assert_eq!(statuses(&closed, path, 2).await, [200, 429]);
    }
    program.kill().await;
    assert_eq!(statuses(&open, "/a", 5).await, [200; 5]);
    assert_eq!(statuses(&closed, "/a", 5).await, [500; 5]);

    let mut program = Program::start(TempDir::new(), &rules(&format!("\"{at}\""))).await;
    // The counts are lost with the process. Each Envoy needs a moment to notice that it is back.
    wait_until("the fail-closed Envoy checks again", async || statuses(&closed, "/else", 1).await != [500]).await;
    assert_eq!(statuses(&closed, "/a", 4).await, [200, 200, 200, 429]);
    wait_until("the fail-open Envoy checks again", async || statuses(&open, "/a", 1).await == [429]).await;
    assert_eq!(statuses(&open, "/b", 4).await, [200, 200, 200, 429]);
    drop((open, closed));
    program.stop().await;
}

//! Restarts under load: no call fails, and limits keep their state.

use super::load::Load;
use super::program::Program;
use super::support::endpoint::TestEndpoint;
use super::support::http_client::TestHttpClient;
use super::support::resp::TestRespClient;
use super::support::temp_dir::TempDir;

const RULES: &str = "
server:
  rls: 127.0.0.1:0
  http: { address: \"127.0.0.1:0\", unix: http.sock }
  resp: { address: \"127.0.0.1:0\", unix: resp.sock }
  threads: 2
rules:
  - { name: load, match: service load, key: account, limits: [1000000/s] }
  - { name: few, match: service few, key: account, limits: [4/1h] }
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_lost_by_restarts_under_load() {
    let mut program = Program::start(TempDir::new(), RULES).await;
    let [rls, http, resp] = ["RLS", "HTTP", "RESP"].map(|protocol| program.address(protocol));
    let sockets = ["http.sock", "resp.sock"].map(|name| TestEndpoint::Unix(program.folder.file_path(name)));
    let over_network = Load::on(&rls, &http, &resp);
    let over_unix = Load::on(&rls, &sockets[0], &sockets[1]);
    over_network.wait_for_calls(50).await;
    over_unix.wait_for_calls(50).await;
    for round in 0..4 {
        program.restart().await;
        over_network.wait_for_calls(50).await;
        over_unix.wait_for_calls(50).await;
        // One of four per round, over any protocol and address: the new process keeps the earlier counts.
        let (allowed, left, _) = match round {
            0 => TestHttpClient::connect(&http).await.unwrap().check("few", "alice").await.unwrap(),
            1 => TestRespClient::connect(&resp).await.unwrap().check("few", "alice").await.unwrap(),
            2 => TestHttpClient::connect(&sockets[0]).await.unwrap().check("few", "alice").await.unwrap(),
            _ => TestRespClient::connect(&sockets[1]).await.unwrap().check("few", "alice").await.unwrap(),
        };
        assert_eq!((allowed, left), (true, 3 - round));
    }
    assert!(!TestHttpClient::connect(&http).await.unwrap().check("few", "alice").await.unwrap().0);
    let failed = [over_network.stop().await, over_unix.stop().await].concat();
    assert!(failed.is_empty(), "{failed:?}\n{}", program.log());
    program.stop().await;
    for name in ["http.sock", "resp.sock"] {
        assert!(!program.folder.file_path(name).exists(), "{name} is removed after a stop");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_takeover_changes_nothing() {
    let mut program = Program::start(TempDir::new(), RULES).await;
    let valid = std::fs::read_to_string(program.folder.file_path("rules.yaml")).unwrap();
    let endpoint = TestEndpoint::Unix(program.folder.file_path("resp.sock"));
    for invalid in ["rules: [", "server: { http: { address: \"127.0.0.1:0\", secret_file: none.txt } }\n"] {
        let failures = program.log().matches("the old process continues to serve").count();
        program.folder.write("rules.yaml", invalid);
        program.signal("USR2");
        let is_logged = async || program.log().matches("the old process continues to serve").count() == failures + 1;
        super::support::wait_until("the error is logged", is_logged).await;
        assert!(TestRespClient::connect(&endpoint).await.unwrap().call(&["PING"]).await.is_ok());
    }
    // A process that fails at its last socket removes no Unix socket path.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let invalid = valid
        .replace("  rls: 127.0.0.1:0\n", "")
        .replace("resp: { address: \"127.0.0.1:0\"", &format!("resp: {{ address: \"{}\"", taken.local_addr().unwrap()));
    program.folder.write("rules.yaml", &invalid);
    let failures = program.log().matches("the old process continues to serve").count();
    program.signal("USR2");
    let is_logged = async || program.log().matches("the old process continues to serve").count() == failures + 1;
    super::support::wait_until("the error is logged", is_logged).await;
    for name in ["http.sock", "resp.sock"] {
        assert!(program.folder.file_path(name).exists(), "{name}: {}", program.log());
    }
    assert!(TestRespClient::connect(&endpoint).await.unwrap().call(&["PING"]).await.is_ok());
    program.folder.write("rules.yaml", &valid);
    let files = program.open_files();
    program.stop().await;
    assert!(files < 100, "{files} files open");
}

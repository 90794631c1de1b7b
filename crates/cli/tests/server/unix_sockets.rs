//! Unix socket paths: stale ones are replaced, live ones are kept, and a stop removes them.

use std::os::unix::net::UnixListener;

use super::program::{Program, startup_failure};
use super::support::endpoint::TestEndpoint;
use super::support::resp::TestRespClient;
use super::support::temp_dir::TempDir;

const RULES: &str = "server: { resp: { unix: s.sock }, threads: 1 }\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_socket_path_is_replaced() {
    let mut program = Program::start(TempDir::new(), RULES).await;
    program.kill().await;
    assert!(program.folder.file_path("s.sock").exists(), "a killed process leaves its socket");
    let folder = std::mem::replace(&mut program.folder, TempDir::new());
    let mut program = Program::start(folder, RULES).await;
    let endpoint = TestEndpoint::Unix(program.folder.file_path("s.sock"));
    assert!(TestRespClient::connect(&endpoint).await.unwrap().call(&["PING"]).await.is_ok());
    program.stop().await;
    assert!(!program.folder.file_path("s.sock").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_socket_is_not_replaced() {
    let folder = TempDir::new();
    let listener = UnixListener::bind(folder.file_path("s.sock")).unwrap();
    let log = startup_failure(&folder, RULES).await;
    assert!(log.contains("s.sock: path already in use; stop the other program, or choose another path"), "{log}");
    assert!(folder.file_path("s.sock").exists());
    drop(listener);
    std::fs::remove_file(folder.file_path("s.sock")).unwrap();
    folder.write("s.sock", "precious");
    let log = startup_failure(&folder, RULES).await;
    assert!(log.contains("the path exists and is not a socket"), "{log}");
    assert_eq!(std::fs::read_to_string(folder.file_path("s.sock")).unwrap(), "precious");
    let log = startup_failure(&folder, "server: { resp: { unix: missing/s.sock } }\n").await;
    assert!(log.contains("cannot listen at"), "{log}");
    let long = "x".repeat(200);
    let log = startup_failure(&folder, &format!("server: {{ resp: {{ unix: {long}.sock }} }}\n")).await;
    assert!(log.contains("cannot listen at"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_start_leaves_no_socket_path() {
    let folder = TempDir::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap();
    let log = startup_failure(&folder, &format!("server: {{ http: {{ unix: h.sock }}, resp: \"{at}\" }}\n")).await;
    assert!(log.contains(&format!("cannot listen at {at}: address already in use")), "{log}");
    assert!(!folder.file_path("h.sock").exists(), "its socket is removed");
}

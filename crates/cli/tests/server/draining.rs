//! After a stop signal the program waits for load balancers to notice; a second signal skips the wait.

use super::program::Program;
use super::support::endpoint::TestEndpoint;
use super::support::http_client::TestHttpClient;
use super::support::temp_dir::TempDir;
use super::support::wait_until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_skips_draining() {
    let rules = "server: { http: { unix: http.sock }, threads: 1, shutdown_delay: 10m }\n";
    let mut program = Program::start(TempDir::new(), rules).await;
    let endpoint = TestEndpoint::Unix(program.folder.file_path("http.sock"));
    program.signal("TERM");
    wait_until("health reports the shutdown", async || {
        TestHttpClient::connect(&endpoint).await.unwrap().get("/healthcheck").await.unwrap().status == 500
    })
    .await;
    assert_eq!(TestHttpClient::connect(&endpoint).await.unwrap().post("/v1/check", "{}").await.unwrap().status, 200);
    assert!(program.log().contains("SIGTERM received: health checks report the shutdown"), "{}", program.log());
    assert!(!program.log().contains("no new connections are accepted"), "{}", program.log());
    program.stop().await;
    assert!(program.log().contains("no new connections are accepted"), "{}", program.log());
}

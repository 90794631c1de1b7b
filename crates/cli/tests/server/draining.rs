//! Told to stop, the program gives load balancers a while to notice; told once more, it does not.

use crate::program::Program;
use crate::support::folder::Folder;
use crate::support::place::Place;
use crate::support::until;
use crate::support::web::Web;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_cannot_wait_says_so_twice() {
    let rules = "server: { http: { unix: http.sock }, threads: 1, drain: 10m }\n";
    let mut program = Program::start(Folder::new(), rules).await;
    let place = Place::Unix(program.folder.at("http.sock"));
    program.signal("TERM");
    until("it says so", async || Web::to(&place).await.unwrap().get("/healthcheck").await.unwrap().status == 500).await;
    assert_eq!(Web::to(&place).await.unwrap().post("/v1/check", "{}").await.unwrap().status, 200);
    assert!(
        program.log().contains("told to stop: whoever asks for the server's health is told so"),
        "{}",
        program.log()
    );
    assert!(!program.log().contains("no more connections are taken"), "{}", program.log());
    program.stop().await;
    assert!(program.log().contains("no more connections are taken"), "{}", program.log());
}

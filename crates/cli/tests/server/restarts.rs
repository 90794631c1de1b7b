//! Restarts under load: no call fails, and limits go on.

use crate::load::Load;
use crate::program::Program;
use crate::support::folder::Folder;
use crate::support::place::Place;
use crate::support::resp::Resp;
use crate::support::web::Web;

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
    let mut program = Program::start(Folder::new(), RULES).await;
    let [rls, http, resp] = ["Envoy's rate limit service", "HTTP", "RESP"].map(|protocol| program.place(protocol));
    let sockets = ["http.sock", "resp.sock"].map(|name| Place::Unix(program.folder.at(name)));
    let over_network = Load::on(&rls, &http, &resp);
    let over_unix = Load::on(&rls, &sockets[0], &sockets[1]);
    over_network.go_on(50).await;
    over_unix.go_on(50).await;
    for round in 0..4 {
        program.restart().await;
        over_network.go_on(50).await;
        over_unix.go_on(50).await;
        // One of four in each round, by either protocol and place: the new process remembers the others.
        let (allowed, left, _) = match round {
            0 => Web::to(&http).await.unwrap().check("few", "alice").await.unwrap(),
            1 => Resp::to(&resp).await.unwrap().check("few", "alice").await.unwrap(),
            2 => Web::to(&sockets[0]).await.unwrap().check("few", "alice").await.unwrap(),
            _ => Resp::to(&sockets[1]).await.unwrap().check("few", "alice").await.unwrap(),
        };
        assert_eq!((allowed, left), (true, 3 - round));
    }
    assert!(!Web::to(&http).await.unwrap().check("few", "alice").await.unwrap().0);
    let failed = [over_network.end().await, over_unix.end().await].concat();
    assert!(failed.is_empty(), "{failed:?}\n{}", program.log());
    program.stop().await;
    for name in ["http.sock", "resp.sock"] {
        assert!(!program.folder.at(name).exists(), "{name} is gone after a stop");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fails_to_take_over_leaves_everything_as_it_is() {
    let mut program = Program::start(Folder::new(), RULES).await;
    let good = std::fs::read_to_string(program.folder.at("rules.yaml")).unwrap();
    let place = Place::Unix(program.folder.at("resp.sock"));
    for bad in ["rules: [", "server: { http: { address: \"127.0.0.1:0\", secret: none.txt } }\n"] {
        let told = program.log().matches("the old one goes on").count();
        program.folder.write("rules.yaml", bad);
        program.signal("USR2");
        let is_told = async || program.log().matches("the old one goes on").count() == told + 1;
        crate::support::until("it is told why", is_told).await;
        assert!(Resp::to(&place).await.unwrap().ask(&["PING"]).await.is_ok());
    }
    // One that has opened everything but the last still takes no name away.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let bad = good
        .replace("  rls: 127.0.0.1:0\n", "")
        .replace("resp: { address: \"127.0.0.1:0\"", &format!("resp: {{ address: \"{}\"", taken.local_addr().unwrap()));
    program.folder.write("rules.yaml", &bad);
    let told = program.log().matches("the old one goes on").count();
    program.signal("USR2");
    let is_told = async || program.log().matches("the old one goes on").count() == told + 1;
    crate::support::until("it is told why", is_told).await;
    for name in ["http.sock", "resp.sock"] {
        assert!(program.folder.at(name).exists(), "{name}: {}", program.log());
    }
    assert!(Resp::to(&place).await.unwrap().ask(&["PING"]).await.is_ok());
    program.folder.write("rules.yaml", &good);
    let files = program.files();
    program.stop().await;
    assert!(files < 100, "{files} files open");
}

//! A real Envoy that asks the real program: over TLS with certificates on both sides, over a Unix socket, with a secret,
//! and while the program is killed and started again.

use std::path::PathBuf;

use sluicegate_testkit::servers::{Asking, Envoy, Service};

use crate::program::Program;
use crate::support::folder::Folder;
use crate::support::made::{authority, signed};
use crate::support::place::Place;
use crate::support::until;
use crate::support::upstream::Upstream;
use crate::support::web::Web;

const RULES: &str = "rules: [{ name: per-path, side: descriptor, match: service edge, key: \"descriptor['path']\", \
                     limits: [{ token_bucket: 3/1d, burst: 3 }] }]\n";

const SECRET: &str = "open-sesame-0123456789abcdef";

fn rules(rls: &str) -> String {
    format!("server: {{ rls: {rls}, threads: 1 }}\n{RULES}")
}

/// An Envoy that asks there, and refuses what it cannot ask about.
fn asking(upstream: &Upstream, service: Service) -> Asking {
    Asking { upstream: upstream.address, domain: "edge", service, secret: None, deny: true, more: "" }
}

/// The statuses that clients of this Envoy are answered with, one after the other.
async fn statuses(envoy: &Envoy, path: &str, times: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..times {
        let mut web = Web::to(&Place::Tcp(envoy.address())).await.unwrap();
        statuses.push(web.get(path).await.unwrap().status);
    }
    statuses
}

fn address(program: &Program) -> std::net::SocketAddr {
    match program.place("Envoy's rate limit service") {
        Place::Tcp(at) => at,
        _ => panic!("no address: {}", program.log()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_asks_over_tls_with_a_certificate_and_a_secret() {
    let folder = Folder::new();
    for name in ["ours", "theirs"] {
        authority(folder.path(), name);
    }
    signed(folder.path(), "server", "ours");
    signed(folder.path(), "envoy", "theirs");
    folder.write("secret", SECRET);
    let tls = "{ certificate: server.pem, key: server.key, client_ca: theirs.pem }";
    let rls = format!("{{ address: \"127.0.0.1:0\", tls: {tls}, secret: secret }}");
    let mut program = Program::start(folder, &rules(&rls)).await;
    let at = address(&program);
    let file = |name: &str| program.folder.at(name);
    let shown = || Some((file("envoy.pem"), file("envoy.key")));
    let tls = |authority: PathBuf, shows| Service::Tls { at, authority, shows };
    let upstream = Upstream::start().await;
    let with = |secret, service| Asking { secret, ..asking(&upstream, service) };

    let trusted = Envoy::start(&with(Some(SECRET), tls(file("ours.pem"), shown()))).unwrap();
    assert_eq!(statuses(&trusted, "/a", 4).await, [200, 200, 200, 429]);
    for (what, stranger) in [
        ("shows no certificate", with(Some(SECRET), tls(file("ours.pem"), None))),
        ("knows no secret", with(None, tls(file("ours.pem"), shown()))),
        ("knows another secret", with(Some("open-sesame-0123456789abcdee"), tls(file("ours.pem"), shown()))),
        ("trusts another authority", with(Some(SECRET), tls(file("theirs.pem"), shown()))),
        ("speaks no TLS", with(Some(SECRET), Service::Tcp(at))),
    ] {
        let stranger = Envoy::start(&stranger).unwrap();
        assert_eq!(statuses(&stranger, "/b", 2).await, [500, 500], "{what}");
    }
    assert_eq!(statuses(&trusted, "/b", 4).await, [200, 200, 200, 429], "strangers have spent nothing");
    drop(trusted);
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_asks_over_a_unix_socket() {
    let mut program = Program::start(Folder::new(), &rules("{ unix: rls.sock }")).await;
    let upstream = Upstream::start().await;
    let envoy = Envoy::start(&asking(&upstream, Service::Unix(program.folder.at("rls.sock")))).unwrap();
    assert_eq!(statuses(&envoy, "/a", 4).await, [200, 200, 200, 429]);
    assert_eq!(statuses(&envoy, "/b", 1).await, [200]);
    drop(envoy);
    program.stop().await;
}

/// Killed, it can say goodbye to nobody. Envoy does as it was told, and asks again once there is somebody to ask.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_lives_through_our_being_killed() {
    // Nobody else in these tests connects from here: the port stays free until it is wanted again.
    let mut program = Program::start(Folder::new(), &rules("127.0.0.2:0")).await;
    let at = address(&program);
    let upstream = Upstream::start().await;
    let closed = asking(&upstream, Service::Tcp(at));
    let open = Envoy::start(&Asking { deny: false, ..closed.clone() }).unwrap();
    let closed = Envoy::start(&closed).unwrap();
    for path in ["/a", "/b"] {
        assert_eq!(statuses(&open, path, 2).await, [200, 200]);
        assert_eq!(statuses(&closed, path, 2).await, [200, 429]);
    }
    program.kill().await;
    assert_eq!(statuses(&open, "/a", 5).await, [200; 5]);
    assert_eq!(statuses(&closed, "/a", 5).await, [500; 5]);

    let mut program = Program::start(Folder::new(), &rules(&format!("\"{at}\""))).await;
    // What it had counted is gone with it. Each Envoy needs a moment to notice that it is back.
    until("the closed one asks again", async || statuses(&closed, "/else", 1).await != [500]).await;
    assert_eq!(statuses(&closed, "/a", 4).await, [200, 200, 200, 429]);
    until("the open one asks again", async || statuses(&open, "/a", 1).await == [429]).await;
    assert_eq!(statuses(&open, "/b", 4).await, [200, 200, 200, 429]);
    drop((open, closed));
    program.stop().await;
}

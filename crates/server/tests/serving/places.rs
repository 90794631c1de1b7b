//! Each protocol at each place it can be spoken at, and with a secret.

use sluicegate_listen::Stop;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::rustls::ALL_VERSIONS;

use crate::support::folder::Folder;
use crate::support::made;
use crate::support::place::Place;
use crate::support::resp::{Reply, Resp};
use crate::support::rls::{Failed, Rls, SERVING, UNAUTHENTICATED};
use crate::support::served::Served;
use crate::support::web::Web;
use crate::support::{soon, until};

/// Seven in an hour for each account, however they are asked for.
pub(crate) const RULES: &str = "
rules:
  - { name: per-account, match: service shop, key: account, limits: [{ token_bucket: 7/1h, burst: 7 }] }
  - { name: described, side: descriptor, match: service edge, key: \"descriptor['account']\", limits: [{ token_bucket: 7/1h, burst: 7 }] }
";

/// Each protocol answers at these places, and each is spent of by all who ask for it.
async fn all_answer(places: &[Place; 3], account: &str) {
    let [rls, http, resp] = places;
    let mut rls = Rls::to(rls).await.unwrap();
    for expected in [(true, 6), (true, 5)] {
        assert_eq!(rls.ask("edge", &[("account", account)]).await.unwrap(), expected);
    }
    assert_eq!(rls.health("ratelimit").await.unwrap(), SERVING);
    let mut web = Web::to(http).await.unwrap();
    assert_eq!(web.check("per-account", account).await.unwrap(), (true, 6, false));
    assert_eq!(web.get("/healthcheck").await.unwrap().status, 200);
    let mut resp = Resp::to(resp).await.unwrap();
    assert_eq!(resp.ask(&["PING"]).await.unwrap(), Reply::Status("PONG".to_owned()));
    // One rule, two protocols.
    assert_eq!(resp.check("per-account", account).await.unwrap(), (true, 5, false));
    assert_eq!(web.check("per-account", account).await.unwrap(), (true, 4, false));
    assert_eq!(resp.ask(&["CL.THROTTLE", account, "3", "1", "3600"]).await.unwrap().numbers(), [0, 4, 3, -1, 3600]);
}

/// Threads that look for more before they sleep answer the same, wake when something comes, and stop when they should.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_that_stay_awake_for_a_while_answer_the_same() {
    let folder = Folder::new();
    let services = "rls: 127.0.0.1:0, http: 127.0.0.1:0, resp: 127.0.0.1:0";
    let served = Served::start(&folder, &format!("server: {{ {services}, threads: 1, busy_poll: 200us }}\n{RULES}"));
    let places = [0, 1, 2].map(|nth| served.place(nth));
    for account in ["alice", "bob", "carol"] {
        all_answer(&places, account).await;
    }
    let open = Resp::to(&places[2]).await.unwrap();
    let report = served.stop(Stop::Close).await;
    assert_eq!(report.aborted, 0);
    drop(open);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_the_network_and_over_unix_sockets_it_is_one_server() {
    let folder = Folder::new();
    let service = |name: &str| format!("{name}: {{ address: \"127.0.0.1:0\", unix: {name}.sock }}");
    let rules =
        format!("server:\n  {}\n  {}\n  {}\n  threads: 2\n{RULES}", service("rls"), service("http"), service("resp"));
    let served = Served::start(&folder, &rules);
    let network = [0, 1, 2].map(|nth| served.place(nth));
    let unix = ["rls", "http", "resp"].map(|name| Place::Unix(folder.at(&format!("{name}.sock"))));
    all_answer(&network, "alice").await;
    all_answer(&unix, "bob").await;
    // What was taken at one place is taken at the other.
    let mut web = Web::to(&unix[1]).await.unwrap();
    assert_eq!(web.check("per-account", "alice").await.unwrap(), (true, 3, false));
    let mut resp = Resp::to(&network[2]).await.unwrap();
    assert_eq!(resp.check("per-account", "bob").await.unwrap(), (true, 3, false));
    drop((web, resp));
    served.stop(Stop::Close).await;
    for place in network.iter().chain(&unix) {
        // A process that another test begins to start may have the socket for a moment.
        until("nobody listens any more", async || place.connect(b"").await.is_err()).await;
    }
    for name in ["rls", "http", "resp"] {
        assert!(!folder.at(&format!("{name}.sock")).exists(), "the name is gone");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_tls_of_either_version() {
    let folder = Folder::new();
    made::authority(folder.path(), "ca");
    made::signed(folder.path(), "server", "ca");
    let tls = "{ address: \"127.0.0.1:0\", tls: { certificate: server.pem, key: server.key } }";
    let served = Served::start(&folder, &format!("server: {{ rls: {tls}, http: {tls}, resp: {tls} }}\n{RULES}"));
    for version in ALL_VERSIONS {
        let client = made::client(folder.path(), "ca", None, &[version]);
        let at = served.addresses();
        let places = [at[0], at[1], at[2]].map(|at| Place::Tls(at, client.clone()));
        all_answer(&places, &format!("{:?}", version.version)).await;
    }
    // Without TLS nobody is answered, and nobody hangs.
    for nth in 0..3 {
        let mut io = served.place(nth).connect(b"").await.unwrap();
        io.write_all(b"PING\r\n\r\n").await.unwrap();
        let mut came = Vec::new();
        drop(soon("to be let go", io.read_to_end(&mut came)).await);
        assert!(!came.starts_with(b"+") && !came.starts_with(b"HTTP"), "{came:?}");
    }
    let report = served.stop(Stop::Close).await;
    assert_eq!(report.aborted, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_secret_nothing_is_decided() {
    let folder = Folder::new();
    folder.write("secret.txt", "correct horse\n");
    let service = "{ address: \"127.0.0.1:0\", secret: secret.txt }";
    let served =
        Served::start(&folder, &format!("server: {{ rls: {service}, http: {service}, resp: {service} }}\n{RULES}"));
    for shown in [None, Some("correct hors"), Some("correct horse "), Some("wrong horse"), Some("")] {
        let mut rls = Rls::to(&served.place(0)).await.unwrap();
        rls.secret = shown.map(str::to_owned);
        let failed = rls.ask("edge", &[("account", "alice")]).await;
        assert!(matches!(failed, Err(Failed(Some(UNAUTHENTICATED), _))), "{shown:?}: {failed:?}");
        // Whether it is well may be asked by everybody.
        assert_eq!(rls.health("").await.unwrap(), SERVING);

        let mut web = Web::to(&served.place(1)).await.unwrap();
        web.secret = shown.map(str::to_owned);
        for (method, path) in [("POST", "/v1/check"), ("GET", "/v1/auth"), ("POST", "/json"), ("GET", "/json")] {
            let kind = [("content-type", "application/json")];
            // Blanks at the end of a header's line are not part of it.
            let is_it = shown == Some("correct horse ");
            let status = web.call(method, path, &kind, "{}").await.unwrap().status;
            assert_eq!(status == 401, !is_it, "{shown:?} {path}: {status}");
        }
        // So may what the API is like: browsers cannot show a secret for a page.
        for path in ["/healthcheck", "/docs/", "/openapi.json"] {
            assert_eq!(web.get(path).await.unwrap().status, 200, "{path}");
        }

        let mut resp = Resp::to(&served.place(2)).await.unwrap();
        if let Some(shown) = shown {
            let refused = resp.ask(&["AUTH", shown]).await.unwrap();
            assert!(matches!(&refused, Reply::Error(error) if error.starts_with("WRONGPASS")), "{refused:?}");
        }
        for words in [&["CL.THROTTLE", "k", "1", "1", "60"][..], &["SLUICE.CHECK", "per-account", "account", "alice"]] {
            let refused = resp.ask(words).await.unwrap();
            assert!(matches!(&refused, Reply::Error(error) if error.starts_with("NOAUTH")), "{refused:?}");
        }
    }
    let mut rls = Rls::to(&served.place(0)).await.unwrap();
    rls.secret = Some("correct horse".to_owned());
    assert_eq!(rls.ask("edge", &[("account", "alice")]).await.unwrap(), (true, 6));
    let mut web = Web::to(&served.place(1)).await.unwrap();
    web.secret = Some("correct horse".to_owned());
    assert_eq!(web.check("per-account", "alice").await.unwrap(), (true, 6, false));
    let mut resp = Resp::to(&served.place(2)).await.unwrap();
    assert_eq!(resp.ask(&["AUTH", "correct horse"]).await.unwrap(), Reply::Status("OK".to_owned()));
    assert_eq!(resp.check("per-account", "alice").await.unwrap(), (true, 5, false));
    drop(served);
}

//! How many connections there may be, and that those beyond cost nothing.

use crate::places::RULES;
use crate::support::folder::Folder;
use crate::support::place::Place;
use crate::support::resp::Resp;
use crate::support::rls::Rls;
use crate::support::served::Served;
use crate::support::until;
use crate::support::web::Web;

const EVERYWHERE: &str =
    "server:\n  rls: 127.0.0.1:0\n  http: 127.0.0.1:0\n  resp: { address: \"127.0.0.1:0\", unix: s }\n";

async fn answers(place: &Place) -> Option<Resp> {
    let mut resp = Resp::to(place).await.ok()?;
    resp.ask(&["PING"]).await.ok().map(|_| resp)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_over_the_bound_are_refused() {
    let folder = Folder::new();
    let served = Served::start(&folder, &format!("{EVERYWHERE}  connections: {{ max: 4, queue: 0 }}\n{RULES}"));
    let place = served.place(2);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(answers(&place).await.expect("there is a place"));
    }
    // All protocols are bounded together.
    let mut web = Web::to(&served.place(1)).await.unwrap();
    assert_eq!(web.get("/healthz").await.unwrap().status, 200);
    for _ in 0..20 {
        assert!(answers(&place).await.is_none());
        assert!(Rls::to(&served.place(0)).await.unwrap().health("").await.is_err());
        let refused = Web::to(&served.place(1)).await.unwrap().get("/healthz").await;
        assert!(refused.is_err(), "{refused:?}");
    }
    let counts = served.running.vitals().door().counts();
    assert_eq!((counts.open, counts.refused.full), (4, 60));
    // Whoever is in is served, and whoever goes makes room.
    assert_eq!(held[0].check("per-account", "alice").await.unwrap(), (true, 6, false));
    held.clear();
    drop(web);
    until("all have gone", async || served.running.vitals().door().counts().open == 0).await;
    assert!(answers(&place).await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_client_has_no_more_than_its_share() {
    let folder = Folder::new();
    let served = Served::start(&folder, &format!("{EVERYWHERE}  connections: {{ max: 100, per_client: 2 }}\n{RULES}"));
    let held = [answers(&served.place(2)).await, answers(&served.place(2)).await];
    assert!(held.iter().all(Option::is_some));
    for _ in 0..5 {
        assert!(answers(&served.place(2)).await.is_none());
    }
    assert_eq!(served.running.vitals().door().counts().refused.per_client, 5);
    drop(held);
    until("both have gone", async || served.running.vitals().door().counts().open == 0).await;
    assert!(answers(&served.place(2)).await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_idle_clients_are_in_nobodys_way() {
    let folder = Folder::new();
    let served = Served::start(&folder, &format!("{EVERYWHERE}  threads: 2\n{RULES}"));
    let mut idle = Vec::new();
    for _ in 0..1_000 {
        idle.push(Resp::to(&served.place(2)).await.unwrap());
    }
    until("all are in", async || served.running.vitals().door().counts().open == 1_000).await;
    let mut web = Web::to(&served.place(1)).await.unwrap();
    let mut rls = Rls::to(&served.place(0)).await.unwrap();
    let mut resp = Resp::to(&Place::Unix(folder.at("s"))).await.unwrap();
    for nth in 0..100 {
        let account = format!("account-{nth}");
        assert_eq!(web.check("per-account", &account).await.unwrap(), (true, 6, false));
        assert_eq!(resp.check("per-account", &account).await.unwrap(), (true, 5, false));
        assert_eq!(rls.ask("edge", &[("account", &account)]).await.unwrap(), (true, 6));
    }
    for one in idle.iter_mut().step_by(100) {
        assert!(one.ask(&["PING"]).await.is_ok());
    }
    drop((idle, web, rls, resp));
    until("all have gone", async || served.running.vitals().door().counts().open == 0).await;
}

//! Stopping: what is under way is answered, and nobody is waited for without end.

use std::io;
use std::time::Duration;

use sluicegate_listen::Stop;

use crate::support::folder::Folder;
use crate::support::resp::{Reply, Resp};
use crate::support::rls::{Failed, NOT_SERVING, Rls, SERVING};
use crate::support::served::Served;
use crate::support::soon;
use crate::support::web::Web;

const RULES: &str = "
server: { rls: 127.0.0.1:0, http: 127.0.0.1:0, resp: 127.0.0.1:0, threads: 2, timeouts: { stop: 20s } }
rules:
  - { name: jobs, match: service jobs, limits: [{ concurrency: 1 }], on_limit: { queue: { max_wait: 30s, max_waiting: 5 } } }
  - { name: paced, side: descriptor, match: service edge, limits: [{ leaky_bucket: 1/s, queue: 5 }] }
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_under_way_are_answered() {
    let folder = Folder::new();
    let served = Served::start(&folder, RULES);
    let places = [0, 1, 2].map(|nth| served.place(nth));
    let mut holder = Web::to(&places[1]).await.unwrap();
    assert_eq!(holder.post("/v1/permits", r#"{"rule":"jobs","ttl":"1m"}"#).await.unwrap().status, 201);
    let mut waiter = Web::to(&places[1]).await.unwrap();
    let waiting = tokio::spawn(async move { waiter.post("/v1/permits", r#"{"rule":"jobs","wait":"1500ms"}"#).await });
    let mut paced = Rls::to(&places[0]).await.unwrap();
    assert!(paced.ask("edge", &[("a", "b")]).await.unwrap().0);
    // Held for a second.
    let pausing = tokio::spawn(async move { paced.ask("edge", &[("a", "b")]).await });
    let mut idle = Resp::to(&places[2]).await.unwrap();
    idle.ask(&["PING"]).await.unwrap();
    let mut kept = Web::to(&places[1]).await.unwrap();
    assert_eq!(kept.get("/healthcheck").await.unwrap().status, 200);
    // Whoever is not under way by now is answered while connections part.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let stopping = tokio::spawn(served.stop(Stop::Close));
    soon("an idle client is let go", async { while idle.ask(&["PING"]).await.is_ok() {} }).await;
    // Those who ask over a connection they have are told to go elsewhere.
    let told = kept.get("/healthcheck").await.unwrap();
    assert_eq!((told.status, told.is_last()), (500, true));
    assert!(Web::to(&places[1]).await.is_err() || Web::to(&places[1]).await.unwrap().get("/healthz").await.is_err());
    let waited = soon("the answer", waiting).await.unwrap().unwrap();
    assert_eq!((waited.status, waited.json()["allowed"].as_bool()), (200, Some(false)));
    assert!(soon("the answer", pausing).await.unwrap().unwrap().0);
    let report = soon("it stops", stopping).await.unwrap();
    assert_eq!(report.aborted, 0);
}

/// Whoever waits for a permit while the server stops gets it when another's time is up, on whichever thread it waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_end_in_time_until_nobody_waits_for_one() {
    let folder = Folder::new();
    let served = Served::start(&folder, RULES);
    let place = served.place(1);
    let mut holder = Web::to(&place).await.unwrap();
    assert_eq!(holder.post("/v1/permits", r#"{"rule":"jobs","ttl":"1s"}"#).await.unwrap().status, 201);
    // Five of them, each of which gets it for a second: hardly all on the thread that is looked at.
    let waiting: Vec<_> = (0..5)
        .map(|_| {
            let place = place.clone();
            tokio::spawn(async move {
                let mut web = Web::to(&place).await.unwrap();
                web.post("/v1/permits", r#"{"rule":"jobs","ttl":"1s","wait":"15s"}"#).await.unwrap().status
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let stopping = tokio::spawn(served.stop(Stop::Close));
    for waiting in waiting {
        assert_eq!(soon("the answer", waiting).await.unwrap(), 201);
    }
    assert_eq!(soon("it stops", stopping).await.unwrap().aborted, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_that_were_read_are_answered_whole() {
    let folder = Folder::new();
    let served = Served::start(&folder, RULES);
    let mut resp = Resp::to(&served.place(2)).await.unwrap();
    let words = ["CL.THROTTLE", "k", "10000", "1", "60"];
    let asking = tokio::spawn(async move {
        let mut answered = 0;
        loop {
            for _ in 0..100 {
                if resp.send(&words).await.is_err() {
                    break;
                }
            }
            for _ in 0..100 {
                match resp.reply().await {
                    Ok(Reply::List(list)) => assert_eq!(list.len(), 5),
                    Ok(other) => panic!("{other:?}"),
                    // Nothing of a reply is ever cut off.
                    Err(error) => {
                        let kinds = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset];
                        assert!(kinds.contains(&error.kind()), "{error}");
                        assert!(resp.0.buffer().is_empty());
                        return answered;
                    }
                }
                answered += 1;
            }
        }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let report = served.stop(Stop::Close).await;
    assert_eq!(report.aborted, 0);
    assert!(soon("the client hears of it", asking).await.unwrap() > 0);
}

/// Load balancers look every few seconds. What they would send here meanwhile is served, as it is not theirs to know.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn until_it_has_drained_it_serves_everybody() {
    let folder = Folder::new();
    let served = Served::start(&folder, &RULES.replace("threads: 2", "threads: 2, drain: 10m"));
    let places = [0, 1, 2].map(|nth| served.place(nth));
    let mut watcher = Rls::to(&places[0]).await.unwrap();
    let mut health = watcher.watch("ratelimit").await.unwrap();
    assert_eq!(health.next().await, Ok(Some(SERVING)));
    {
        let mut draining = std::pin::pin!(served.running.drain());
        let told = tokio::select! {
            () = &mut draining => panic!("ten minutes are not over"),
            told = health.next() => told,
        };
        assert_eq!(told, Ok(Some(NOT_SERVING)));
        // Who comes only now is served, and told to go elsewhere by whatever asks for that.
        let mut late = Rls::to(&places[0]).await.unwrap();
        assert_eq!(late.health("ratelimit").await, Ok(NOT_SERVING));
        assert!(late.ask("edge", &[("a", "b")]).await.unwrap().0);
        let mut web = Web::to(&places[1]).await.unwrap();
        assert_eq!(web.get("/healthcheck").await.unwrap().status, 500);
        let checked = web.post("/v1/check", "{}").await.unwrap();
        assert_eq!((checked.status, checked.is_last()), (200, false));
        Resp::to(&places[2]).await.unwrap().ask(&["PING"]).await.unwrap();
        assert_eq!(watcher.health("").await, Ok(NOT_SERVING), "it is still served");
    }
    let stopping = tokio::spawn(served.stop(Stop::Close));
    let end = health.next().await;
    assert!(matches!(end, Ok(None) | Err(Failed(..))), "{end:?}");
    assert_eq!(soon("it stops", stopping).await.unwrap().aborted, 0);
}

/// Unless it is said otherwise, nobody who wants it stopped has to wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_time_to_drain_it_stops_at_once() {
    let folder = Folder::new();
    let served = Served::start(&folder, RULES);
    soon("it has drained", served.running.drain()).await;
    assert_eq!(Web::to(&served.place(1)).await.unwrap().get("/healthcheck").await.unwrap().status, 200);
    assert_eq!(served.stop(Stop::Close).await.aborted, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_watches_its_health_is_told_and_let_go() {
    let folder = Folder::new();
    let served = Served::start(&folder, RULES);
    let mut watcher = Rls::to(&served.place(0)).await.unwrap();
    let mut health = watcher.watch("ratelimit").await.unwrap();
    assert_eq!(health.next().await, Ok(Some(1)));
    let stopping = tokio::spawn(served.stop(Stop::Close));
    assert_eq!(health.next().await, Ok(Some(NOT_SERVING)));
    // The watching ends with the server, long before the time for stopping is up.
    let end = health.next().await;
    assert!(matches!(end, Ok(None) | Err(Failed(..))), "{end:?}");
    let report = soon("it stops", stopping).await.unwrap();
    assert_eq!(report.aborted, 0);
}

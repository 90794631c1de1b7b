//! Clients of each protocol that ask without a pause until told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::support::place::Place;
use crate::support::resp::Resp;
use crate::support::rls::{Failed, Rls};
use crate::support::until;
use crate::support::web::Web;

pub(crate) struct Load {
    told: Arc<Told>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

#[derive(Default)]
struct Told {
    stop: AtomicBool,
    done: AtomicUsize,
}

impl Told {
    /// Whether to go on, after a call that is done.
    async fn go_on(&self) -> bool {
        self.done.fetch_add(1, Ordering::SeqCst);
        // As many as a busy machine can bear beside the other tests.
        tokio::time::sleep(Duration::from_millis(1)).await;
        !self.stop.load(Ordering::SeqCst)
    }
}

impl Load {
    /// Of each protocol, one client keeps its connection as long as it is let, and one makes a new one for each call.
    pub(crate) fn on(rls: &Place, http: &Place, resp: &Place) -> Self {
        let told: Arc<Told> = Arc::default();
        let mut clients = Vec::new();
        for keeps in [true, false] {
            clients.push(tokio::spawn(over_rls(rls.clone(), keeps, Arc::clone(&told))));
            clients.push(tokio::spawn(over_http(http.clone(), keeps, Arc::clone(&told))));
            clients.push(tokio::spawn(over_resp(resp.clone(), keeps, Arc::clone(&told))));
        }
        Self { told, clients }
    }

    /// Waits for so many more calls.
    pub(crate) async fn go_on(&self, calls: usize) {
        let before = self.told.done.load(Ordering::SeqCst);
        until("calls go on", async || self.told.done.load(Ordering::SeqCst) >= before + calls).await;
    }

    /// Ends it, and answers what went wrong.
    pub(crate) async fn end(self) -> Vec<String> {
        self.told.stop.store(true, Ordering::SeqCst);
        let mut failed = Vec::new();
        for client in self.clients {
            failed.extend(client.await.unwrap());
        }
        failed
    }
}

/// A call that the server did not take on a connection that ends (GOAWAY) is made again on another, as every client of
/// gRPC does.
async fn over_rls(place: Place, keeps: bool, told: Arc<Told>) -> Vec<String> {
    let (mut failed, mut kept): (_, Option<Rls>) = (Vec::new(), None);
    loop {
        let was_kept = kept.is_some();
        let mut rls = match kept.take() {
            Some(rls) => rls,
            None => match Rls::to(&place).await {
                Ok(rls) => rls,
                Err(error) => {
                    failed.push(format!("rls: not connected: {error:?}"));
                    continue;
                }
            },
        };
        match rls.ask("edge", &[("account", "load")]).await {
            Ok(_) => kept = keeps.then_some(rls),
            Err(Failed(None, _)) if was_kept => continue,
            Err(error) => failed.push(format!("rls: {error:?}")),
        }
        if !told.go_on().await {
            return failed;
        }
    }
}

async fn over_http(place: Place, keeps: bool, told: Arc<Told>) -> Vec<String> {
    let (mut failed, mut kept): (_, Option<Web>) = (Vec::new(), None);
    loop {
        let mut web = match kept.take() {
            Some(web) => web,
            None => match Web::to(&place).await {
                Ok(web) => web,
                Err(error) => {
                    failed.push(format!("http: not connected: {error}"));
                    continue;
                }
            },
        };
        match web.post("/v1/check", r#"{"rule":"load","attributes":{"account":"http"}}"#).await {
            Ok(answer) if answer.status == 200 => kept = (keeps && !answer.is_last()).then_some(web),
            other => failed.push(format!("http: {other:?}")),
        }
        if !told.go_on().await {
            return failed;
        }
    }
}

/// A connection that ends before a reply has begun is made anew, as every client of Redis does: the protocol has no way
/// to say beforehand that it will end.
async fn over_resp(place: Place, keeps: bool, told: Arc<Told>) -> Vec<String> {
    let (mut failed, mut kept): (_, Option<Resp>) = (Vec::new(), None);
    loop {
        let was_kept = kept.is_some();
        let mut resp = match kept.take() {
            Some(resp) => resp,
            None => match Resp::to(&place).await {
                Ok(resp) => resp,
                Err(error) => {
                    failed.push(format!("resp: not connected: {error}"));
                    continue;
                }
            },
        };
        match resp.check("load", "resp").await {
            Ok(_) => kept = keeps.then_some(resp),
            Err(_) if was_kept && resp.0.buffer().is_empty() => continue,
            Err(error) => failed.push(format!("resp: {error}")),
        }
        if !told.go_on().await {
            return failed;
        }
    }
}

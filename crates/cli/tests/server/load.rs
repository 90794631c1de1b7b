//! Closed-loop load over each protocol.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;

use super::support::endpoint::TestEndpoint;
use super::support::http_client::TestHttpClient;
use super::support::resp::TestRespClient;
use super::support::rls::{RlsError, TestRlsClient};
use super::support::wait_until;

pub(crate) struct Load {
    control: Arc<LoadControl>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

#[derive(Default)]
struct LoadControl {
    stop: AtomicBool,
    done: AtomicUsize,
}

impl LoadControl {
    /// Called after each completed call. True if the client should continue.
    async fn should_continue(&self) -> bool {
        self.done.fetch_add(1, Ordering::SeqCst);
        // Limits the load next to the other tests on a busy machine.
        tokio::time::sleep(Duration::from_millis(1)).await;
        !self.stop.load(Ordering::SeqCst)
    }
}

impl Load {
    /// Starts two clients per protocol: one with a persistent connection, one with a new connection per call.
    pub(crate) fn on(rls: &TestEndpoint, http: &TestEndpoint, resp: &TestEndpoint) -> Self {
        let control: Arc<LoadControl> = Arc::default();
        let mut clients = Vec::new();
        for keeps in [true, false] {
            clients.push(tokio::spawn(run_rls(rls.clone(), keeps, Arc::clone(&control))));
            clients.push(tokio::spawn(run_http(http.clone(), keeps, Arc::clone(&control))));
            clients.push(tokio::spawn(run_resp(resp.clone(), keeps, Arc::clone(&control))));
        }
        Self { control, clients }
    }

    /// Waits for this many more calls.
    pub(crate) async fn wait_for_calls(&self, calls: usize) {
        let before = self.control.done.load(Ordering::SeqCst);
        wait_until("calls continue", async || self.control.done.load(Ordering::SeqCst) >= before + calls).await;
    }

    /// Stops the load; returns the errors.
    pub(crate) async fn stop(self) -> Vec<String> {
        self.control.stop.store(true, Ordering::SeqCst);
        let mut failed = Vec::new();
        for client in self.clients {
            failed.extend(client.await.unwrap());
        }
        failed
    }
}

/// A call that the server did not process before GOAWAY is retried on another connection, as gRPC clients do.
async fn run_rls(endpoint: TestEndpoint, keeps: bool, control: Arc<LoadControl>) -> Vec<String> {
    let (mut failed, mut reused): (_, Option<TestRlsClient>) = (Vec::new(), None);
    loop {
        let was_reused = reused.is_some();
        let mut rls = match reused.take() {
            Some(rls) => rls,
            None => match TestRlsClient::connect(&endpoint).await {
                Ok(rls) => rls,
                Err(error) => {
                    failed.push(format!("rls: not connected: {error:?}"));
                    continue;
                }
            },
        };
        match rls.check("edge", &[("account", "load")]).await {
            Ok(_) => reused = keeps.then_some(rls),
            Err(RlsError(None, _)) if was_reused => continue,
            Err(error) => failed.push(format!("rls: {error:?}")),
        }
        if !control.should_continue().await {
            return failed;
        }
    }
}

async fn run_http(endpoint: TestEndpoint, keeps: bool, control: Arc<LoadControl>) -> Vec<String> {
    let (mut failed, mut reused): (_, Option<TestHttpClient>) = (Vec::new(), None);
    loop {
        let mut web = match reused.take() {
            Some(web) => web,
            None => match TestHttpClient::connect(&endpoint).await {
                Ok(web) => web,
                Err(error) => {
                    failed.push(format!("http: not connected: {error}"));
                    continue;
                }
            },
        };
        match web.post("/v1/check", r#"{"rule":"load","attributes":{"account":"http"}}"#).await {
            Ok(response) if response.status == 200 => reused = (keeps && !response.closes_connection()).then_some(web),
            other => failed.push(format!("http: {other:?}")),
        }
        if !control.should_continue().await {
            return failed;
        }
    }
}

/// A connection that ends before a reply has begun is reopened, as Redis clients do: the protocol cannot announce
/// the end.
async fn run_resp(endpoint: TestEndpoint, keeps: bool, control: Arc<LoadControl>) -> Vec<String> {
    let (mut failed, mut reused): (_, Option<TestRespClient>) = (Vec::new(), None);
    loop {
        let was_reused = reused.is_some();
        let mut resp = match reused.take() {
            Some(resp) => resp,
            None => match TestRespClient::connect(&endpoint).await {
                Ok(resp) => resp,
                Err(error) => {
                    failed.push(format!("resp: not connected: {error}"));
                    continue;
                }
            },
        };
        match resp.check("load", "resp").await {
            Ok(_) => reused = keeps.then_some(resp),
            Err(_) if was_reused && resp.0.buffer().is_empty() => continue,
            Err(error) => failed.push(format!("resp: {error}")),
        }
        if !control.should_continue().await {
            return failed;
        }
    }
}

//! Polls a process: follows its tick stream, requests the remaining data, and reconnects.

use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::{sleep, timeout};

use super::api_types::{Ban, ProcessStatus, StoreStatus, Tick, TopKeys};
use super::client::{AdminClient, ClientError};

/// Minimum interval between polls of data that is not in the stream.
const MIN_POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Path of the top keys request, with the number of keys per rule.
const TOP_KEYS_PATH: &str = "/v1/top?limit=20";

/// Update from the process.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Update {
    Tick(Tick),
    Status(ProcessStatus),
    Top(Vec<TopKeys>),
    Bans(Vec<Ban>),
    Store(Option<StoreStatus>),
    /// The stream ended, or could not be opened.
    Lost(ClientError),
    /// Result of removing a ban: true if the ban existed.
    BanRemoved(Ban, Result<bool, ClientError>),
}

/// Reconnect backoff: grows until an attempt succeeds.
#[derive(Clone, Copy, Debug)]
struct Backoff(Duration);

impl Backoff {
    const INITIAL: Duration = Duration::from_millis(500);
    const MAX: Duration = Duration::from_secs(10);

    const fn new() -> Self {
        Self(Self::INITIAL)
    }

    fn next(&mut self) -> Duration {
        let next = self.0;
        self.0 = (next * 2).min(Self::MAX);
        next
    }
}

/// Follows the tick stream until the receiver is dropped.
pub(super) async fn follow_stream(client: AdminClient, updates: Sender<Update>) {
    let mut backoff = Backoff::new();
    loop {
        let error = match client.open_stream().await {
            Err(error) => error,
            Ok(mut live) => loop {
                match live.next().await {
                    Err(error) => break error,
                    Ok(tick) => {
                        backoff = Backoff::new();
                        if updates.send(Update::Tick(tick)).await.is_err() {
                            return;
                        }
                    }
                }
            },
        };
        if updates.send(Update::Lost(error)).await.is_err() {
            return;
        }
        sleep(backoff.next()).await;
    }
}

/// Polls the remaining data periodically and removes bans, until the receiver is dropped.
pub(super) async fn poll_loop(
    mut client: AdminClient,
    interval: Duration,
    mut bans_to_remove: Receiver<Ban>,
    updates: Sender<Update>,
) {
    loop {
        for part in poll_once(&mut client).await {
            if updates.send(part).await.is_err() {
                return;
            }
        }
        match timeout(interval.max(MIN_POLL_INTERVAL), bans_to_remove.recv()).await {
            Err(_) => {}
            Ok(None) => return,
            Ok(Some(ban)) => {
                let result = remove_ban(&mut client, &ban).await;
                if updates.send(Update::BanRemoved(ban, result)).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Requests all data once. Failed requests are skipped: the stream reports the reason.
pub(super) async fn poll_once(client: &mut AdminClient) -> Vec<Update> {
    let mut updates = Vec::new();
    updates.extend(client.get("/v1/status").await.map(|json| Update::Status(ProcessStatus::from_json(&json))).ok());
    updates.extend(client.get("/v1/bans").await.map(|json| Update::Bans(Ban::from_json(&json))).ok());
    updates.extend(client.get("/v1/store").await.map(|json| Update::Store(StoreStatus::from_json(&json))).ok());
    updates.extend(client.get(TOP_KEYS_PATH).await.map(|json| Update::Top(TopKeys::from_json(&json))).ok());
    updates
}

async fn remove_ban(client: &mut AdminClient, ban: &Ban) -> Result<bool, ClientError> {
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let route = format!("/v1/bans?rule={}&key={}", encoded(ban.rule.raw()), encoded(ban.key.raw()));
    Ok(client.delete(&route).await?["removed"].as_bool().unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_to_its_maximum() {
        let mut backoff = Backoff::new();
        let waits: Vec<u128> = (0..7).map(|_| backoff.next().as_millis()).collect();
        assert_eq!(waits, [500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
    }
}

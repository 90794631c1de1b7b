//! Follows a process: brings what it says, and connects again whenever that ends.

use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::{sleep, timeout};

use super::client::{Client, Trouble};
use super::wire::{Ban, Status, Store, Tick, TopKeys};

/// The least time between two looks at what does not come by itself.
const LOOK: Duration = Duration::from_secs(2);
/// How many keys are asked for, of each rule.
const MOST_KEYS: &str = "/v1/top?most=20";

/// What is heard of the process.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum News {
    Tick(Tick),
    Status(Status),
    Top(Vec<TopKeys>),
    Bans(Vec<Ban>),
    Store(Option<Store>),
    /// The stream ended, or could not be had.
    Lost(Trouble),
    /// A ban was to be lifted: whether there was one.
    Lifted(Ban, Result<bool, Trouble>),
}

/// How long to wait before the next attempt: longer each time, until one succeeds.
#[derive(Clone, Copy, Debug)]
struct Backoff(Duration);

impl Backoff {
    const FIRST: Duration = Duration::from_millis(500);
    const LONGEST: Duration = Duration::from_secs(10);

    const fn new() -> Self {
        Self(Self::FIRST)
    }

    fn next(&mut self) -> Duration {
        let next = self.0;
        self.0 = (next * 2).min(Self::LONGEST);
        next
    }
}

/// Follows the stream of figures until nobody listens.
pub(super) async fn follow(client: Client, news: Sender<News>) {
    let mut backoff = Backoff::new();
    loop {
        let trouble = match client.live().await {
            Err(trouble) => trouble,
            Ok(mut live) => loop {
                match live.next().await {
                    Err(trouble) => break trouble,
                    Ok(tick) => {
                        backoff = Backoff::new();
                        if news.send(News::Tick(tick)).await.is_err() {
                            return;
                        }
                    }
                }
            },
        };
        if news.send(News::Lost(trouble)).await.is_err() {
            return;
        }
        sleep(backoff.next()).await;
    }
}

/// Asks for the rest from time to time, and lifts bans, until nobody listens.
pub(super) async fn look(mut client: Client, interval: Duration, mut to_lift: Receiver<Ban>, news: Sender<News>) {
    loop {
        for part in look_once(&mut client).await {
            if news.send(part).await.is_err() {
                return;
            }
        }
        match timeout(interval.max(LOOK), to_lift.recv()).await {
            Err(_) => {}
            Ok(None) => return,
            Ok(Some(ban)) => {
                let end = lift(&mut client, &ban).await;
                if news.send(News::Lifted(ban, end)).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// What can be had now. What cannot is left out: the stream tells why.
pub(super) async fn look_once(client: &mut Client) -> Vec<News> {
    let mut heard = Vec::new();
    heard.extend(client.get("/v1/status").await.map(|said| News::Status(Status::read(&said))).ok());
    heard.extend(client.get("/v1/bans").await.map(|said| News::Bans(Ban::read(&said))).ok());
    heard.extend(client.get("/v1/store").await.map(|said| News::Store(Store::read(&said))).ok());
    heard.extend(client.get(MOST_KEYS).await.map(|said| News::Top(TopKeys::read(&said))).ok());
    heard
}

async fn lift(client: &mut Client, ban: &Ban) -> Result<bool, Trouble> {
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let route = format!("/v1/bans?rule={}&key={}", encoded(ban.rule.raw()), encoded(ban.key.raw()));
    Ok(client.delete(&route).await?["lifted"].as_bool().unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound() {
        let mut backoff = Backoff::new();
        let waits: Vec<u128> = (0..7).map(|_| backoff.next().as_millis()).collect();
        assert_eq!(waits, [500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
    }
}

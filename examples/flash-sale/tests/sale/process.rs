//! The program itself, in a process that can be killed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::{Client, Response, StatusCode};
use serde_json::json;
use sluicegate_flash_sale::database::Books;
use sluicegate_flash_sale::shop::Step;
use sluicegate_flash_sale::{ONLY_KEY, Order, State};

/// Only a guard against hanging.
pub(crate) const GUARD: Duration = Duration::from_secs(60);

/// A shop in a process of its own.
pub(crate) struct Process {
    child: Child,
    url: String,
    gateway: String,
    /// Kept open: it goes on writing.
    _says: BufReader<ChildStdout>,
}

impl Process {
    /// Starts it with these options and waits until it says where it is.
    pub(crate) fn start(options: &[String]) -> Self {
        let free = "127.0.0.1:0";
        let mut child = Command::new(env!("CARGO_BIN_EXE_sluicegate-flash-sale"))
            .args(["shop", "--listen", free, "--gateway", free, "--dashboard", free])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut says = BufReader::new(child.stdout.take().unwrap());
        let [url, gateway] = ["shop at ", "gateway at "].map(|what| {
            let mut line = String::new();
            says.read_line(&mut line).unwrap();
            line.trim().strip_prefix(what).unwrap_or_else(|| panic!("it says `{line}`")).to_owned()
        });
        Self { child, url, gateway, _says: says }
    }

    /// Kills it, as `kill -9` does.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The gateway before it.
    pub(crate) fn gateway(&self) -> &str {
        &self.gateway
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Buyers who go to a step of one shop or another, and remember who was told that they have an item, or to wait for it.
pub(crate) struct Buyers {
    client: Client,
    step: Step,
    came: u32,
    pub(crate) accepted: Vec<String>,
}

impl Buyers {
    pub(crate) fn new(step: Step) -> Self {
        let client = Client::builder().no_proxy().timeout(GUARD).build().unwrap();
        Self { client, step, came: 0, accepted: Vec::new() }
    }

    /// The next buyer. Answers what the shop said, if it said anything.
    pub(crate) async fn next(&mut self, url: &str) -> Option<StatusCode> {
        self.came += 1;
        let answer = self.ask(url, &self.last()).await?;
        let status = answer.status();
        if matches!(status, StatusCode::CREATED | StatusCode::ACCEPTED) {
            self.accepted.push(answer.json::<Order>().await.ok()?.id);
        }
        Some(status)
    }

    async fn ask(&self, url: &str, buyer: &str) -> Option<Response> {
        let wish = json!({ "buyer": buyer });
        self.client.post(format!("{url}/sale/{}", self.step)).json(&wish).send().await.ok()
    }

    /// Who came last.
    pub(crate) fn last(&self) -> String {
        format!("buyer-{}", self.came)
    }

    /// A buyer comes again, with the same key, until the limit lets it through.
    pub(crate) async fn again(&self, url: &str, buyer: &str) -> Option<StatusCode> {
        let begun = Instant::now();
        loop {
            let status = self.ask(url, buyer).await?.status();
            if status != StatusCode::TOO_MANY_REQUESTS {
                return Some(status);
            }
            assert!(begun.elapsed() < GUARD, "{buyer} is not let in");
        }
    }

    /// Whether a buyer has an order.
    pub(crate) async fn has(&self, url: &str, buyer: &str) -> bool {
        let id = format!("{buyer}.{ONLY_KEY}");
        self.client.get(format!("{url}/orders/{id}")).send().await.unwrap().status() == StatusCode::OK
    }

    /// Comes again and again until so many have been accepted in all.
    pub(crate) async fn until_accepted(&mut self, url: &str, many: usize) {
        let begun = Instant::now();
        while self.accepted.len() < many {
            assert!(begun.elapsed() < GUARD, "{} of {many} were accepted", self.accepted.len());
            self.next(url).await;
        }
    }

    /// Comes again and again until everything is sold: what was reserved in vain comes back in between.
    /// The books are those of `shop`.
    pub(crate) async fn until_all_is_sold(&mut self, url: &str, shop: &str) -> Books {
        let begun = Instant::now();
        loop {
            let books = self.books(shop).await;
            if books.left == 0 {
                return books;
            }
            assert!(begun.elapsed() < GUARD, "{books:?}");
            self.next(url).await;
        }
    }

    /// What became of everybody who was accepted, once none of them waits any more.
    pub(crate) async fn results(&self, url: &str) -> BTreeMap<String, State> {
        let mut results = BTreeMap::new();
        let begun = Instant::now();
        for id in &self.accepted {
            let state = loop {
                let answer = self.client.get(format!("{url}/orders/{id}")).send().await.unwrap();
                assert_eq!(answer.status(), 200, "{id} was accepted and is lost");
                let order: Order = answer.json().await.unwrap();
                if order.state != State::Waiting {
                    break order.state;
                }
                assert!(begun.elapsed() < GUARD, "{id} still waits");
                tokio::time::sleep(Duration::from_millis(10)).await;
            };
            results.insert(id.clone(), state);
        }
        results
    }

    pub(crate) async fn books(&self, url: &str) -> Books {
        self.client.get(format!("{url}/stock")).send().await.unwrap().json().await.unwrap()
    }
}

//! The flash sale program in a separate process that can be killed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::{Client, Response, StatusCode};
use serde_json::json;
use sluicegate_flash_sale::database::SaleTotals;
use sluicegate_flash_sale::shop::Step;
use sluicegate_flash_sale::{DEFAULT_KEY, Order, OrderState};

/// Upper bound of a wait; prevents a hanging test.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Shop in a separate process.
pub(crate) struct ShopProcess {
    child: Child,
    url: String,
    gateway: String,
    /// Kept open, because the process continues to write.
    _stdout: BufReader<ChildStdout>,
}

impl ShopProcess {
    /// Starts a shop and waits until it has printed its addresses.
    pub(crate) fn start(options: &[String]) -> Self {
        let free = "127.0.0.1:0";
        let mut child = Command::new(env!("CARGO_BIN_EXE_sluicegate-flash-sale"))
            .args(["shop", "--listen", free, "--gateway", free, "--dashboard", free])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let [url, gateway] = ["shop at ", "gateway at "].map(|prefix| {
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            line.trim().strip_prefix(prefix).unwrap_or_else(|| panic!("unexpected line `{line}`")).to_owned()
        });
        Self { child, url, gateway, _stdout: stdout }
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// URL of the gateway.
    pub(crate) fn gateway(&self) -> &str {
        &self.gateway
    }
}

impl Drop for ShopProcess {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Sends buyers to a step and records accepted orders (201 and 202).
pub(crate) struct Buyers {
    client: Client,
    step: Step,
    count: u32,
    pub(crate) accepted: Vec<String>,
}

impl Buyers {
    pub(crate) fn new(step: Step) -> Self {
        let client = Client::builder().no_proxy().timeout(TEST_TIMEOUT).build().unwrap();
        Self { client, step, count: 0, accepted: Vec::new() }
    }

    /// Sends a new buyer and returns the status, or `None` without a response.
    pub(crate) async fn next(&mut self, url: &str) -> Option<StatusCode> {
        self.count += 1;
        let response = self.send_purchase(url, &self.last_buyer()).await?;
        let status = response.status();
        if matches!(status, StatusCode::CREATED | StatusCode::ACCEPTED) {
            self.accepted.push(response.json::<Order>().await.ok()?.id);
        }
        Some(status)
    }

    async fn send_purchase(&self, url: &str, buyer: &str) -> Option<Response> {
        let body = json!({ "buyer": buyer });
        self.client.post(format!("{url}/sale/{}", self.step)).json(&body).send().await.ok()
    }

    /// Name of the last buyer.
    pub(crate) fn last_buyer(&self) -> String {
        format!("buyer-{}", self.count)
    }

    /// Repeats the request of a buyer with the same key until the limit admits it.
    pub(crate) async fn retry(&self, url: &str, buyer: &str) -> Option<StatusCode> {
        let started = Instant::now();
        loop {
            let status = self.send_purchase(url, buyer).await?.status();
            if status != StatusCode::TOO_MANY_REQUESTS {
                return Some(status);
            }
            assert!(started.elapsed() < TEST_TIMEOUT, "{buyer} is not admitted");
        }
    }

    /// True if the buyer has an order.
    pub(crate) async fn has_order(&self, url: &str, buyer: &str) -> bool {
        let id = format!("{buyer}.{DEFAULT_KEY}");
        self.client.get(format!("{url}/orders/{id}")).send().await.unwrap().status() == StatusCode::OK
    }

    /// Sends new buyers until this number of orders has been accepted in total.
    pub(crate) async fn until_accepted(&mut self, url: &str, expected: usize) {
        let started = Instant::now();
        while self.accepted.len() < expected {
            assert!(started.elapsed() < TEST_TIMEOUT, "{} of {expected} were accepted", self.accepted.len());
            self.next(url).await;
        }
    }

    /// Sends new buyers to `url` until all items are sold, including those of expired reservations. Reads the totals
    /// from `shop`.
    pub(crate) async fn until_sold_out(&mut self, url: &str, shop: &str) -> SaleTotals {
        let started = Instant::now();
        loop {
            let totals = self.totals(shop).await;
            if totals.left == 0 {
                return totals;
            }
            assert!(started.elapsed() < TEST_TIMEOUT, "{totals:?}");
            self.next(url).await;
        }
    }

    /// Waits for the results of all accepted orders.
    pub(crate) async fn results(&self, url: &str) -> BTreeMap<String, OrderState> {
        let mut results = BTreeMap::new();
        let started = Instant::now();
        for id in &self.accepted {
            let state = loop {
                let response = self.client.get(format!("{url}/orders/{id}")).send().await.unwrap();
                assert_eq!(response.status(), 200, "accepted order {id} is lost");
                let order: Order = response.json().await.unwrap();
                if order.state != OrderState::Waiting {
                    break order.state;
                }
                assert!(started.elapsed() < TEST_TIMEOUT, "{id} is still waiting");
                tokio::time::sleep(Duration::from_millis(10)).await;
            };
            results.insert(id.clone(), state);
        }
        results
    }

    pub(crate) async fn totals(&self, url: &str) -> SaleTotals {
        self.client.get(format!("{url}/stock")).send().await.unwrap().json().await.unwrap()
    }
}

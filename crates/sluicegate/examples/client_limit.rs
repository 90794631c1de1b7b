//! Client-side limits: calls to an external API stay within our own rule and within the quota of its server.
//!
//! `cargo run -p sluicegate --features reqwest --example client_limit`
#![allow(clippy::print_stdout, reason = "examples print their results")]

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::{Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};
use reqwest_middleware::ClientBuilder;
use sluicegate::rule::{Direction, Queue, Rule, Target};
use sluicegate::tower::client::ClientLimit;
use sluicegate::{Limit, Rate, Sluice};

/// Quota of the server: four calls per 200 ms. It reports the quota in headers and refuses further calls.
const QUOTA: u32 = 4;
const WINDOW: Duration = Duration::from_millis(200);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let bank = format!("http://{}/rates", listener.local_addr()?);
    let window = Arc::new(Mutex::new((Instant::now(), 0)));
    let app = Router::new().route("/rates", get(handle_call)).with_state(window);
    tokio::spawn(async move { axum::serve(listener, app).await });

    // Our own limit: 50 calls per second, evenly spaced. The same rule in a rule file:
    // { name: bank, match: calls-to bank, limits: [{ leaky_bucket: 50/s, queue: 20 }],
    //   on_limit: { queue: { max_wait: 5s } } }
    let mut rule = Rule::new("bank", [Limit::leaky_bucket(Rate::per_second(50)?, 20)?]);
    rule.direction = Direction::Outbound;
    rule.target = Target::parse("calls-to bank")?;
    rule.on_limit.queue = Some(Queue { max_wait: Duration::from_secs(5), max_waiting: 100 });
    let sluice = Sluice::builder().rule(rule).build()?;

    let limit = ClientLimit::builder(sluice).service("bank").build();
    let client = ClientBuilder::new(reqwest::Client::builder().no_proxy().build()?).with(limit.clone()).build();

    // The first response reports the quota of the server; the other calls start at the same time.
    let start = Instant::now();
    println!("first: {}", client.get(&bank).send().await?.status());
    let calls = (1..=9).map(|number| {
        let (client, bank) = (client.clone(), bank.clone());
        tokio::spawn(async move {
            let status = client.get(bank).send().await.map(|response| response.status());
            (number, status, start.elapsed())
        })
    });
    for call in calls.collect::<Vec<_>>() {
        let (number, status, after) = call.await?;
        println!("call {number}: {} after {} ms", status?, after.as_millis());
    }

    let counts = limit.counts();
    println!(
        "{} sent; {} delayed by the quota of the server, {} queued by our rule",
        counts.sent, counts.delayed, counts.queued
    );
    assert_eq!(counts.sent, 10);
    assert!(start.elapsed() >= WINDOW, "ten calls exceed one window");
    Ok(())
}

/// Counts a call and reports the remaining quota and the time until the reset.
async fn handle_call(State(window): State<Arc<Mutex<(Instant, u32)>>>) -> impl IntoResponse {
    let (remaining, reset) = {
        let mut window = window.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if window.0.elapsed() >= WINDOW {
            *window = (Instant::now(), 0);
        }
        window.1 += 1;
        (QUOTA.checked_sub(window.1), WINDOW.saturating_sub(window.0.elapsed()))
    };
    let status = if remaining.is_some() { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
    let headers = [
        ("ratelimit-limit", QUOTA.to_string()),
        ("ratelimit-remaining", remaining.unwrap_or_default().to_string()),
        ("ratelimit-reset", format!("{:.3}", reset.as_secs_f64() + 0.001)),
    ];
    (status, headers, "1.08")
}

#[test]
fn runs() -> Result<(), Box<dyn Error>> {
    main()
}

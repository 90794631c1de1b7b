//! Calling somebody else's API: not faster than our own rule, and never more than its server allows.
//!
//! `cargo run -p sluicegate --features reqwest --example call_politely`
#![allow(clippy::print_stdout, reason = "an example is there to be watched")]

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::{Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};
use reqwest_middleware::ClientBuilder;
use sluicegate::rule::{Queue, Rule, Side, Target};
use sluicegate::tower::outgoing::Outgoing;
use sluicegate::{Limit, Rate, Sluice};

/// The bank serves four calls in every fifth of a second, says so, and refuses the rest.
const QUOTA: u32 = 4;
const WINDOW: Duration = Duration::from_millis(200);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let bank = format!("http://{}/rates", listener.local_addr()?);
    let window = Arc::new(Mutex::new((Instant::now(), 0)));
    let app = Router::new().route("/rates", get(rates)).with_state(window);
    tokio::spawn(async move { axum::serve(listener, app).await });

    // Our own limit: fifty calls a second, evenly. As a rule file has it:
    // { name: bank, match: caller-of bank, limits: [{ leaky_bucket: 50/s, queue: 20 }],
    //   on_limit: { queue: { max_wait: 5s } } }
    let mut rule = Rule::new("bank", [Limit::leaky_bucket(Rate::per_second(50)?, 20)?]);
    rule.side = Side::Outbound;
    rule.target = Target::parse("caller-of bank")?;
    rule.on_limit.queue = Some(Queue { max_wait: Duration::from_secs(5), max_waiting: 100 });
    let sluice = Sluice::builder().rule(rule).build()?;

    let outgoing = Outgoing::builder(sluice).service("bank").build();
    let client = ClientBuilder::new(reqwest::Client::builder().no_proxy().build()?).with(outgoing.clone()).build();

    // The first call learns what the bank allows; the others come all at once.
    let begun = Instant::now();
    println!("first: {}", client.get(&bank).send().await?.status());
    let calls = (1..=9).map(|number| {
        let (client, bank) = (client.clone(), bank.clone());
        tokio::spawn(async move {
            let status = client.get(bank).send().await.map(|answer| answer.status());
            (number, status, begun.elapsed())
        })
    });
    for call in calls.collect::<Vec<_>>() {
        let (number, status, after) = call.await?;
        println!("call {number}: {} after {} ms", status?, after.as_millis());
    }

    let counts = outgoing.counts();
    println!("{} sent; {} waited for the bank, {} for our rule", counts.sent, counts.held, counts.queued);
    assert_eq!(counts.sent, 10);
    assert!(begun.elapsed() >= WINDOW, "ten calls do not fit into one window");
    Ok(())
}

/// Counts a call and says what is left, and for how long that counts.
async fn rates(State(window): State<Arc<Mutex<(Instant, u32)>>>) -> impl IntoResponse {
    let (left, reset) = {
        let mut window = window.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if window.0.elapsed() >= WINDOW {
            *window = (Instant::now(), 0);
        }
        window.1 += 1;
        (QUOTA.checked_sub(window.1), WINDOW.saturating_sub(window.0.elapsed()))
    };
    let status = if left.is_some() { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
    let headers = [
        ("ratelimit-limit", QUOTA.to_string()),
        ("ratelimit-remaining", left.unwrap_or_default().to_string()),
        ("ratelimit-reset", format!("{:.3}", reset.as_secs_f64() + 0.001)),
    ];
    (status, headers, "1.08")
}

#[test]
fn runs() -> Result<(), Box<dyn Error>> {
    main()
}

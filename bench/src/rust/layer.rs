//! Overhead of the tower layer in an axum app, compared with tower_governor: `tower-layer`.

use std::convert::Infallible;
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::response::Response;
use axum::routing::get;
use http::Request;
use sluicegate::rule::{Attribute, Rule};
use sluicegate::tower::LimitLayer;
use sluicegate::{Limit, Rate, Sluice};
use tower::Service;
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

use crate::report::{Goal, Row, Unit};
use crate::runner::{Scale, best_of};

/// Number of clients.
const CLIENTS: u32 = 10_000;
/// Burst of each client; more than all rounds take.
const BURST: u32 = 100_000_000;

/// Layer with a limit per client address that is never reached.
fn ours() -> LimitLayer {
    let bucket =
        Limit::token_bucket(Rate::per_second(1_000).expect("valid rate"), u64::from(BURST)).expect("valid bucket");
    let mut rule = Rule::new("per-ip", [bucket]);
    rule.key = vec![Attribute::ClientIp.into()];
    LimitLayer::new(Sluice::builder().rule(rule).build().expect("valid rules"))
}

fn app() -> Router {
    Router::new().route("/", get(async || "hello"))
}

/// Sends requests through an app in this thread and returns nanoseconds per request.
fn nanos_per_request(app: &mut Router, requests: u32, expected_headers: usize) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime builds");
    runtime.block_on(async {
        let mut headers = 0;
        let started = Instant::now();
        for index in 0..requests {
            let client = Ipv4Addr::from_bits(0x0a00_0000 + index.wrapping_mul(7_919) % CLIENTS);
            let mut request = Request::new(Body::empty());
            request.extensions_mut().insert(ConnectInfo(SocketAddr::from((client, 40_000))));
            let result: Result<Response, Infallible> = black_box(app.call(request).await);
            let response = result.expect("response");
            assert_eq!(response.status(), 200, "every request is admitted");
            headers += response.headers().len();
        }
        let elapsed = started.elapsed();
        assert_eq!(headers, expected_headers * requests as usize, "every response has rate limit headers");
        elapsed.as_nanos() as f64 / f64::from(requests)
    })
}

pub(crate) fn added(scale: Scale) -> Vec<Row> {
    let requests = scale.size(300_000);
    let config = GovernorConfigBuilder::default()
        .per_millisecond(1)
        .burst_size(BURST)
        .use_headers()
        .finish()
        .expect("valid configuration");
    let mut bare = app();
    let mut ours = app().layer(ours());
    let mut theirs = app().layer(GovernorLayer::new(config));
    // content-type and content-length, and two rate limit headers of each layer.
    let [bare, ours, theirs] = best_of(
        2 * scale.rounds(),
        [
            &mut || nanos_per_request(&mut bare, requests, 2),
            &mut || nanos_per_request(&mut ours, requests, 4),
            &mut || nanos_per_request(&mut theirs, requests, 4),
        ],
    );
    vec![Row {
        case: "tower-layer",
        peer: "tower_governor 0.8",
        unit: Unit::Nanos,
        ours: ours - bare,
        theirs: theirs - bare,
        goal: Goal::ratio(1.0),
    }]
}

//! Example: an axum server with rate limits.
//!
//! [`app`] is an axum router with a [`LimitLayer`]. `rules.yaml` defines the limits, their keys and the responses to
//! refused requests. Start it with `cargo run -p shop-http`, and run `curl -i http://127.0.0.1:3000/api/search` six
//! times to reach a limit.

use axum::extract::Path;
use axum::http::HeaderName;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use sluicegate::config::settings::Settings;
use sluicegate::http::attributes::jwt::{JwtAlgorithm, JwtKey, JwtVerifier};
use sluicegate::http::attributes::{ApiKeyLocation, AttributeSources};
use sluicegate::http::identity::TrustedProxies;
use sluicegate::tower::LimitLayer;
use sluicegate::{Sluice, clock::ClockHandle};

/// Secret of the token signatures. For this example only.
pub const SECRET: &[u8] = b"secret of the example, 32 bytes.";

/// Creates the layer from a rule file. A proxy on this machine is trusted, accounts are identified by JSON web tokens
/// and partners by API keys.
pub fn limits(settings: Settings, clock: ClockHandle) -> Result<LimitLayer, Box<dyn std::error::Error>> {
    let lists = settings.lists.conditions();
    let sluice = Sluice::builder().rules(settings.rules).lists(lists).clock(clock.clone()).build()?;
    let tokens = JwtVerifier::builder().key(JwtKey::secret(JwtAlgorithm::HS256, SECRET)?).clock(clock).build()?;
    let attributes = AttributeSources::builder()
        .jwt(tokens)
        .api_key(
            "api_key",
            [ApiKeyLocation::Header(HeaderName::from_static("x-api-key")), ApiKeyLocation::Query("key".to_owned())],
        )
        .build()?;
    Ok(LimitLayer::builder(sluice)
        .headers(settings.headers)
        .forwarding(TrustedProxies::loopback())
        .attributes(attributes)
        .build())
}

/// Routes of the shop.
pub fn app(limits: LimitLayer) -> Router {
    Router::new()
        .route("/api/orders", post(async || "ordered"))
        .route("/api/items/{id}", get(item))
        .route("/api/search", get(async || Json(json!({ "items": ["red shoes"] }))))
        .route("/api/stock", get(async || Json(json!({ "red shoes": 12 }))))
        .route("/busy", get(async || "too many requests, please try again later"))
        .layer(limits)
}

async fn item(Path(id): Path<u32>) -> Json<Value> {
    Json(json!({ "id": id, "name": "red shoes" }))
}

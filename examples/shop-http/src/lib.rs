//! A shop behind rules.
//!
//! [`app`] is an ordinary axum program with one layer around it. Which requests are limited, by what, and
//! what is answered then is in `rules.yaml` beside it. Run it with `cargo run -p shop-http` and try
//! `curl -i http://127.0.0.1:3000/api/search` six times.

use axum::extract::Path;
use axum::http::HeaderName;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use sluicegate::config::settings::Settings;
use sluicegate::http::attributes::jwt::{JwtAlgorithm, JwtKey, JwtVerifier};
use sluicegate::http::attributes::{ApiKeyPlace, AttributeSources};
use sluicegate::http::identity::TrustedProxies;
use sluicegate::tower::LimitLayer;
use sluicegate::{Sluice, clock::ClockHandle};

/// The secret that tokens are signed with. A real shop keeps its own.
pub const SECRET: &[u8] = b"a secret for an example, no more";

/// The rules of a file as a layer: clients behind a proxy on this machine, accounts by their token,
/// partners by their key.
pub fn limits(settings: Settings, clock: ClockHandle) -> Result<LimitLayer, Box<dyn std::error::Error>> {
    let lists = settings.lists.conditions();
    let sluice = Sluice::builder().rules(settings.rules).lists(lists).clock(clock.clone()).build()?;
    let tokens = JwtVerifier::builder().key(JwtKey::secret(JwtAlgorithm::HS256, SECRET)?).clock(clock).build()?;
    let attributes = AttributeSources::builder()
        .jwt(tokens)
        .api_key(
            "api_key",
            [ApiKeyPlace::Header(HeaderName::from_static("x-api-key")), ApiKeyPlace::Query("key".to_owned())],
        )
        .build()?;
    Ok(LimitLayer::builder(sluice)
        .headers(settings.headers)
        .forwarding(TrustedProxies::loopback())
        .attributes(attributes)
        .build())
}

/// The shop.
pub fn app(limits: LimitLayer) -> Router {
    Router::new()
        .route("/api/orders", post(async || "ordered"))
        .route("/api/items/{id}", get(item))
        .route("/api/search", get(async || Json(json!({ "items": ["red shoes"] }))))
        .route("/api/stock", get(async || Json(json!({ "red shoes": 12 }))))
        .route("/busy", get(async || "we are busy, please come back"))
        .layer(limits)
}

async fn item(Path(id): Path<u32>) -> Json<Value> {
    Json(json!({ "id": id, "name": "red shoes" }))
}

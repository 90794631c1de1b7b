//! HTTP API of the shop.
//!
//! | request | effect |
//! |---|---|
//! | `POST /sale/{step}` | buys an item: `{"buyer": "alice"}`, with an optional `Idempotency-Key` |
//! | `GET /orders/{id}` | returns an order |
//! | `POST /orders/{id}/payment` | pays an order |
//! | `PUT /stock` | starts a new sale: `{"items": 10}` |
//! | `GET /stock` | returns the totals of the sale and the number of SQL statements |
//!
//! Errors are problem documents (RFC 9457).

mod body;
mod path_name;
mod problem;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;

use crate::order::{DEFAULT_KEY, Order, Purchase};
use crate::shop::{PurchaseOutcome, Shop, Step};
use body::JsonBody;
use path_name::PathName;
use problem::Problem;

/// Maximum size of a request body.
const MAX_BODY_BYTES: usize = 4 * 1024;
/// Maximum number of items of one sale.
const MAX_ITEMS: u32 = 1_000_000;

/// Body of `POST /sale/{step}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BuyRequest {
    buyer: String,
}

/// Body of `PUT /stock`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RestockRequest {
    items: u32,
}

/// Routes of the shop.
pub fn routes(shop: Shop) -> Router {
    Router::new()
        .route("/sale/{step}", post(buy))
        .route("/orders/{id}", get(order))
        .route("/orders/{id}/payment", post(pay))
        .route("/stock", get(totals).put(restock))
        .fallback(async || Problem::new(StatusCode::NOT_FOUND, "not-found", "unknown path: see docs/flash-sale.md"))
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", "this path has other methods")
        })
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(shop)
}

async fn buy(
    State(shop): State<Shop>,
    PathName(step): PathName,
    headers: HeaderMap,
    JsonBody(request): JsonBody<BuyRequest>,
) -> Result<Response, Problem> {
    let step: Step = step.parse()?;
    let key = headers.get("idempotency-key").map_or(Ok(DEFAULT_KEY), |key| key.to_str());
    let purchase = Purchase::new(request.buyer, key.unwrap_or_default())?;
    // A separate task: the purchase completes even if the client disconnects.
    let outcome = tokio::spawn(async move { shop.buy(step, purchase).await }).await;
    Ok(match outcome.map_err(|_| Problem::internal())?? {
        PurchaseOutcome::New(order) => (StatusCode::CREATED, Json(order)).into_response(),
        PurchaseOutcome::Existing(order) => Json(order).into_response(),
        PurchaseOutcome::Accepted(order) => {
            let location = [("location", format!("/orders/{}", order.id))];
            (StatusCode::ACCEPTED, location, Json(order)).into_response()
        }
    })
}

async fn order(State(shop): State<Shop>, PathName(id): PathName) -> Result<Json<Order>, Problem> {
    let purchase = Purchase::from_order_id(&id)?;
    Ok(Json(shop.order(&purchase.order_id()).await?))
}

async fn pay(State(shop): State<Shop>, PathName(id): PathName) -> Result<Json<Order>, Problem> {
    let purchase = Purchase::from_order_id(&id)?;
    Ok(Json(shop.pay(&purchase.order_id()).await?))
}

async fn restock(State(shop): State<Shop>, JsonBody(request): JsonBody<RestockRequest>) -> Result<Response, Problem> {
    if request.items > MAX_ITEMS {
        let detail = format!("the maximum of `items` is {MAX_ITEMS}");
        return Err(Problem::new(StatusCode::BAD_REQUEST, "too-many-items", detail));
    }
    // A separate task: a client that disconnects must not leave the cache of the old sale with the database of the new.
    let restocked = tokio::spawn(async move {
        shop.restock(request.items).await?;
        shop.totals().await
    });
    Ok(Json(restocked.await.map_err(|_| Problem::internal())??).into_response())
}

async fn totals(State(shop): State<Shop>) -> Result<Response, Problem> {
    Ok(Json(shop.totals().await?).into_response())
}

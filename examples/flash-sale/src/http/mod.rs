//! The shop over HTTP.
//!
//! | call | what it does |
//! |---|---|
//! | `POST /sale/{step}` | buys: `{"buyer": "alice"}`, with an `Idempotency-Key` if it may be repeated |
//! | `GET /orders/{id}` | what has become of an order |
//! | `POST /orders/{id}/payment` | pays it |
//! | `PUT /stock` | begins a new sale: `{"items": 10}` |
//! | `GET /stock` | the books, and how many statements reached the database |
//!
//! Everything else, and everything that goes wrong, is a problem document (RFC 9457).

mod body;
mod name;
mod problem;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;

use crate::order::{ONLY_KEY, Order, Purchase};
use crate::shop::{Answer, Shop, Step};
use body::Body;
use name::Name;
use problem::Problem;

/// The longest body anybody needs to send.
const LONGEST_BODY: usize = 4 * 1024;
/// The most items of one sale.
const MOST_ITEMS: u32 = 1_000_000;

/// Who wants to buy.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    buyer: String,
}

/// What is on sale.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Supply {
    items: u32,
}

/// All routes of a shop.
pub fn routes(shop: Shop) -> Router {
    Router::new()
        .route("/sale/{step}", post(buy))
        .route("/orders/{id}", get(order))
        .route("/orders/{id}/payment", post(pay))
        .route("/stock", get(books).put(restock))
        .fallback(async || {
            Problem::new(StatusCode::NOT_FOUND, "nothing-here", "docs/flash-sale.md lists what can be asked")
        })
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "other-method", "this path is asked with another method")
        })
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .with_state(shop)
}

async fn buy(
    State(shop): State<Shop>,
    Name(step): Name,
    headers: HeaderMap,
    Body(wish): Body<Wish>,
) -> Result<Response, Problem> {
    let step: Step = step.parse()?;
    let key = headers.get("idempotency-key").map_or(Ok(ONLY_KEY), |key| key.to_str());
    let purchase = Purchase::new(wish.buyer, key.unwrap_or_default())?;
    // A buyer who hangs up does not stop what has begun.
    let bought = tokio::spawn(async move { shop.buy(step, purchase).await }).await;
    Ok(match bought.map_err(|_| Problem::broken())?? {
        Answer::New(order) => (StatusCode::CREATED, Json(order)).into_response(),
        Answer::Again(order) => Json(order).into_response(),
        Answer::Later(order) => {
            let place = [("location", format!("/orders/{}", order.id))];
            (StatusCode::ACCEPTED, place, Json(order)).into_response()
        }
    })
}

async fn order(State(shop): State<Shop>, Name(id): Name) -> Result<Json<Order>, Problem> {
    let purchase = Purchase::of_order(&id)?;
    Ok(Json(shop.order(&purchase.order()).await?))
}

async fn pay(State(shop): State<Shop>, Name(id): Name) -> Result<Json<Order>, Problem> {
    let purchase = Purchase::of_order(&id)?;
    Ok(Json(shop.pay(&purchase.order()).await?))
}

async fn restock(State(shop): State<Shop>, Body(supply): Body<Supply>) -> Result<Response, Problem> {
    if supply.items > MOST_ITEMS {
        let detail = format!("`items` is at most {MOST_ITEMS}");
        return Err(Problem::new(StatusCode::BAD_REQUEST, "too-many-items", detail));
    }
    // Whoever hangs up must not leave a cache of the old sale before a database of the new one.
    let restocked = tokio::spawn(async move {
        shop.restock(supply.items).await?;
        shop.books().await
    });
    Ok(Json(restocked.await.map_err(|_| Problem::broken())??).into_response())
}

async fn books(State(shop): State<Shop>) -> Result<Response, Problem> {
    Ok(Json(shop.books().await?).into_response())
}

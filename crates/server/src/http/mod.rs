//! HTTP decision API, for any proxy and any language.
//!
//! Life of a request:
//! 1. [`route`] finds the endpoint; [`HttpApi`] authorizes the caller.
//! 2. [`body`] reads a bounded number of bytes; [`decode`] turns them into checks. Errors become a [`problem`]
//!    with a JSON pointer; nothing has been consumed at this point.
//! 3. [`decide`] runs the rules; [`render`] writes the outcome. The status of a decision is always 200,
//!    allowed or refused: the call itself succeeded.
//! 4. A reservation or permit is stored in [`reservations`] until it is ended or expires.
//!
//! [`auth`] is the forward-auth entry point: there the proxy describes the request in headers, and the response
//! status is the decision. [`pages`] serves the OpenAPI document, which [`openapi`] builds from the routes, the fields
//! of bodies and the types of responses, and its browser.

mod api;
mod auth;
mod body;
mod check;
mod decide;
mod decode;
mod openapi;
mod pages;
mod permits;
mod problem;
mod render;
mod reservations;
mod reserve;
mod route;
#[cfg(test)]
mod tests;

pub(crate) use api::{HttpApi, for_method};

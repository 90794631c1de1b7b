//! Decisions over HTTP, for any proxy and any language.
//!
//! A request's way through:
//! 1. [`route`] finds out what is asked for, and [`Api`] whether whoever asks may.
//! 2. [`body`] reads so many bytes and no more, [`read`] makes checks of them. Whatever is wrong with them
//!    becomes a [`problem`] that says where; nothing has been taken by then.
//! 3. [`decide`] asks the rules, [`render`] writes what they said. A decision is always answered with 200,
//!    however it came out: the call went well.
//! 4. What is to be ended later, a reservation or a permit, is [`held`] until it is ended or its time is up.
//!
//! [`auth`] is another way in: there the request is the one that a proxy has described in headers, and the
//! answer's status is the decision. [`pages`] describes all of it to programs and people.

mod api;
mod auth;
mod body;
mod check;
mod decide;
mod held;
mod pages;
mod permits;
mod problem;
mod read;
mod render;
mod reserve;
mod route;
#[cfg(test)]
mod tests;

pub(crate) use api::{Api, fitting};

//! Integration tests of this crate, in one binary: linking is a large part of the time of a test build.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod adaptive;
mod attribute;
mod attribute_queue;
mod attribute_rules;
mod behaviour;
mod broker_rabbitmq;
mod broker_redis;
mod bulkhead;
mod bulkhead_sqlx;
mod cluster;
mod listener_and_layer;
mod readme;
mod stream;
mod stream_bounds;

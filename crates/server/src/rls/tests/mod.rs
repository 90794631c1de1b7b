//! The service over real sockets, asked by tonic's client.

mod bad_input;
mod configured;
mod envoy;
mod health;
mod json;
mod overrides;
mod pauses;
mod rules;
mod secret;
mod support;
mod tallied;

//! The service over real sockets, called by tonic's client.

mod bad_input;
mod configured;
mod delays;
mod envoy;
mod health;
mod json;
mod limit_counters;
mod overrides;
mod rules;
mod secret;
mod support;

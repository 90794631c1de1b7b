//! Overload protection that adapts to the state of the process.
//!
//! A fixed limit fits one host on one day. This crate reads the state of the process several times a second and
//! sets the limits of the [overload gates](sluicegate_engine::overload) of rules.
//!
//! - [`signals`]: reads host, cgroup and network signals, all at the same time
//! - [`readings`]: the values of all signals at one time
//! - [`control_law`]: the [`ControlLaw`](control_law::ControlLaw) trait, with its input and output
//! - [`conditions`]: rate limit while conditions on signals hold, with hysteresis
//! - [`concurrency`]: self-tuning concurrency limit from response times and throughput
//! - [`cpu`]: rate limit from CPU time per request
//! - [`controller`]: control loop that runs the laws and sets the gates
//! - [`client`]: client-side adaptive throttling
//! - `display`: formatting of rates
//!
//! Control laws are plain state machines: they receive the time and measurements, and return limits. The same
//! code runs in production and in simulated time. Requests do not pass through this crate: they pass the gates
//! in the engine.

pub mod client;
pub mod concurrency;
pub mod conditions;
pub mod control_law;
pub mod controller;
pub mod cpu;
mod display;
pub mod readings;
pub mod signals;

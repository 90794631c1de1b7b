//! Flash sale: ten items, five hundred buyers, five seconds.
//!
//! The example measures how many statements reach a real database. It runs the same sale in six steps, each based on
//! the one before: lock, optimistic lock, cache, limit, gateway, queue. `docs/flash-sale.md` describes the steps.
//! `make flash-sale` runs all of them.
//!
//! Path of a purchase:
//!
//! ```text
//! driver --HTTP--> [gateway: rules] --> http --> shop: step --> cache --> queue --> consumer --> database
//!                                                 #[limit]                        rate-limited    counted
//! ```
//!
//! - [`shop`]: steps, payment and background tasks
//! - [`database`], [`cache`], [`queue`]: backends, each with a local and a server implementation
//! - [`http`]: routes and problem documents
//! - [`app`]: shop, gateway and dashboard in one process
//! - [`drive`]: load generator, table and plot

pub mod app;
pub mod cache;
pub mod database;
pub mod drive;
pub mod error;
pub mod http;
mod order;
pub mod queue;
pub mod shop;
mod stock;

pub use order::{DEFAULT_KEY, InvalidName, Order, OrderState, Purchase};

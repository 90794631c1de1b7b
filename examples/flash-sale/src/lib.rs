//! A flash sale: ten items, five hundred buyers, five seconds.
//!
//! The example shows, on a real database, how few of a rush need to reach it. The same sale is run in steps, each
//! built on the one before: a lock, an optimistic lock, a cache, a limit, a gateway, a queue. Every statement is
//! counted. `docs/flash-sale.md` tells what each step teaches; `make flash-sale` runs them all.
//!
//! How a purchase passes through:
//!
//! ```text
//! driver --HTTP--> [gateway: rules] --> http --> shop: step --> cache --> queue --> consumer --> database
//!                                                 #[limit]                           paced        counted
//! ```
//!
//! - [`shop`]: the steps, payment, and the two tasks beside them
//! - [`database`], [`cache`], [`queue`]: the parts behind it, each with a small and a large form
//! - [`http`]: routes and problem documents
//! - [`house`]: shop, gateway and dashboard as one running program
//! - [`drive`]: the buyers, the table and the plot

pub mod cache;
pub mod database;
pub mod drive;
pub mod error;
pub mod house;
pub mod http;
mod order;
pub mod queue;
pub mod shop;

pub use order::{BadName, ONLY_KEY, Order, Purchase, State};

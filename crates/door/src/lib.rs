//! A front door for servers: how many connections are served, how many wait, and how long a slow one may
//! take. Everything over the edge is refused cleanly, and counted.
//!
//! | knob | bounds | over it |
//! |---|---|---|
//! | [`max_connections`](Builder::max_connections) | connections served at once | wait in the queue |
//! | [`queue`](Builder::queue), [`queue_wait`](Builder::queue_wait) | connections that wait for a place, and how long | refused |
//! | [`per_client`](Builder::per_client) | connections of one client, served or waiting | refused |
//! | [`in_flight`](Builder::in_flight) | requests being worked on, over all connections | wait in their connection |
//! | [`header_deadline`](Builder::header_deadline), [`keep_alive`](Builder::keep_alive) | time for a request's head, time between requests | closed |
//!
//! A connection passes through in one line: the [`FrontDoor`] takes it from the kernel, counts it for its
//! client, and gives it a place, a place in the queue, or a refusal. Whoever has a place is served, and
//! gives the place back when the connection closes, however that happens.
//!
//! There are two ways to serve. [`FrontDoor::serve`] takes any tower service and knows all the knobs. As a
//! listener of `axum::serve` (feature `axum`), the door bounds connections; what happens inside them is
//! then axum's business.
//!
//! ```
//! use std::convert::Infallible;
//! use http::{Request, Response};
//! use hyper::body::Incoming;
//! use sluicegate_door::FrontDoor;
//! use tower::service_fn;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let door = FrontDoor::builder().max_connections(100).queue(20).in_flight(8).bind("127.0.0.1:0").await?;
//! let handle = door.handle(); // tells the counts while the door serves
//!
//! let hello = service_fn(|_: Request<Incoming>| async { Ok::<_, Infallible>(Response::new(String::from("hello"))) });
//! let report = door.serve(hello).with_graceful_shutdown(async {}).await; // at once, here
//! assert_eq!((report.finished, report.aborted), (0, 0));
//! assert_eq!(handle.counts().refused.total(), 0);
//! # Ok(())
//! # }
//! ```

mod activity;
mod asleep;
#[cfg(feature = "axum")]
mod axum;
mod builder;
mod clients;
mod connection;
mod counts;
mod doorway;
mod drive;
mod error;
mod files;
mod gate;
mod gather;
mod held;
mod listener;
mod noting;
mod peer;
mod refusal;
mod rewound;
mod sending;
mod serve;
mod socket;
mod watchman;
mod workers;

pub use asleep::Asleep;
pub use builder::Builder;
pub use connection::Connection;
pub use counts::{Counts, DoorHandle, Refusals};
pub use doorway::Doorway;
pub use drive::{Entered, Host, OverConnection, Resting};
pub use error::DoorError;
pub use gather::write_gathered;
pub use held::Held;
pub use listener::FrontDoor;
pub use peer::Peer;
pub use refusal::Refusal;
pub use serve::{Report, Serve, Serving};
pub use watchman::{Late, Patience};
pub use workers::{Workers, WorkersService, Working};

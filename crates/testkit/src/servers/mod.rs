//! Real servers for tests, each test with its own.
//!
//! A server gets free ports on loopback and a folder of its own, is ready when `start` answers, and is gone
//! when it is dropped, also when the test panics. Nothing of the machine's own servers is touched or read.
//!
//! ```
//! use sluicegate_testkit::servers::RedisServer;
//!
//! let redis = RedisServer::start()?;
//! assert!(redis.url().starts_with("redis://127.0.0.1:"));
//! # Ok::<(), sluicegate_testkit::servers::StartError>(())
//! ```

mod certificates;
mod cluster;
mod envoy;
mod folder;
mod mariadb;
mod process;
mod rabbitmq;
mod redis;
mod redis_cli;
mod sentinel;

pub use cluster::RedisCluster;
pub use envoy::{Asking, Envoy, Service};
pub use mariadb::MariaDb;
pub use process::StartError;
pub use rabbitmq::RabbitMq;
pub use redis::RedisServer;
pub use sentinel::SentinelGroup;

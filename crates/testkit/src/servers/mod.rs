//! Real servers for tests: each test starts its own process.
//!
//! A server gets free loopback ports and a temporary directory, is ready when `start` returns, and is stopped
//! on drop, also if the test panics. The machine's own servers and their configuration are not touched.
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
mod mariadb;
mod process;
mod rabbitmq;
mod redis;
mod redis_cli;
mod sentinel;
mod temp_dir;

pub use cluster::RedisCluster;
pub use envoy::{Envoy, EnvoyConfig, RateLimitEndpoint};
pub use mariadb::MariaDb;
pub use process::StartError;
pub use rabbitmq::RabbitMq;
pub use redis::RedisServer;
pub use sentinel::SentinelGroup;

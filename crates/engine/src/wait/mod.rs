//! Wait queues of limiters, and the futures of callers in them.
//!
//! - `block_on`: blocking executor
//! - `queue`: wait queues by key, with a forecast of each wait
//! - `waiter`: future of one caller in a queue

mod block_on;
mod queue;
mod waiter;

pub(crate) use block_on::block_on;
pub(crate) use queue::{QueueCapacity, WaitQueue, WakeId};
pub(crate) use waiter::{AcquireResult, QueueWaiter, QueuedAcquire};

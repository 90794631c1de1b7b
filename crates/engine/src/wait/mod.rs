//! Wait queues of limiters.
//!
//! - `block_on`: blocking executor
//! - `queue`: wait queues by key, with a forecast of each wait

mod block_on;
mod queue;

pub(crate) use block_on::block_on;
pub(crate) use queue::{JoinError, JoinRequest, QueueCapacity, Ticket, WaitQueue, WakeId};

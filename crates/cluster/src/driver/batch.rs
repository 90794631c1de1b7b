//! What the driver gathers into one call.

use redis::Value;

use crate::error::StoreError;
use crate::invocation::Invocation;

/// How items that are asked at the same time become one call of a script, and its reply their answers.
pub(crate) trait Batch: Send + Sync + 'static {
    /// What is asked.
    type Item: Send + Sync + 'static;
    /// What is said about one item.
    type Answer: Send + 'static;

    /// The slot that the item's keys stand in. Only items of one slot go into one call to a Redis Cluster.
    fn slot(&self, item: &Self::Item) -> u16;

    /// The call that asks all of these. Never empty.
    fn encode(&self, items: &[Self::Item]) -> Invocation;

    /// The answers in the reply, one for each item in their order.
    fn decode(&self, reply: Value, items: &[Self::Item]) -> Result<Vec<Self::Answer>, StoreError>;

    /// The call that gives back what these answers took, if they took anything: their askers are gone or have
    /// been told that the store was too slow.
    fn undo(&self, unheard: &[(Self::Item, Self::Answer)]) -> Option<Invocation>;
}

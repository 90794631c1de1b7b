//! The batch trait: items that are combined into one script call.

use redis::Value;

use crate::error::StoreError;
use crate::invocation::Invocation;

/// Encodes concurrent items as one script call, and decodes its reply.
pub(crate) trait Batch: Send + Sync + 'static {
    /// One submitted item.
    type Item: Send + Sync + 'static;
    /// The reply to one item.
    type Reply: Send + 'static;

    /// The hash slot of the item's keys. On a Redis Cluster, one call contains items of one slot only.
    fn slot(&self, item: &Self::Item) -> u16;

    /// Encodes these items as one call. Never empty.
    fn encode(&self, items: &[Self::Item]) -> Invocation;

    /// Decodes the reply: one result per item, in order.
    fn decode(&self, reply: Value, items: &[Self::Item]) -> Result<Vec<Self::Reply>, StoreError>;

    /// The call that undoes undelivered replies, if they took anything: their callers are gone or have
    /// timed out.
    fn undo(&self, undelivered: &[(Self::Item, Self::Reply)]) -> Option<Invocation>;
}

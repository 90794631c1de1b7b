//! Slot map: the owner of each hash slot.

use std::collections::BTreeSet;
use std::sync::Arc;

use redis::{Value, from_redis_value};

use super::address::Address;
use crate::error::StoreError;
use crate::slot::SLOTS;

/// The owner of each slot, as last reported.
#[derive(Clone, Debug)]
pub(super) struct SlotMap(Vec<Option<Arc<Address>>>);

impl SlotMap {
    /// A map without owners.
    pub(super) fn unknown() -> Self {
        Self(vec![None; usize::from(SLOTS)])
    }

    /// Parses the reply to `CLUSTER SLOTS` from the server at `source_host`.
    pub(super) fn parse(reply: Value, source_host: &str) -> Result<Self, StoreError> {
        let malformed = || StoreError::invalid_reply("CLUSTER SLOTS is not a list of ranges");
        let Value::Array(ranges) = reply else { return Err(malformed()) };
        let mut slots = Self::unknown();
        for range in ranges {
            let Value::Array(mut parts) = range else { return Err(malformed()) };
            if parts.len() < 3 {
                return Err(malformed());
            }
            // Replicas follow the primary and are not used.
            parts.truncate(3);
            let Some(Value::Array(mut node)) = parts.pop() else { return Err(malformed()) };
            if node.len() < 2 {
                return Err(malformed());
            }
            node.truncate(2);
            let port: u16 = node.pop().and_then(|port| from_redis_value(port).ok()).ok_or_else(malformed)?;
            let host: Option<String> = node.pop().and_then(|host| from_redis_value(host).ok()).ok_or_else(malformed)?;
            let ends: Vec<u16> = from_redis_value(Value::Array(parts)).map_err(|_| malformed())?;
            let (Some(&first), Some(&last)) = (ends.first(), ends.get(1)) else { return Err(malformed()) };
            let host = match host.as_deref() {
                // The node is known but its address is not.
                Some("?") => continue,
                None | Some("") => source_host,
                Some(host) => host,
            };
            let owner = Arc::new(Address::new(host, port));
            let range = slots.0.get_mut(usize::from(first)..=usize::from(last)).ok_or_else(malformed)?;
            range.fill(Some(owner));
        }
        Ok(slots)
    }

    pub(super) fn owner(&self, slot: u16) -> Option<Arc<Address>> {
        self.0.get(usize::from(slot)).cloned().flatten()
    }

    pub(super) fn set_owner(&mut self, slot: u16, owner: Arc<Address>) {
        if let Some(known) = self.0.get_mut(usize::from(slot)) {
            *known = Some(owner);
        }
    }

    /// All slot owners.
    pub(super) fn owners(&self) -> BTreeSet<Arc<Address>> {
        self.0.iter().flatten().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    fn range(first: i64, last: i64, host: Value, port: i64) -> Value {
        let node = |host, port| Value::Array(vec![host, Value::Int(port), Value::BulkString(b"id".to_vec())]);
        let replica = node(Value::BulkString(b"10.9.9.9".to_vec()), 1);
        Value::Array(vec![Value::Int(first), Value::Int(last), node(host, port), replica])
    }

    fn host(name: &str) -> Value {
        Value::BulkString(name.as_bytes().to_vec())
    }

    #[test]
    fn owners_are_read_and_changed() {
        let reply = Value::Array(vec![
            range(0, 99, host("10.0.0.1"), 7000),
            range(100, 16383, Value::Nil, 7001),
            range(5, 5, host("?"), 7002),
        ]);
        let mut slots = SlotMap::parse(reply, "10.0.0.2").unwrap();
        let owner = |slots: &SlotMap, slot| slots.owner(slot).map(|owner| owner.to_string());
        assert_eq!(owner(&slots, 5).as_deref(), Some("10.0.0.1:7000"));
        assert_eq!(owner(&slots, 16383).as_deref(), Some("10.0.0.2:7001"));
        assert_eq!(owner(&slots, 16384), None);
        assert_eq!(slots.owners().len(), 2);
        slots.set_owner(5, Arc::new(Address::new("10.0.0.3", 1)));
        slots.set_owner(16384, Arc::new(Address::new("10.0.0.3", 1)));
        assert_eq!(owner(&slots, 5).as_deref(), Some("10.0.0.3:1"));
    }

    #[test]
    fn malformed_replies_are_rejected() {
        let replies = [
            Value::Nil,
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![Value::Array(vec![Value::Int(1), Value::Int(2)])]),
            Value::Array(vec![range(0, 16384, host("h"), 1)]),
            Value::Array(vec![range(9, 3, host("h"), 1)]),
            Value::Array(vec![range(0, 3, host("h"), 65536)]),
            Value::Array(vec![range(-1, 3, host("h"), 1)]),
        ];
        for reply in replies {
            // A reversed range is either empty or rejected; both are fine, a panic is not.
            let _ = SlotMap::parse(reply, "h");
        }
        assert!(SlotMap::parse(Value::Nil, "h").is_err());
        assert!(SlotMap::parse(Value::Array(vec![range(0, 16384, host("h"), 1)]), "h").is_err());
    }
}

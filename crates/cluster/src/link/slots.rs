//! Who owns which slot.

use std::collections::BTreeSet;
use std::sync::Arc;

use redis::{Value, from_redis_value};

use super::address::Address;
use crate::error::StoreError;
use crate::slot::SLOTS;

/// The owner of each slot, as last heard.
#[derive(Clone, Debug)]
pub(super) struct Slots(Vec<Option<Arc<Address>>>);

impl Slots {
    /// Nobody owns anything.
    pub(super) fn unknown() -> Self {
        Self(vec![None; usize::from(SLOTS)])
    }

    /// Reads the reply to `CLUSTER SLOTS`, which the server at `asked_at` gave.
    pub(super) fn read(reply: Value, asked_at: &str) -> Result<Self, StoreError> {
        let wrong = || StoreError::unintelligible("CLUSTER SLOTS is not a list of ranges");
        let Value::Array(ranges) = reply else { return Err(wrong()) };
        let mut slots = Self::unknown();
        for range in ranges {
            let Value::Array(mut parts) = range else { return Err(wrong()) };
            if parts.len() < 3 {
                return Err(wrong());
            }
            // After the primary come its replicas, which are of no use here.
            parts.truncate(3);
            let Some(Value::Array(mut node)) = parts.pop() else { return Err(wrong()) };
            if node.len() < 2 {
                return Err(wrong());
            }
            node.truncate(2);
            let port: u16 = node.pop().and_then(|port| from_redis_value(port).ok()).ok_or_else(wrong)?;
            let host: Option<String> = node.pop().and_then(|host| from_redis_value(host).ok()).ok_or_else(wrong)?;
            let ends: Vec<u16> = from_redis_value(Value::Array(parts)).map_err(|_| wrong())?;
            let (Some(&first), Some(&last)) = (ends.first(), ends.get(1)) else { return Err(wrong()) };
            let host = match host.as_deref() {
                // The node is known but where it is, is not.
                Some("?") => continue,
                None | Some("") => asked_at,
                Some(host) => host,
            };
            let owner = Arc::new(Address::new(host, port));
            let range = slots.0.get_mut(usize::from(first)..=usize::from(last)).ok_or_else(wrong)?;
            range.fill(Some(owner));
        }
        Ok(slots)
    }

    pub(super) fn owner(&self, slot: u16) -> Option<Arc<Address>> {
        self.0.get(usize::from(slot)).cloned().flatten()
    }

    pub(super) fn moved(&mut self, slot: u16, owner: Arc<Address>) {
        if let Some(known) = self.0.get_mut(usize::from(slot)) {
            *known = Some(owner);
        }
    }

    /// Everyone who owns a slot.
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
        let mut slots = Slots::read(reply, "10.0.0.2").unwrap();
        let owner = |slots: &Slots, slot| slots.owner(slot).map(|owner| owner.to_string());
        assert_eq!(owner(&slots, 5).as_deref(), Some("10.0.0.1:7000"));
        assert_eq!(owner(&slots, 16383).as_deref(), Some("10.0.0.2:7001"));
        assert_eq!(owner(&slots, 16384), None);
        assert_eq!(slots.owners().len(), 2);
        slots.moved(5, Arc::new(Address::new("10.0.0.3", 1)));
        slots.moved(16384, Arc::new(Address::new("10.0.0.3", 1)));
        assert_eq!(owner(&slots, 5).as_deref(), Some("10.0.0.3:1"));
    }

    #[test]
    fn nonsense_is_refused() {
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
            // A range that ends before it begins owns nothing or is refused; either is fine, a panic is not.
            let _ = Slots::read(reply, "h");
        }
        assert!(Slots::read(Value::Nil, "h").is_err());
        assert!(Slots::read(Value::Array(vec![range(0, 16384, host("h"), 1)]), "h").is_err());
    }
}

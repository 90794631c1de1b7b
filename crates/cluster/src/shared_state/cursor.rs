//! Encoding and decoding of the sync script's calls.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use sluicegate_engine::sluice::BanEvent;
use sluicegate_engine::store::CanonicalKey;

use super::list_entry::ListChange;
use crate::invocation::{Invocation, Script};

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../scripts/sync.lua")));

/// The sync script.
pub(crate) fn script() -> &'static Script {
    &SCRIPT
}

/// Read position of this process in the shared state.
#[derive(Clone, Debug)]
pub(crate) struct SyncCursor {
    prefix: String,
    /// The ID of a new shared state, if this process is the first to sync.
    new_id: String,
    state_id: String,
    sequence: i64,
    lists_version: String,
}

/// Result of one sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyncResult {
    /// Bans set and lifted by any process.
    pub(crate) bans: Vec<BanEvent>,
    /// All list entries, if the lists have changed.
    pub(crate) entries: Option<Vec<ListChange>>,
    /// True if the state ID changed: the store has lost its data.
    pub(crate) is_reset: bool,
    /// True if there is more to read at once.
    pub(crate) has_more: bool,
}

impl SyncCursor {
    pub(crate) fn new(prefix: &str, new_id: String) -> Self {
        let none = String::new();
        Self { prefix: prefix.to_owned(), new_id, state_id: none.clone(), sequence: 0, lists_version: none }
    }

    /// Encodes a sync call that sends these changes.
    pub(crate) fn encode(&self, bans: &[BanEvent], changes: &[ListChange]) -> Invocation {
        let key = |part: &str| Bytes::from(format!("{}:{{shared}}:{part}", self.prefix));
        let number = |number: i64| Bytes::from(number.to_string());
        let mut arguments = vec![
            Bytes::from(self.state_id.clone()),
            number(self.sequence),
            Bytes::from(self.lists_version.clone()),
            Bytes::from(self.new_id.clone()),
            number(bans.len() as i64),
        ];
        for event in bans {
            let ttl_ms = event.remaining.map_or(-1, |time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
            arguments.extend([Bytes::from(ban_field(event)), number(ttl_ms), Bytes::from(non_empty_name(&event.name))]);
        }
        arguments.push(number(changes.len() as i64));
        for change in changes {
            arguments.extend([change.field(), change.ttl_argument()].map(Bytes::from));
        }
        let keys = ["bans", "numbers", "ends", "board", "lists"].map(key).to_vec();
        Invocation { script: &SCRIPT, keys, arguments }
    }

    /// Makes the next sync return all bans.
    pub(crate) const fn reset_bans(&mut self) {
        self.sequence = 0;
    }

    /// Makes the next sync return the lists, changed or not.
    pub(crate) fn reset_lists(&mut self) {
        self.lists_version.clear();
    }

    /// Decodes a sync reply and advances the cursor. `None` if the reply is malformed.
    pub(crate) fn apply_reply(&mut self, reply: Value) -> Option<SyncResult> {
        let Value::Array(parts) = reply else { return None };
        let [name, number, more, lists_version, bans, entries] = <[Value; 6]>::try_from(parts).ok()?;
        let (name, lists_version) = (decode_text(name)?, decode_text(lists_version)?);
        let (Value::Int(number), Value::Int(more), Value::Array(bans)) = (number, more, bans) else { return None };
        let bans = bans.chunks_exact(3).filter_map(decode_ban).collect();
        let entries = match entries {
            Value::Array(entries) => Some(entries.chunks_exact(2).filter_map(decode_entry).collect()),
            _ => None,
        };
        let is_new = name != self.state_id;
        (self.state_id, self.sequence, self.lists_version) = (name, number, lists_version);
        Some(SyncResult { bans, entries, is_reset: is_new, has_more: more == 1 })
    }
}

/// Hash field of a ban: the length of the rule's name, the name, and the key.
fn ban_field(event: &BanEvent) -> Vec<u8> {
    let mut field = (event.rule.len() as u32).to_le_bytes().to_vec();
    field.extend_from_slice(event.rule.as_bytes());
    field.extend_from_slice(event.key.as_bytes());
    field
}

/// The readable key; an empty one would mean a lifted ban.
fn non_empty_name(name: &str) -> String {
    if name.is_empty() { " ".to_owned() } else { name.to_owned() }
}

fn decode_ban(parts: &[Value]) -> Option<BanEvent> {
    let [Value::BulkString(field), Value::Int(left), Value::BulkString(name)] = parts else { return None };
    let (length, rest) = field.split_first_chunk::<4>()?;
    let (rule, key) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some(BanEvent {
        rule: String::from_utf8(rule.to_vec()).ok()?,
        name: String::from_utf8_lossy(name).trim().to_owned(),
        key: CanonicalKey::from(key),
        remaining: u64::try_from(*left).ok().map(Duration::from_millis),
    })
}

/// Decodes a stored entry as the change that would add it.
fn decode_entry(parts: &[Value]) -> Option<ListChange> {
    let [Value::BulkString(field), Value::Int(left)] = parts else { return None };
    let left = u64::try_from(*left).ok().filter(|left| *left > 0).map(Duration::from_millis);
    ListChange::from_field(std::str::from_utf8(field).ok()?, left)
}

fn decode_text(value: Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

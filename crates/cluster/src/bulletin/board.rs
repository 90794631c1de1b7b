//! What is said to the board, and what it says.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use sluicegate_engine::fleet::FleetKey;
use sluicegate_engine::sluice::BanNews;

use super::entry::ListChange;
use crate::invocation::{Invocation, Script};

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../scripts/bulletin.lua")));

/// The script of the board.
pub(crate) fn script() -> &'static Script {
    &SCRIPT
}

/// How far this process has read the board.
#[derive(Clone, Debug)]
pub(crate) struct Board {
    prefix: String,
    /// What a new board is called if this process is the first to look.
    new_name: String,
    name: String,
    number: i64,
    lists_number: String,
}

/// What a look at the board brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// Bans pronounced and lifted, by anybody.
    pub(crate) bans: Vec<BanNews>,
    /// All entries of the lists, if they have changed.
    pub(crate) entries: Option<Vec<ListChange>>,
    /// Whether this is another board than the one known: the store has lost what it held.
    pub(crate) is_new: bool,
    /// Whether there is more to read at once.
    pub(crate) more: bool,
}

impl Board {
    pub(crate) fn new(prefix: &str, new_name: String) -> Self {
        let none = String::new();
        Self { prefix: prefix.to_owned(), new_name, name: none.clone(), number: 0, lists_number: none }
    }

    /// A look at the board that posts these.
    pub(crate) fn look(&self, bans: &[BanNews], changes: &[ListChange]) -> Invocation {
        let key = |part: &str| Bytes::from(format!("{}:{{bulletin}}:{part}", self.prefix));
        let number = |number: i64| Bytes::from(number.to_string());
        let mut arguments = vec![
            Bytes::from(self.name.clone()),
            number(self.number),
            Bytes::from(self.lists_number.clone()),
            Bytes::from(self.new_name.clone()),
            number(bans.len() as i64),
        ];
        for news in bans {
            let lasts = news.remaining.map_or(-1, |time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
            arguments.extend([Bytes::from(field(news)), number(lasts), Bytes::from(shown(&news.name))]);
        }
        arguments.push(number(changes.len() as i64));
        for change in changes {
            arguments.extend([change.field(), change.lasts()].map(Bytes::from));
        }
        let keys = ["bans", "numbers", "ends", "board", "lists"].map(key).to_vec();
        Invocation { script: &SCRIPT, keys, arguments }
    }

    /// Has the next look bring all bans there are.
    pub(crate) const fn read_from_the_start(&mut self) {
        self.number = 0;
    }

    /// Has the next look bring the lists, changed or not.
    pub(crate) fn read_lists_again(&mut self) {
        self.lists_number.clear();
    }

    /// Reads what the board says, and remembers how far. `None` if it is no answer of ours.
    pub(crate) fn read(&mut self, answer: Value) -> Option<Look> {
        let Value::Array(parts) = answer else { return None };
        let [name, number, more, lists_number, bans, entries] = <[Value; 6]>::try_from(parts).ok()?;
        let (name, lists_number) = (text(name)?, text(lists_number)?);
        let (Value::Int(number), Value::Int(more), Value::Array(bans)) = (number, more, bans) else { return None };
        let bans = bans.chunks_exact(3).filter_map(ban).collect();
        let entries = match entries {
            Value::Array(entries) => Some(entries.chunks_exact(2).filter_map(listed).collect()),
            _ => None,
        };
        let is_new = name != self.name;
        (self.name, self.number, self.lists_number) = (name, number, lists_number);
        Some(Look { bans, entries, is_new, more: more == 1 })
    }
}

/// A ban's place: the rule's name, its length first, and the key.
fn field(news: &BanNews) -> Vec<u8> {
    let mut field = (news.rule.len() as u32).to_le_bytes().to_vec();
    field.extend_from_slice(news.rule.as_bytes());
    field.extend_from_slice(news.key.as_bytes());
    field
}

/// The readable key; an empty one would stand for a lifted ban.
fn shown(name: &str) -> String {
    if name.is_empty() { " ".to_owned() } else { name.to_owned() }
}

fn ban(parts: &[Value]) -> Option<BanNews> {
    let [Value::BulkString(field), Value::Int(left), Value::BulkString(name)] = parts else { return None };
    let (length, rest) = field.split_first_chunk::<4>()?;
    let (rule, key) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some(BanNews {
        rule: String::from_utf8(rule.to_vec()).ok()?,
        name: String::from_utf8_lossy(name).trim().to_owned(),
        key: FleetKey::from(key),
        remaining: u64::try_from(*left).ok().map(Duration::from_millis),
    })
}

/// An entry that stands, as the change that would put it there.
fn listed(parts: &[Value]) -> Option<ListChange> {
    let [Value::BulkString(field), Value::Int(left)] = parts else { return None };
    let left = u64::try_from(*left).ok().filter(|left| *left > 0).map(Duration::from_millis);
    ListChange::standing(std::str::from_utf8(field).ok()?, left)
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

//! What the process has said so far.

use std::collections::HashMap;
use std::time::Duration;

use super::RuleRow;
use crate::top::text::Text;
use crate::top::wire::{Ban, Status, Store, Tick, TopKeys};

/// How much earlier than asked for figures may come: the server's second is not to the millisecond.
const SLACK_MS: u64 = 300;

/// What the process has said so far.
#[derive(Clone, Debug, Default)]
pub(in crate::top) struct Seen {
    /// As in the rule file.
    pub(in crate::top) rules: Vec<RuleRow>,
    /// The last figures, without those of the rules.
    pub(in crate::top) tick: Option<Tick>,
    pub(in crate::top) status: Option<Status>,
    pub(in crate::top) top: Option<Vec<TopKeys>>,
    pub(in crate::top) bans: Option<Vec<Ban>>,
    /// `Some(None)`: it has none.
    pub(in crate::top) store: Option<Option<Store>>,
}

/// A key that asks much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::top) struct KeyRow<'a> {
    pub(in crate::top) rule: &'a Text,
    pub(in crate::top) key: &'a Text,
    pub(in crate::top) asked: Option<u64>,
    pub(in crate::top) refused: Option<u64>,
    pub(in crate::top) over: Duration,
}

impl Seen {
    /// Takes up figures, unless they come sooner than after `interval`.
    pub(super) fn tick(&mut self, mut tick: Tick, interval: Duration) {
        let after = self.tick.as_ref().and_then(|last| tick.at_ms.checked_sub(last.at_ms));
        if after.is_some_and(|after| u128::from(after + SLACK_MS) < interval.as_millis()) {
            return;
        }
        let mut known: HashMap<Text, RuleRow> =
            self.rules.drain(..).map(|row| (row.figures.name.clone(), row)).collect();
        let rows = std::mem::take(&mut tick.rules).into_iter().map(|figures| match known.remove(&figures.name) {
            Some(row) => row.followed_by(figures, Duration::from_millis(after.unwrap_or(0))),
            None => RuleRow::new(figures),
        });
        self.rules = rows.collect();
        self.tick = Some(tick);
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = KeyRow<'_>> {
        self.top.iter().flatten().flat_map(|TopKeys { rule, over, keys }| {
            keys.iter().map(|key| KeyRow { rule, key: &key.key, asked: key.asked, refused: key.refused, over: *over })
        })
    }

    pub(super) fn forget_ban(&mut self, lifted: &Ban) {
        if let Some(bans) = &mut self.bans {
            bans.retain(|ban| (&ban.rule, &ban.key) != (&lifted.rule, &lifted.key));
        }
    }
}

//! Data received from the process.

use std::collections::HashMap;
use std::time::Duration;

use super::RuleRow;
use crate::api_types::{Ban, ProcessStatus, StoreStatus, Tick, TopKeys};
use crate::sanitize::UntrustedText;

/// Tolerance for early ticks: the server's second is not exact to the millisecond.
const TICK_TOLERANCE_MS: u64 = 300;

/// Data received from the process so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessState {
    /// Rules in the order of the rule file.
    pub(crate) rules: Vec<RuleRow>,
    /// The last tick, without its rules.
    pub(crate) tick: Option<Tick>,
    pub(crate) status: Option<ProcessStatus>,
    pub(crate) top: Option<Vec<TopKeys>>,
    pub(crate) bans: Option<Vec<Ban>>,
    /// `Some(None)` if the process has no store.
    pub(crate) store: Option<Option<StoreStatus>>,
}

/// A table row of a top key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyRow<'a> {
    pub(crate) rule: &'a UntrustedText,
    pub(crate) key: &'a UntrustedText,
    pub(crate) checked: Option<u64>,
    pub(crate) refused: Option<u64>,
    pub(crate) over: Duration,
}

impl ProcessState {
    /// Applies a tick, unless it comes earlier than `interval` after the previous one.
    pub(super) fn tick(&mut self, mut tick: Tick, interval: Duration) {
        let after = self.tick.as_ref().and_then(|last| tick.at_ms.checked_sub(last.at_ms));
        if after.is_some_and(|after| u128::from(after + TICK_TOLERANCE_MS) < interval.as_millis()) {
            return;
        }
        let mut previous: HashMap<UntrustedText, RuleRow> =
            self.rules.drain(..).map(|row| (row.figures.name.clone(), row)).collect();
        let rows = std::mem::take(&mut tick.rules).into_iter().map(|figures| match previous.remove(&figures.name) {
            Some(row) => row.update(figures, Duration::from_millis(after.unwrap_or(0))),
            None => RuleRow::new(figures),
        });
        self.rules = rows.collect();
        self.tick = Some(tick);
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = KeyRow<'_>> {
        self.top.iter().flatten().flat_map(|TopKeys { rule, over, keys }| {
            keys.iter().map(|key| KeyRow {
                rule,
                key: &key.key,
                checked: key.checked,
                refused: key.refused,
                over: *over,
            })
        })
    }

    pub(super) fn remove_ban(&mut self, removed: &Ban) {
        if let Some(bans) = &mut self.bans {
            bans.retain(|ban| (&ban.rule, &ban.key) != (&removed.rule, &removed.key));
        }
    }
}

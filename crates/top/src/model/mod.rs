//! Application state: all data and user choices. The screen is a pure function of it.
//!
//! ```text
//!  updates from the process --> apply --\
//!                                        Model --> draw
//!  keys typed               --> press --/   \----> an action: remove a ban, quit
//! ```
//!
//! Nothing here waits, sends requests or draws. Time comes with the updates.

mod keys;
mod order;
mod rule;
mod state;

use std::time::{Duration, Instant};

pub(super) use self::order::{BanColumn, Column, KeyColumn, RuleColumn, Sort};
pub(super) use self::rule::RuleRow;
pub(super) use self::state::{KeyRow, ProcessState};
use super::api_types::Ban;
use super::client::ClientError;
use super::poll::Update;
use super::sanitize::UntrustedText;

/// Views of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Rules,
    Keys,
    Bans,
    Store,
    Help,
}

impl View {
    pub(super) const ALL: [Self; 5] = [Self::Rules, Self::Keys, Self::Bans, Self::Store, Self::Help];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Rules => "Rules",
            Self::Keys => "Top keys",
            Self::Bans => "Bans",
            Self::Store => "Store",
            Self::Help => "Help",
        }
    }

    /// Name for narrow screens.
    pub(super) const fn short_name(self) -> &'static str {
        match self {
            Self::Keys => "Keys",
            other => other.name(),
        }
    }
}

/// State of the connection to the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConnectionState {
    /// No data received yet.
    Connecting,
    /// Ticks arrive.
    Live,
    /// Lost since then; another attempt follows.
    Lost { error: ClientError, since: Instant },
}

/// Input mode of the keyboard.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum InputMode {
    /// Commands.
    Commands,
    /// Text of the filter.
    Filter,
    /// Confirmation to remove this ban.
    Confirm(Ban),
}

/// Action to run outside the model.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    Quit,
    RemoveBan(Ban),
}

/// State of the program.
#[derive(Debug)]
pub(super) struct Model {
    /// Watched endpoint, for display.
    pub(super) endpoint: String,
    pub(super) view: View,
    pub(super) mode: InputMode,
    pub(super) connection: ConnectionState,
    pub(super) filter: String,
    pub(super) rule_sort: Sort<RuleColumn>,
    pub(super) key_sort: Sort<KeyColumn>,
    pub(super) ban_sort: Sort<BanColumn>,
    /// Result of the last command, until the next one.
    pub(super) message: Option<String>,
    cursors: [usize; View::ALL.len()],
    interval: Duration,
    current: ProcessState,
    /// Data on the screen while paused.
    frozen: Option<Box<ProcessState>>,
}

impl Model {
    /// Creates a model that accepts ticks at most once per interval.
    pub(super) fn new(endpoint: String, interval: Duration) -> Self {
        Self {
            endpoint,
            view: View::Rules,
            mode: InputMode::Commands,
            connection: ConnectionState::Connecting,
            filter: String::new(),
            rule_sort: Sort::by(RuleColumn::Refused),
            key_sort: Sort::by(KeyColumn::Refused),
            ban_sort: Sort::by(BanColumn::Remaining),
            message: None,
            cursors: [0; View::ALL.len()],
            interval,
            current: ProcessState::default(),
            frozen: None,
        }
    }

    /// Applies an update.
    pub(super) fn apply(&mut self, update: Update, now: Instant) {
        match update {
            Update::Tick(tick) => {
                self.connection = ConnectionState::Live;
                self.current.tick(tick, self.interval);
            }
            Update::Status(status) => self.current.status = Some(status),
            Update::Top(top) => self.current.top = Some(top),
            Update::Bans(bans) => self.current.bans = Some(bans),
            Update::Store(store) => self.current.store = Some(store),
            Update::Lost(error) => {
                let since = match self.connection {
                    ConnectionState::Lost { since, .. } => since,
                    ConnectionState::Connecting | ConnectionState::Live => now,
                };
                self.connection = ConnectionState::Lost { error, since };
            }
            Update::BanRemoved(ban, result) => {
                let Ban { rule, key, .. } = &ban;
                self.message = Some(match &result {
                    Ok(true) => format!("ban removed: {key} (rule {rule})"),
                    Ok(false) => format!("no such ban: {key} (rule {rule})"),
                    Err(error) => format!("ban not removed: {}", UntrustedText::from(error.to_string().as_str())),
                });
                if result.is_ok() {
                    self.current.remove_ban(&ban);
                }
            }
        }
        self.clamp_cursor();
    }

    /// Data on the screen.
    pub(super) fn displayed(&self) -> &ProcessState {
        self.frozen.as_deref().unwrap_or(&self.current)
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.frozen.is_some()
    }

    /// True if the token may write, if known.
    pub(super) fn may_write(&self) -> bool {
        self.current.status.as_ref().is_some_and(|status| status.may_write)
    }

    /// Cursor position in the current view.
    pub(super) const fn cursor(&self) -> usize {
        self.cursors[self.view as usize]
    }

    /// Rules that match the filter, sorted.
    pub(super) fn rules(&self) -> Vec<&RuleRow> {
        let mut rows: Vec<&RuleRow> =
            self.displayed().rules.iter().filter(|row| self.matches_filter([&row.figures.name])).collect();
        self.rule_sort.apply(&mut rows, |column, one, other| column.compare(one, other));
        rows
    }

    /// Keys that match the filter, sorted.
    pub(super) fn keys(&self) -> Vec<KeyRow<'_>> {
        let mut rows: Vec<_> = self.displayed().keys().filter(|row| self.matches_filter([row.rule, row.key])).collect();
        self.key_sort.apply(&mut rows, |column, one, other| column.compare(one, other));
        rows
    }

    /// Bans that match the filter, sorted.
    pub(super) fn bans(&self) -> Vec<&Ban> {
        let bans = self.displayed().bans.iter().flatten();
        let mut rows: Vec<&Ban> = bans.filter(|ban| self.matches_filter([&ban.rule, &ban.key])).collect();
        self.ban_sort.apply(&mut rows, |column, one, other| column.compare(one, other));
        rows
    }

    fn matches_filter<'a>(&self, texts: impl IntoIterator<Item = &'a UntrustedText>) -> bool {
        let pattern = self.filter.to_lowercase();
        pattern.is_empty() || texts.into_iter().any(|text| text.to_string().to_lowercase().contains(&pattern))
    }

    /// Number of rows in the current view.
    fn row_count(&self) -> usize {
        match self.view {
            View::Rules => self.rules().len(),
            View::Keys => self.keys().len(),
            View::Bans => self.bans().len(),
            // Scroll limit of text views.
            View::Store | View::Help => 100,
        }
    }

    fn clamp_cursor(&mut self) {
        let last = self.row_count().saturating_sub(1);
        let cursor = &mut self.cursors[self.view as usize];
        *cursor = (*cursor).min(last);
    }
}

#[cfg(test)]
mod tests;

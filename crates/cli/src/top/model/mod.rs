//! Everything that is known and chosen at a moment; what is drawn follows from it alone.
//!
//! ```text
//!  news of the process --> hear  --\
//!                                   Model --> draw
//!  keys that are typed --> press --/   \----> a wish: lift this ban, end
//! ```
//!
//! Nothing here waits, asks or draws. Time comes with the news.

mod keys;
mod order;
mod rule;
mod seen;

use std::time::{Duration, Instant};

pub(super) use self::order::{BanColumn, Column, KeyColumn, RuleColumn, Sort};
pub(super) use self::rule::RuleRow;
pub(super) use self::seen::{KeyRow, Seen};
use super::client::Trouble;
use super::text::Text;
use super::watch::News;
use super::wire::Ban;

/// What can be looked at.
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

    /// Where there is little room.
    pub(super) const fn short_name(self) -> &'static str {
        match self {
            Self::Keys => "Keys",
            other => other.name(),
        }
    }
}

/// How the connection to the process stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// Nothing has been heard yet.
    Connecting,
    /// Figures come.
    Live,
    /// They do not, since then; another attempt follows.
    Lost { why: Trouble, since: Instant },
}

/// What the keys that are typed mean now.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Mode {
    /// Commands.
    Commands,
    /// The filter's text.
    Filter,
    /// Whether to lift this ban.
    Confirm(Ban),
}

/// What is to be done outside.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wish {
    Quit,
    Lift(Ban),
}

/// The state of the program.
#[derive(Debug)]
pub(super) struct Model {
    /// What is watched, as people write it.
    pub(super) place: String,
    pub(super) view: View,
    pub(super) mode: Mode,
    pub(super) connection: Connection,
    pub(super) filter: String,
    pub(super) rule_sort: Sort<RuleColumn>,
    pub(super) key_sort: Sort<KeyColumn>,
    pub(super) ban_sort: Sort<BanColumn>,
    /// What came of the last command, until the next.
    pub(super) remark: Option<String>,
    cursors: [usize; View::ALL.len()],
    interval: Duration,
    seen: Seen,
    /// What stays on the screen while it is paused.
    frozen: Option<Box<Seen>>,
}

impl Model {
    /// One that takes up new figures no more often than this.
    pub(super) fn new(place: String, interval: Duration) -> Self {
        Self {
            place,
            view: View::Rules,
            mode: Mode::Commands,
            connection: Connection::Connecting,
            filter: String::new(),
            rule_sort: Sort::by(RuleColumn::Limited),
            key_sort: Sort::by(KeyColumn::Refused),
            ban_sort: Sort::by(BanColumn::Remaining),
            remark: None,
            cursors: [0; View::ALL.len()],
            interval,
            seen: Seen::default(),
            frozen: None,
        }
    }

    /// Takes up what was heard.
    pub(super) fn hear(&mut self, news: News, now: Instant) {
        match news {
            News::Tick(tick) => {
                self.connection = Connection::Live;
                self.seen.tick(tick, self.interval);
            }
            News::Status(status) => self.seen.status = Some(status),
            News::Top(top) => self.seen.top = Some(top),
            News::Bans(bans) => self.seen.bans = Some(bans),
            News::Store(store) => self.seen.store = Some(store),
            News::Lost(why) => {
                let since = match self.connection {
                    Connection::Lost { since, .. } => since,
                    Connection::Connecting | Connection::Live => now,
                };
                self.connection = Connection::Lost { why, since };
            }
            News::Lifted(ban, end) => {
                let Ban { rule, key, .. } = &ban;
                self.remark = Some(match end {
                    Ok(true) => format!("lifted: {key} by {rule}"),
                    Ok(false) => format!("there was no ban of {key} by {rule} any more"),
                    Err(trouble) => format!("not lifted: {}", Text::from(trouble.to_string().as_str())),
                });
                if self.remark.as_ref().is_some_and(|remark| !remark.starts_with("not")) {
                    self.seen.forget_ban(&ban);
                }
            }
        }
        self.stay_within();
    }

    /// What is on the screen.
    pub(super) fn seen(&self) -> &Seen {
        self.frozen.as_deref().unwrap_or(&self.seen)
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.frozen.is_some()
    }

    /// Whether the token may change anything, as far as is known.
    pub(super) fn may_write(&self) -> bool {
        self.seen.status.as_ref().is_some_and(|status| status.may_write)
    }

    /// Where the cursor stands in the present view.
    pub(super) const fn cursor(&self) -> usize {
        self.cursors[self.view as usize]
    }

    /// The rules that pass the filter, in their order.
    pub(super) fn rules(&self) -> Vec<&RuleRow> {
        let mut rows: Vec<&RuleRow> = self.seen().rules.iter().filter(|row| self.passes([&row.figures.name])).collect();
        self.rule_sort.apply(&mut rows, |column, one, other| column.compare(one, other));
        rows
    }

    /// The keys that pass the filter, in their order.
    pub(super) fn keys(&self) -> Vec<KeyRow<'_>> {
        let mut rows: Vec<_> = self.seen().keys().filter(|row| self.passes([row.rule, row.key])).collect();
        self.key_sort.apply(&mut rows, |column, one, other| column.compare(one, other));
        rows
    }

    /// The bans that pass the filter, in their order.
    pub(super) fn bans(&self) -> Vec<&Ban> {
        let bans = self.seen().bans.iter().flatten();
        let mut rows: Vec<&Ban> = bans.filter(|ban| self.passes([&ban.rule, &ban.key])).collect();
        self.ban_sort.apply(&mut rows, |column, one, other| column.compare(one, other));
        rows
    }

    fn passes<'a>(&self, texts: impl IntoIterator<Item = &'a Text>) -> bool {
        let wanted = self.filter.to_lowercase();
        wanted.is_empty() || texts.into_iter().any(|text| text.to_string().to_lowercase().contains(&wanted))
    }

    /// How many rows the present view has to walk through.
    fn length(&self) -> usize {
        match self.view {
            View::Rules => self.rules().len(),
            View::Keys => self.keys().len(),
            View::Bans => self.bans().len(),
            // Texts: as far as anybody would scroll.
            View::Store | View::Help => 100,
        }
    }

    fn stay_within(&mut self) {
        let last = self.length().saturating_sub(1);
        let cursor = &mut self.cursors[self.view as usize];
        *cursor = (*cursor).min(last);
    }
}

#[cfg(test)]
mod tests;

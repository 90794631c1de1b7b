//! Keeping the sluices of this process in step with the fleet's bulletin board.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sluicegate_engine::Sluice;
use sluicegate_engine::rule::{Expr, ExprError, Lists};
use sluicegate_engine::sluice::{BanNews, WeakSluice};
use tokio::sync::Notify;

use super::exact::ExactBatch;
use crate::bulletin::{Board, Change, ListChange, ListKind, Look, lists};
use crate::driver::{Driver, random};

/// How often the board is looked at. Twice this and a round trip is how long news takes.
const INTERVAL: Duration = Duration::from_millis(250);

/// How long a look may take.
const DEADLINE: Duration = Duration::from_millis(500);

/// News that are kept while the store cannot be told: more, and the oldest are left to the ban itself.
const MOST_UNTOLD: usize = 16_384;

/// Bans posted in one look: the store does nothing else meanwhile, and others have deadlines.
const MOST_POSTED: usize = 256;

/// What is shared.
#[derive(Clone)]
pub(super) struct Sharing(Arc<Shared>);

struct Shared {
    sluices: Mutex<Vec<WeakSluice>>,
    changes: Mutex<Vec<ListChange>>,
    /// The fleet's lists as last read.
    lists: Mutex<Lists>,
    /// What they are made of, and since when.
    entries: Mutex<Vec<(Instant, ListChange)>>,
    /// Whether somebody has come who knows nothing of the board yet.
    is_news_to_some: AtomicBool,
    /// Wakes whoever looks at the board.
    stir: Notify,
}

impl Sharing {
    pub(super) fn start(driver: &Driver<ExactBatch>, prefix: &str) -> Self {
        let shared = Arc::new(Shared {
            sluices: Mutex::default(),
            changes: Mutex::default(),
            lists: Mutex::default(),
            entries: Mutex::default(),
            is_news_to_some: AtomicBool::new(false),
            stir: Notify::new(),
        });
        let name = format!("{:016x}", random());
        let (board, background) = (Board::new(prefix, name), driver.background());
        driver.spawn(Arc::clone(&shared).watch(background, board));
        Self(shared)
    }

    pub(super) fn add(&self, sluice: &Sluice) {
        self.0.sluices.lock().push(sluice.downgrade());
        self.0.is_news_to_some.store(true, Ordering::SeqCst);
        // What is read meanwhile may have been read for the others alone.
        loop {
            let lists = self.0.lists.lock().clone();
            // Only fails where the rules themselves cannot be put in force again, and they are in force.
            let _ = sluice.set_further_lists(lists.clone());
            if *self.0.lists.lock() == lists {
                break;
            }
        }
        self.0.stir.notify_one();
    }

    pub(super) fn enlist(&self, kind: ListKind, text: &str, lasting: Option<Duration>) -> Result<(), ExprError> {
        Expr::parse(text)?;
        self.change(kind, text, Change::Add(lasting));
        Ok(())
    }

    pub(super) fn unlist(&self, kind: ListKind, text: &str) {
        self.change(kind, text, Change::Remove);
    }

    fn change(&self, kind: ListKind, text: &str, change: Change) {
        self.0.changes.lock().push(ListChange { kind, text: text.to_owned(), change });
        self.0.stir.notify_one();
    }
}

/// News that the board does not have yet, and since when.
#[derive(Default)]
struct Untold(VecDeque<(Instant, BanNews)>);

impl Untold {
    fn add(&mut self, news: impl Iterator<Item = BanNews>, now: Instant) {
        self.0.extend(news.map(|news| (now, news)));
        self.0.drain(..self.0.len().saturating_sub(MOST_UNTOLD));
    }

    /// How many are to be told next, and what is left to tell of them: bans end while they wait.
    fn next(&self, now: Instant) -> (usize, Vec<BanNews>) {
        let many = self.0.len().min(MOST_POSTED);
        let left = self.0.iter().take(many).filter_map(|(since, news)| {
            let waited = now.saturating_duration_since(*since);
            let remaining = match news.remaining {
                Some(remaining) => Some(remaining.checked_sub(waited).filter(|left| !left.is_zero())?),
                None => None,
            };
            Some(BanNews { remaining, ..news.clone() })
        });
        (many, left.collect())
    }
}

impl Shared {
    /// Looks at the board until the driver ends.
    async fn watch(self: Arc<Self>, driver: Driver<ExactBatch>, mut board: Board) {
        let mut untold = Untold::default();
        let mut at_once = false;
        loop {
            if !at_once {
                let _ = tokio::time::timeout(INTERVAL, self.stir.notified()).await;
            }
            at_once = false;
            if self.is_news_to_some.swap(false, Ordering::SeqCst) {
                board.read_from_the_start();
            }
            let sluices = self.present();
            if sluices.is_empty() && self.changes.lock().is_empty() {
                continue;
            }
            untold.add(sluices.iter().flat_map(Sluice::ban_news), Instant::now());
            if driver.now_degraded() {
                continue;
            }
            let (many, posted) = untold.next(Instant::now());
            let changes = self.changes.lock().clone();
            let Ok(answer) = driver.call(board.look(&posted, &changes), DEADLINE).await else { continue };
            let Some(mut look) = board.read(answer) else { continue };
            untold.0.drain(..many);
            self.changes.lock().drain(..changes.len());
            if look.is_new {
                if self.enlist_again(&look) {
                    // Taken up when the board has heard of them: it may know that some were taken off.
                    look.entries = None;
                    board.read_lists_again();
                }
                // The store knows nothing of what was banned before.
                untold.add(sluices.iter().flat_map(Sluice::bans_to_tell), Instant::now());
            }
            at_once = look.more || !untold.0.is_empty() || !self.changes.lock().is_empty();
            self.take_up(sluices, look).await;
        }
    }

    /// Posts entries that a store has lost. Answers whether there are any: then its lists are not taken up
    /// before they stand there again.
    fn enlist_again(&self, look: &Look) -> bool {
        let now = Instant::now();
        let standing = look.entries.as_deref().unwrap_or_default();
        let stands =
            |known: &ListChange| standing.iter().any(|entry| entry.kind == known.kind && entry.text == known.text);
        let known = std::mem::take(&mut *self.entries.lock());
        let lost = known.into_iter().filter(|(_, entry)| !stands(entry)).filter_map(|(since, entry)| {
            let Change::Add(left) = entry.change else { return None };
            let left = match left {
                Some(left) => Some(left.checked_sub(now.saturating_duration_since(since))?),
                None => None,
            };
            Some(ListChange { change: Change::Again(left), ..entry })
        });
        let lost: Vec<ListChange> = lost.collect();
        let mut changes = self.changes.lock();
        changes.splice(0..0, lost.iter().cloned());
        !lost.is_empty()
    }

    fn present(&self) -> Vec<Sluice> {
        let mut sluices = self.sluices.lock();
        sluices.retain(WeakSluice::is_there);
        sluices.iter().filter_map(WeakSluice::upgrade).collect()
    }

    async fn take_up(&self, sluices: Vec<Sluice>, look: Look) {
        for sluice in &sluices {
            for news in &look.bans {
                sluice.hear_ban(news);
            }
        }
        if let Some(entries) = look.entries {
            let lists = lists(&entries);
            let now = Instant::now();
            *self.entries.lock() = entries.into_iter().map(|entry| (now, entry)).collect();
            *self.lists.lock() = lists.clone();
            // Also those that came while the board was read.
            let sluices = self.present();
            // Arranging long lists takes a while, and this thread has decisions to carry.
            let arranging = tokio::task::spawn_blocking(move || {
                for sluice in sluices {
                    let _ = sluice.set_further_lists(lists.clone());
                }
            });
            let _ = arranging.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ban(nth: usize, seconds: Option<u64>) -> BanNews {
        let (rule, name) = ("per-ip".to_owned(), nth.to_string());
        BanNews { rule, name, key: nth.to_le_bytes().as_slice().into(), remaining: seconds.map(Duration::from_secs) }
    }

    #[test]
    fn bans_end_while_they_wait_to_be_told() {
        let (now, mut untold) = (Instant::now(), Untold::default());
        untold.add([ban(1, Some(60)), ban(2, Some(600)), ban(3, None)].into_iter(), now);
        let (many, left) = untold.next(now + Duration::from_secs(100));
        assert_eq!((many, left), (3, vec![ban(2, Some(500)), ban(3, None)]));
    }

    #[test]
    fn many_bans_are_told_in_portions() {
        let (now, mut untold) = (Instant::now(), Untold::default());
        untold.add((0..MOST_UNTOLD + 7).map(|nth| ban(nth, Some(60))), now);
        let mut told = Vec::new();
        while !untold.0.is_empty() {
            let (many, portion) = untold.next(now);
            assert!(portion.len() <= MOST_POSTED);
            told.extend(portion);
            untold.0.drain(..many);
        }
        assert_eq!((told.len(), &told[0]), (MOST_UNTOLD, &ban(7, Some(60))));
    }
}

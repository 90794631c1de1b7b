//! Keeping the sluices of this process in step with the fleet's bulletin board.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_engine::Sluice;
use sluicegate_engine::rule::{Expr, ExprError, Lists};
use sluicegate_engine::sluice::{BanNews, WeakSluice};
use tokio::sync::Notify;

use super::exact::ExactBatch;
use crate::bulletin::{Board, Change, ListChange, ListKind, Look};
use crate::driver::{Driver, random};

/// How often the board is looked at. Twice this and a round trip is how long news takes.
const INTERVAL: Duration = Duration::from_millis(250);

/// How long a look may take.
const DEADLINE: Duration = Duration::from_millis(500);

/// News that are kept while the store cannot be told: more, and the oldest are left to the ban itself.
const MOST_UNTOLD: usize = 16_384;

/// What is shared.
#[derive(Clone)]
pub(super) struct Sharing(Arc<Shared>);

struct Shared {
    sluices: Mutex<Vec<WeakSluice>>,
    changes: Mutex<Vec<ListChange>>,
    /// The fleet's lists as last read.
    lists: Mutex<Lists>,
    /// Wakes whoever looks at the board.
    stir: Notify,
}

impl Sharing {
    pub(super) fn start(driver: &Driver<ExactBatch>, prefix: &str) -> Self {
        let shared = Arc::new(Shared {
            sluices: Mutex::default(),
            changes: Mutex::default(),
            lists: Mutex::default(),
            stir: Notify::new(),
        });
        let name = format!("{:016x}", random());
        let (board, background) = (Board::new(prefix, name), driver.background());
        driver.spawn(Arc::clone(&shared).watch(background, board));
        Self(shared)
    }

    pub(super) fn add(&self, sluice: &Sluice) {
        // Only fails where the rules themselves cannot be put in force again, and they are in force.
        let _ = sluice.set_further_lists(self.0.lists.lock().clone());
        self.0.sluices.lock().push(sluice.downgrade());
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

impl Shared {
    /// Looks at the board until the driver ends.
    async fn watch(self: Arc<Self>, driver: Driver<ExactBatch>, mut board: Board) {
        let mut untold: Vec<BanNews> = Vec::new();
        let mut at_once = false;
        loop {
            if !at_once {
                let _ = tokio::time::timeout(INTERVAL, self.stir.notified()).await;
            }
            at_once = false;
            let sluices = self.present();
            if sluices.is_empty() && self.changes.lock().is_empty() {
                continue;
            }
            untold.extend(sluices.iter().flat_map(Sluice::ban_news));
            if untold.len() > MOST_UNTOLD {
                untold.drain(..untold.len() - MOST_UNTOLD);
            }
            if driver.now_degraded() {
                continue;
            }
            let changes = self.changes.lock().clone();
            let Ok(answer) = driver.call(board.look(&untold, &changes), DEADLINE).await else { continue };
            let Some(look) = board.read(answer) else { continue };
            untold.clear();
            self.changes.lock().drain(..changes.len());
            at_once = look.more;
            if look.is_new {
                // The store knows nothing of what was banned before.
                untold.extend(sluices.iter().flat_map(Sluice::bans_to_tell));
                at_once |= !untold.is_empty();
            }
            self.take_up(sluices, look).await;
        }
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
        if let Some(lists) = look.lists {
            *self.lists.lock() = lists.clone();
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

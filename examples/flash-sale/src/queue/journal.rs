//! A queue in this process that survives it.
//!
//! Each order is a line of the journal, synced to disk before the buyer hears of it; each order that is done is
//! another. When the process begins, what is in the journal and not done is delivered first. A line that was not
//! finished when the process was killed belongs to a buyer who was told nothing, and is dropped.

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::stream::{self, BoxStream, StreamExt};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::spawn_blocking;

use super::{Delivery, QueueError, Receipt};
use crate::order::Purchase;

/// The queue. Clones are of the same one.
#[derive(Clone)]
pub struct Journal(Arc<Inner>);

struct Inner {
    path: PathBuf,
    _lock: File,
    file: Mutex<Lines>,
    /// What is put and not done, by the order's id.
    waiting: Mutex<HashMap<String, Purchase>>,
    put: UnboundedSender<Purchase>,
    taken: tokio::sync::Mutex<UnboundedReceiver<Purchase>>,
}

/// The file, whose whole lines end here.
struct Lines {
    file: File,
    end: u64,
}

/// A line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Put(Purchase),
    Done(Purchase),
}

impl Journal {
    pub(super) fn open(path: &Path) -> Result<Self, QueueError> {
        let of_path = |error| QueueError::Journal { path: path.to_owned(), error };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(of_path)?;
        }
        // The lock ends with the process, however that ends.
        let lock = File::create(path.with_added_extension("lock")).map_err(of_path)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => QueueError::InUse(path.to_owned()),
            TryLockError::Error(error) => of_path(error),
        })?;
        let left_over = match fs::read(path) {
            Ok(bytes) => left_over(&bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(of_path(error)),
        };
        let lines = Lines::begin_with(&left_over, path).map_err(of_path)?;
        let (put, taken) = unbounded_channel();
        for purchase in &left_over {
            // The other end is here.
            let _ = put.send(purchase.clone());
        }
        let waiting = left_over.into_iter().map(|purchase| (purchase.order(), purchase)).collect();
        let (file, waiting, taken) = (Mutex::new(lines), Mutex::new(waiting), tokio::sync::Mutex::new(taken));
        Ok(Self(Arc::new(Inner { path: path.to_owned(), _lock: lock, file, waiting, put, taken })))
    }

    pub(super) fn waiting(&self) -> Vec<Purchase> {
        self.0.waiting.lock().values().cloned().collect()
    }

    pub(super) async fn put(&self, purchase: &Purchase) -> Result<(), QueueError> {
        self.write(Line::Put(purchase.clone()), true).await?;
        // Before anybody can take it out, and be done with it.
        self.0.waiting.lock().insert(purchase.order(), purchase.clone());
        self.0.put.send(purchase.clone()).map_err(|_| QueueError::Closed)
    }

    /// Not synced: if it is lost, the order comes once more.
    pub(super) async fn done(&self, purchase: Purchase) -> Result<(), QueueError> {
        self.0.waiting.lock().remove(&purchase.order());
        self.write(Line::Done(purchase), false).await
    }

    pub(super) fn deliveries(&self) -> BoxStream<'static, Result<Delivery, QueueError>> {
        let next = |journal: Self| async {
            let purchase = journal.0.taken.lock().await.recv().await?;
            let receipt = Receipt::Journal(journal.clone());
            Some((Ok(Delivery { purchase: Some(purchase), receipt }), journal))
        };
        stream::unfold(self.clone(), next).boxed()
    }

    async fn write(&self, line: Line, synced: bool) -> Result<(), QueueError> {
        let inner = Arc::clone(&self.0);
        let written = spawn_blocking(move || inner.file.lock().append(&line, synced)).await;
        let written = written.unwrap_or_else(|error| Err(io::Error::other(error)));
        written.map_err(|error| QueueError::Journal { path: self.0.path.clone(), error })
    }
}

impl Lines {
    /// A journal with nothing but what is not done, in the place of the old one.
    fn begin_with(left_over: &[Purchase], path: &Path) -> io::Result<Self> {
        let mut bytes = Vec::new();
        for purchase in left_over {
            encode(&Line::Put(purchase.clone()), &mut bytes)?;
        }
        // The old one stays until the new one is whole.
        let new = path.with_added_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        // Or the folder may still name the old one after a power failure, without the orders that come now.
        if let Some(folder) = path.parent() {
            let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            File::open(here)?.sync_all()?;
        }
        Ok(Self { file, end: bytes.len() as u64 })
    }

    fn append(&mut self, line: &Line, synced: bool) -> io::Result<()> {
        let mut bytes = Vec::new();
        encode(line, &mut bytes)?;
        let written = self.file.seek(SeekFrom::Start(self.end)).and_then(|_| self.file.write_all(&bytes));
        let written = written.and_then(|()| if synced { self.file.sync_data() } else { Ok(()) });
        match written {
            Ok(()) => self.end += bytes.len() as u64,
            // Half a line must not spoil the next one.
            Err(_) => self.file.set_len(self.end)?,
        }
        written
    }
}

fn encode(line: &Line, bytes: &mut Vec<u8>) -> io::Result<()> {
    serde_json::to_writer(&mut *bytes, line)?;
    bytes.push(b'\n');
    Ok(())
}

/// What was put and is not done, in order, each once. What is not a whole line is nothing.
fn left_over(bytes: &[u8]) -> Vec<Purchase> {
    let whole = bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    let mut waiting: Vec<Purchase> = Vec::new();
    for line in whole.filter_map(|line| serde_json::from_slice(line).ok()) {
        match line {
            Line::Put(purchase) if waiting.contains(&purchase) => {}
            Line::Put(purchase) => waiting.push(purchase),
            Line::Done(purchase) => waiting.retain(|other| *other != purchase),
        }
    }
    waiting
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    fn purchase(buyer: &str) -> Purchase {
        Purchase::new(buyer, "k").unwrap()
    }

    fn waiting(journal: &Journal) -> Vec<Purchase> {
        let mut waiting = journal.waiting();
        waiting.sort_by_key(Purchase::order);
        waiting
    }

    #[test]
    fn what_is_not_done_is_left_over_and_half_a_line_is_nothing() {
        let mut bytes = Vec::new();
        for line in
            [Line::Put(purchase("a")), Line::Put(purchase("b")), Line::Put(purchase("a")), Line::Done(purchase("b"))]
        {
            encode(&line, &mut bytes).unwrap();
        }
        bytes.extend_from_slice(b"not json\n{\"put\":{\"buyer\":\"c\",\"key\":\"k\"}}");
        assert_eq!(left_over(&bytes), [purchase("a")]);
        assert_eq!(left_over(b""), []);
    }

    #[tokio::test]
    async fn a_journal_goes_on_where_it_was_left() {
        let folder = std::env::temp_dir().join(format!("sluicegate-journal-{}", std::process::id()));
        let path = folder.join("orders");
        let journal = Journal::open(&path).unwrap();
        assert!(matches!(Journal::open(&path), Err(QueueError::InUse(_))));
        for buyer in ["a", "b", "c"] {
            journal.put(&purchase(buyer)).await.unwrap();
        }
        let first = journal.deliveries().next().await.unwrap().unwrap();
        assert_eq!(first.purchase, Some(purchase("a")));
        first.done().await.unwrap();
        drop(journal);
        let journal = Journal::open(&path).unwrap();
        assert_eq!(waiting(&journal), [purchase("b"), purchase("c")]);
        let again = journal.deliveries().next().await.unwrap().unwrap();
        assert_eq!(again.purchase, Some(purchase("b")));
        // What waits is what is in the queue now, and not what was in it at the start.
        again.done().await.unwrap();
        journal.put(&purchase("d")).await.unwrap();
        assert_eq!(waiting(&journal), [purchase("c"), purchase("d")]);
        drop(journal);
        fs::remove_dir_all(folder).unwrap();
    }
}

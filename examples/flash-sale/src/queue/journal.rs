//! In-process queue with a journal on disk.
//!
//! Each queued order is a line of the journal, synced to disk before it is confirmed; each acknowledgement is another
//! line. At startup, unacknowledged orders are delivered first. A partial line at the end of the journal belongs to an
//! order that was never confirmed, and is dropped.

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

use super::{Delivery, DeliveryTag, QueueError};
use crate::order::Purchase;

/// Queue with a journal; clones share its state.
#[derive(Clone)]
pub struct Journal(Arc<JournalState>);

struct JournalState {
    path: PathBuf,
    _lock: File,
    file: Mutex<JournalFile>,
    /// Unacknowledged orders by order id.
    pending: Mutex<HashMap<String, Purchase>>,
    sender: UnboundedSender<Purchase>,
    receiver: tokio::sync::Mutex<UnboundedReceiver<Purchase>>,
}

/// Journal file and the end of its last complete line.
struct JournalFile {
    file: File,
    end: u64,
}

/// Line of the journal.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum JournalRecord {
    Put(Purchase),
    Done(Purchase),
}

impl Journal {
    pub(super) fn open(path: &Path) -> Result<Self, QueueError> {
        let journal_error = |error| QueueError::Journal { path: path.to_owned(), error };
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(journal_error)?;
        }
        // The operating system releases the lock when the process ends.
        let lock = File::create(path.with_added_extension("lock")).map_err(journal_error)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => QueueError::InUse(path.to_owned()),
            TryLockError::Error(error) => journal_error(error),
        })?;
        let pending = match fs::read(path) {
            Ok(bytes) => read_pending(&bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(journal_error(error)),
        };
        let file = JournalFile::rewrite(&pending, path).map_err(journal_error)?;
        let (sender, receiver) = unbounded_channel();
        for purchase in &pending {
            // Cannot fail: the receiver exists.
            let _ = sender.send(purchase.clone());
        }
        let pending = pending.into_iter().map(|purchase| (purchase.order_id(), purchase)).collect();
        Ok(Self(Arc::new(JournalState {
            path: path.to_owned(),
            _lock: lock,
            file: Mutex::new(file),
            pending: Mutex::new(pending),
            sender,
            receiver: tokio::sync::Mutex::new(receiver),
        })))
    }

    pub(super) fn pending(&self) -> Vec<Purchase> {
        self.0.pending.lock().values().cloned().collect()
    }

    pub(super) async fn put(&self, purchase: &Purchase) -> Result<(), QueueError> {
        self.write(JournalRecord::Put(purchase.clone()), true).await?;
        // Before the consumer can receive and acknowledge it.
        self.0.pending.lock().insert(purchase.order_id(), purchase.clone());
        self.0.sender.send(purchase.clone()).map_err(|_| QueueError::Closed)
    }

    /// Not synced: if the line is lost, the order is delivered again.
    pub(super) async fn acknowledge(&self, purchase: Purchase) -> Result<(), QueueError> {
        self.0.pending.lock().remove(&purchase.order_id());
        self.write(JournalRecord::Done(purchase), false).await
    }

    pub(super) fn deliveries(&self) -> BoxStream<'static, Result<Delivery, QueueError>> {
        let next = |journal: Self| async {
            let purchase = journal.0.receiver.lock().await.recv().await?;
            let tag = DeliveryTag::Journal(journal.clone());
            Some((Ok(Delivery { purchase: Some(purchase), tag }), journal))
        };
        stream::unfold(self.clone(), next).boxed()
    }

    async fn write(&self, record: JournalRecord, sync: bool) -> Result<(), QueueError> {
        let state = Arc::clone(&self.0);
        let result = spawn_blocking(move || state.file.lock().append(&record, sync)).await;
        let result = result.unwrap_or_else(|error| Err(io::Error::other(error)));
        result.map_err(|error| QueueError::Journal { path: self.0.path.clone(), error })
    }
}

impl JournalFile {
    /// Replaces the journal by one that contains only the pending orders.
    fn rewrite(pending: &[Purchase], path: &Path) -> io::Result<Self> {
        let mut bytes = Vec::new();
        for purchase in pending {
            encode(&JournalRecord::Put(purchase.clone()), &mut bytes)?;
        }
        // The old journal stays until the new one is complete.
        let new = path.with_added_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        // Sync the directory: otherwise it may refer to the old journal after a power failure.
        if let Some(dir) = path.parent() {
            let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
            File::open(dir)?.sync_all()?;
        }
        Ok(Self { file, end: bytes.len() as u64 })
    }

    fn append(&mut self, record: &JournalRecord, sync: bool) -> io::Result<()> {
        let mut bytes = Vec::new();
        encode(record, &mut bytes)?;
        let result = self.file.seek(SeekFrom::Start(self.end)).and_then(|_| self.file.write_all(&bytes));
        let result = result.and_then(|()| if sync { self.file.sync_data() } else { Ok(()) });
        match result {
            Ok(()) => self.end += bytes.len() as u64,
            // Remove a partial line, so that the next line stays valid.
            Err(_) => self.file.set_len(self.end)?,
        }
        result
    }
}

fn encode(record: &JournalRecord, bytes: &mut Vec<u8>) -> io::Result<()> {
    serde_json::to_writer(&mut *bytes, record)?;
    bytes.push(b'\n');
    Ok(())
}

/// Parses the unacknowledged orders in order, without duplicates. Ignores partial and invalid lines.
fn read_pending(bytes: &[u8]) -> Vec<Purchase> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    let mut pending: Vec<Purchase> = Vec::new();
    for record in lines.filter_map(|line| serde_json::from_slice(line).ok()) {
        match record {
            JournalRecord::Put(purchase) if pending.contains(&purchase) => {}
            JournalRecord::Put(purchase) => pending.push(purchase),
            JournalRecord::Done(purchase) => pending.retain(|other| *other != purchase),
        }
    }
    pending
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    fn purchase(buyer: &str) -> Purchase {
        Purchase::new(buyer, "k").unwrap()
    }

    fn sorted_pending(journal: &Journal) -> Vec<Purchase> {
        let mut pending = journal.pending();
        pending.sort_by_key(Purchase::order_id);
        pending
    }

    #[test]
    fn unacknowledged_records_are_pending_and_partial_lines_are_ignored() {
        let mut bytes = Vec::new();
        for line in [
            JournalRecord::Put(purchase("a")),
            JournalRecord::Put(purchase("b")),
            JournalRecord::Put(purchase("a")),
            JournalRecord::Done(purchase("b")),
        ] {
            encode(&line, &mut bytes).unwrap();
        }
        bytes.extend_from_slice(b"not json\n{\"put\":{\"buyer\":\"c\",\"key\":\"k\"}}");
        assert_eq!(read_pending(&bytes), [purchase("a")]);
        assert_eq!(read_pending(b""), []);
    }

    #[tokio::test]
    async fn a_reopened_journal_redelivers_pending_orders() {
        let dir = std::env::temp_dir().join(format!("sluicegate-journal-{}", std::process::id()));
        let path = dir.join("orders");
        let journal = Journal::open(&path).unwrap();
        assert!(matches!(Journal::open(&path), Err(QueueError::InUse(_))));
        for buyer in ["a", "b", "c"] {
            journal.put(&purchase(buyer)).await.unwrap();
        }
        let first = journal.deliveries().next().await.unwrap().unwrap();
        assert_eq!(first.purchase, Some(purchase("a")));
        first.acknowledge().await.unwrap();
        drop(journal);
        let journal = Journal::open(&path).unwrap();
        assert_eq!(sorted_pending(&journal), [purchase("b"), purchase("c")]);
        let again = journal.deliveries().next().await.unwrap().unwrap();
        assert_eq!(again.purchase, Some(purchase("b")));
        // `pending` lists the current content of the queue, not that at startup.
        again.acknowledge().await.unwrap();
        journal.put(&purchase("d")).await.unwrap();
        assert_eq!(sorted_pending(&journal), [purchase("c"), purchase("d")]);
        drop(journal);
        fs::remove_dir_all(dir).unwrap();
    }
}

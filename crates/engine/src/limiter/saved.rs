//! Saving a limiter's state and restoring it after a restart.
//!
//! The saved form is a compact byte string with a checksum. It contains no keys, only their hashes and the
//! hash seed: protect it from other users. Permits and reservations are not saved, because after a restart
//! no holder is left to release them.

use std::hash::Hash;
use std::time::Duration;

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};
use thiserror::Error;

use super::builder::Builder;
use super::keyed::{KeyedCore, KeyedState};
use super::unkeyed::UnkeyedState;
use super::{KeyedLimiter, Limiter, LimiterCore, LimiterState, NO_KEY};
use crate::limit::{LimitError, encoding};
use crate::limit_set::LimitSet;
use crate::table::Table;
use crate::time::Timestamp;
use std::sync::Arc;

/// Magic bytes of a saved state: name and version.
const MAGIC: &[u8; 8] = b"slgate\x00\x01";

/// Maximum time a saved state may lie ahead of the clock before it is rejected.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(3_600);

/// Serialized state of a limiter.
///
/// ```
/// use sluicegate_engine::{KeyedLimiter, Limiter, SavedState};
///
/// let before: KeyedLimiter<str> = Limiter::builder().limit("1/1m".parse()?).build_keyed(1_000)?;
/// before.check("alice");
/// let bytes = before.save().into_bytes();
///
/// let saved = SavedState::from_bytes(bytes)?;
/// let after: KeyedLimiter<str> = Limiter::builder().limit("1/1m".parse()?).restore_keyed(&saved, 1_000)?;
/// assert!(!after.check("alice").is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SavedState {
    bytes: Vec<u8>,
}

/// Error of restoring a saved state. The limiter has to start fresh then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// Not a saved state, or one of another version.
    #[error("not a saved state of this version")]
    Unknown,
    /// Truncated or modified.
    #[error("the saved state is damaged: its checksum does not match")]
    Damaged,
    /// Saved with keys and restored without, or the reverse.
    #[error("the saved state belongs to another kind of limiter (keyed or unkeyed)")]
    KindMismatch,
    /// Saved at a time in the future.
    #[error("the saved state is dated in the future: check the system clock")]
    FromTheFuture,
    /// The limits themselves are invalid.
    #[error(transparent)]
    Limit(#[from] LimitError),
}

impl SavedState {
    /// The bytes to store.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Validates the magic bytes and the checksum of a saved state.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, RestoreError> {
        if !bytes.starts_with(MAGIC) {
            return Err(RestoreError::Unknown);
        }
        let (body, sum) = bytes.split_last_chunk::<8>().ok_or(RestoreError::Damaged)?;
        if u64::from_le_bytes(*sum) != checksum(body) {
            return Err(RestoreError::Damaged);
        }
        Ok(Self { bytes })
    }

    fn reader(&self) -> StateReader<'_> {
        let body = self.bytes.len().saturating_sub(8);
        StateReader { remaining: self.bytes.get(MAGIC.len()..body).unwrap_or_default() }
    }
}

impl std::fmt::Debug for SavedState {
    /// Hides the bytes, which contain the hash seed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SavedState").field("len", &self.bytes.len()).finish_non_exhaustive()
    }
}

/// Checksum of saved bytes. It detects corruption, not tampering.
pub(crate) fn checksum(body: &[u8]) -> u64 {
    const SECRETS: RapidSecrets = RapidSecrets::seed(0);
    rapidhash_v3_seeded(body, &SECRETS)
}

struct StateWriter(Vec<u8>);

impl StateWriter {
    fn word(&mut self, word: u64) {
        self.0.extend_from_slice(&word.to_le_bytes());
    }

    fn words(&mut self, words: &[u64]) {
        words.iter().for_each(|word| self.word(*word));
    }

    fn finish(mut self) -> SavedState {
        let sum = checksum(&self.0);
        self.word(sum);
        SavedState { bytes: self.0 }
    }
}

struct StateReader<'a> {
    remaining: &'a [u8],
}

impl StateReader<'_> {
    fn word(&mut self) -> Result<u64, RestoreError> {
        let (word, rest) = self.remaining.split_first_chunk::<8>().ok_or(RestoreError::Damaged)?;
        self.remaining = rest;
        Ok(u64::from_le_bytes(*word))
    }

    fn words(&mut self, count: usize) -> Result<Vec<u64>, RestoreError> {
        (0..count).map(|_| self.word()).collect()
    }
}

impl LimiterCore {
    /// Layout: timestamp, number of limits, the limits, seed, number of buckets (0 if unkeyed), then for each
    /// state the bucket, the tag and the words.
    pub(crate) fn save(&self) -> SavedState {
        let mut writer = StateWriter(MAGIC.to_vec());
        let now = self.clock.now();
        writer.word(now.as_nanos());
        let header = |writer: &mut StateWriter, limit_set: &LimitSet, seed: u64, buckets: usize| {
            writer.word(limit_set.limits().len() as u64);
            limit_set.limits().iter().for_each(|limit| writer.words(&encoding::encode(limit)));
            writer.word(seed);
            writer.word(buckets as u64);
        };
        match &self.state {
            LimiterState::Unkeyed(_) => {
                let (limit_set, mut state) = self.snapshot(NO_KEY, now);
                header(&mut writer, &limit_set, 0, 0);
                limit_set.clear_holdings(&mut state);
                writer.words(&state[..limit_set.words()]);
            }
            LimiterState::Keyed(states) => states.with_stable_core(|KeyedCore { limit_set, table, .. }| {
                header(&mut writer, limit_set, table.seed(), table.buckets());
                for bucket in 0..table.buckets() {
                    table.export(bucket, |tag, state| {
                        let mut state = state[..limit_set.words()].to_vec();
                        limit_set.clear_holdings(&mut state);
                        if limit_set.full_at(&state) > now {
                            writer.word(bucket as u64);
                            writer.word(u64::from(tag));
                            writer.words(&state);
                        }
                    });
                }
            }),
        }
        writer.finish()
    }
}

/// Header of a saved state.
struct StateHeader {
    limit_set: LimitSet,
    seed: u64,
    buckets: usize,
}

impl StateHeader {
    fn read(reader: &mut StateReader<'_>, now: Timestamp) -> Result<Self, RestoreError> {
        let saved_at = Timestamp::from_nanos(reader.word()?);
        if saved_at > now + MAX_CLOCK_SKEW {
            return Err(RestoreError::FromTheFuture);
        }
        let count = reader.word()?;
        let mut limits = Vec::new();
        for _ in 0..count.min(crate::limit_set::MAX_LIMITS as u64) {
            let words = reader.words(encoding::WORDS)?;
            let coded = words.try_into().map_err(|_| RestoreError::Damaged)?;
            limits.push(encoding::decode(coded)?);
        }
        let limit_set = LimitSet::new(limits)?;
        let (seed, buckets) = (reader.word()?, reader.word()?);
        Ok(Self { limit_set, seed, buckets: usize::try_from(buckets).map_err(|_| RestoreError::Damaged)? })
    }
}

impl Builder {
    /// Builds a limiter from a saved state. If the limits have changed, the remaining quota carries over, as
    /// with [`Limiter::change`].
    pub fn restore(self, saved: &SavedState) -> Result<Limiter, RestoreError> {
        Ok(Limiter { inner: self.restore_core(saved, 0)? })
    }

    /// Builds a keyed limiter from a saved state of any capacity.
    pub fn restore_keyed<K: Hash + ?Sized>(
        self,
        saved: &SavedState,
        capacity: usize,
    ) -> Result<KeyedLimiter<K>, RestoreError> {
        let buckets = Table::buckets_for(capacity)?;
        Ok(KeyedLimiter::from_core(self.restore_core(saved, buckets)?))
    }

    /// Restores a limiter with this number of buckets, or an unkeyed one if it is 0.
    pub(crate) fn restore_core(
        self,
        saved: &SavedState,
        wanted_buckets: usize,
    ) -> Result<Arc<LimiterCore>, RestoreError> {
        let limits = self.configured_limits();
        let now = self.now();
        let mut reader = saved.reader();
        let StateHeader { limit_set, seed, buckets } = StateHeader::read(&mut reader, now)?;
        if (buckets == 0) != (wanted_buckets == 0) {
            return Err(RestoreError::KindMismatch);
        }
        if buckets > (1 << 32) {
            return Err(RestoreError::Damaged);
        }
        let changed = limit_set.limits() != limits;
        let store = if buckets == 0 {
            let words = reader.words(limit_set.words())?;
            LimiterState::Unkeyed(UnkeyedState::new(limit_set, &words))
        } else {
            let table = self.table(&limit_set, wanted_buckets, seed)?;
            reader.read_keys(&limit_set, &table, buckets, now)?;
            LimiterState::Keyed(KeyedState::with_core(KeyedCore::new(limit_set, table)))
        };
        let inner = self.build_with_state(store);
        if changed {
            inner.change(limits)?;
        }
        Ok(inner)
    }
}

impl StateReader<'_> {
    /// Reads the states of all keys into a table.
    fn read_keys(
        &mut self,
        limit_set: &LimitSet,
        table: &Table,
        buckets: usize,
        now: Timestamp,
    ) -> Result<(), RestoreError> {
        while !self.remaining.is_empty() {
            let bucket = usize::try_from(self.word()?).map_err(|_| RestoreError::Damaged)?;
            let tag = u32::try_from(self.word()?).map_err(|_| RestoreError::Damaged)?;
            let state = self.words(limit_set.words())?;
            if bucket >= buckets {
                return Err(RestoreError::Damaged);
            }
            table.import_from(limit_set, buckets, bucket, tag, &state, now);
        }
        Ok(())
    }
}

impl Limiter {
    /// Saves the state for [`Builder::restore`].
    pub fn save(&self) -> SavedState {
        self.inner.save()
    }
}

impl<K: Hash + ?Sized> KeyedLimiter<K> {
    /// Saves the state of every key that has not recovered, for [`Builder::restore_keyed`].
    pub fn save(&self) -> SavedState {
        self.inner.save()
    }
}

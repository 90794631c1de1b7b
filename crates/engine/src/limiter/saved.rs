//! Saving a limiter's state and taking it up again after a restart.
//!
//! The saved form is a compact row of bytes with a checksum. It holds no keys, only their hashes and
//! the seed these were made with: keep it where others cannot read it. What callers held (permits,
//! reservations) is not saved, because after a restart nobody is left to give it back.

use std::hash::Hash;
use std::time::Duration;

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};
use thiserror::Error;

use super::builder::Builder;
use super::keyed::{Keyed, KeyedCore};
use super::unkeyed::Unkeyed;
use super::{Inner, KeyedLimiter, Limiter, NO_KEY, Store};
use crate::limit::{LimitError, code};
use crate::plan::Plan;
use crate::table::Table;
use crate::time::Timestamp;
use std::sync::Arc;

/// Bytes every saved state starts with: a name and a version.
const MAGIC: &[u8; 8] = b"slgate\x00\x01";

/// How far ahead of the clock a saved state may be before it is taken for nonsense.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// A limiter's state, ready to be written to a file.
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

/// Why a saved state cannot be taken up. The limiter then has to start fresh.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// Not a saved state, or one of another version.
    #[error("not a saved state of this version")]
    Unknown,
    /// Cut short or changed since it was written.
    #[error("the saved state is damaged: its checksum does not match")]
    Damaged,
    /// Saved with keys and restored without, or the other way round.
    #[error("the saved state is of another kind of limiter (keyed or not)")]
    OtherKind,
    /// Saved at a moment that has not come yet.
    #[error("the saved state is from the future: check the machine's clock")]
    FromTheFuture,
    /// The limits themselves are wrong.
    #[error(transparent)]
    Limit(#[from] LimitError),
}

impl SavedState {
    /// The bytes to keep.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Checks that bytes are a saved state, whole and unchanged.
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

    fn reader(&self) -> Reader<'_> {
        let body = self.bytes.len().saturating_sub(8);
        Reader { rest: self.bytes.get(MAGIC.len()..body).unwrap_or_default() }
    }
}

impl std::fmt::Debug for SavedState {
    /// The bytes hold the seed of the hashes: they are not shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SavedState").field("len", &self.bytes.len()).finish_non_exhaustive()
    }
}

/// What tells whether bytes are as they were written. Guards against accidents, not against intent.
pub(crate) fn checksum(body: &[u8]) -> u64 {
    const SECRETS: RapidSecrets = RapidSecrets::seed(0);
    rapidhash_v3_seeded(body, &SECRETS)
}

struct Writer(Vec<u8>);

impl Writer {
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

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn word(&mut self) -> Result<u64, RestoreError> {
        let (word, rest) = self.rest.split_first_chunk::<8>().ok_or(RestoreError::Damaged)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*word))
    }

    fn words(&mut self, count: usize) -> Result<Vec<u64>, RestoreError> {
        (0..count).map(|_| self.word()).collect()
    }
}

impl Inner {
    /// Layout: moment, number of limits, the limits, seed, number of buckets (0 without keys), then
    /// per state the bucket, the tag and the words.
    pub(crate) fn save(&self) -> SavedState {
        let mut writer = Writer(MAGIC.to_vec());
        let now = self.clock.now();
        writer.word(now.as_nanos());
        let header = |writer: &mut Writer, plan: &Plan, seed: u64, buckets: usize| {
            writer.word(plan.limits().len() as u64);
            plan.limits().iter().for_each(|limit| writer.words(&code::encode(limit)));
            writer.word(seed);
            writer.word(buckets as u64);
        };
        match &self.store {
            Store::Unkeyed(_) => {
                let (plan, mut state) = self.snapshot(NO_KEY, now);
                header(&mut writer, &plan, 0, 0);
                plan.drop_holds(&mut state);
                writer.words(&state[..plan.words()]);
            }
            Store::Keyed(states) => states.with_still_core(|KeyedCore { plan, table, .. }| {
                header(&mut writer, plan, table.seed(), table.buckets());
                for bucket in 0..table.buckets() {
                    table.export(bucket, |tag, state| {
                        let mut state = state[..plan.words()].to_vec();
                        plan.drop_holds(&mut state);
                        if plan.full_at(&state) > now {
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

/// What every saved state starts with.
struct Header {
    plan: Plan,
    seed: u64,
    buckets: usize,
}

impl Header {
    fn read(reader: &mut Reader<'_>, now: Timestamp) -> Result<Self, RestoreError> {
        let at = Timestamp::from_nanos(reader.word()?);
        if at > now + PATIENCE {
            return Err(RestoreError::FromTheFuture);
        }
        let count = reader.word()?;
        let mut limits = Vec::new();
        for _ in 0..count.min(crate::plan::MOST_LIMITS as u64) {
            let words = reader.words(code::WORDS)?;
            let coded = words.try_into().map_err(|_| RestoreError::Damaged)?;
            limits.push(code::decode(coded)?);
        }
        let plan = Plan::new(limits)?;
        let (seed, buckets) = (reader.word()?, reader.word()?);
        Ok(Self { plan, seed, buckets: usize::try_from(buckets).map_err(|_| RestoreError::Damaged)? })
    }
}

impl Builder {
    /// A limiter that goes on where a saved one stood. If the limits have changed since, what was left
    /// stays left, as with [`Limiter::change`].
    pub fn restore(self, saved: &SavedState) -> Result<Limiter, RestoreError> {
        Ok(Limiter { inner: self.restore_inner(saved, 0)? })
    }

    /// A keyed limiter that goes on where a saved one stood, of whatever capacity that was.
    pub fn restore_keyed<K: Hash + ?Sized>(
        self,
        saved: &SavedState,
        capacity: usize,
    ) -> Result<KeyedLimiter<K>, RestoreError> {
        let buckets = Table::buckets_for(capacity)?;
        Ok(KeyedLimiter::from_inner(self.restore_inner(saved, buckets)?))
    }

    /// Restores a limiter with so many buckets of keys, or without keys if there are none.
    pub(crate) fn restore_inner(self, saved: &SavedState, wanted: usize) -> Result<Arc<Inner>, RestoreError> {
        let limits = self.wanted();
        let now = self.now();
        let mut reader = saved.reader();
        let Header { plan, seed, buckets } = Header::read(&mut reader, now)?;
        if (buckets == 0) != (wanted == 0) {
            return Err(RestoreError::OtherKind);
        }
        if buckets > (1 << 32) {
            return Err(RestoreError::Damaged);
        }
        let changed = plan.limits() != limits;
        let store = if buckets == 0 {
            let words = reader.words(plan.words())?;
            Store::Unkeyed(Unkeyed::new(plan, &words))
        } else {
            let table = self.table(&plan, wanted, seed)?;
            reader.fill(&plan, &table, buckets, now)?;
            Store::Keyed(Keyed::with_core(KeyedCore::new(plan, table)))
        };
        let inner = self.inner(store);
        if changed {
            inner.change(limits)?;
        }
        Ok(inner)
    }
}

impl Reader<'_> {
    /// Reads the states of all keys into a table.
    fn fill(&mut self, plan: &Plan, table: &Table, buckets: usize, now: Timestamp) -> Result<(), RestoreError> {
        while !self.rest.is_empty() {
            let bucket = usize::try_from(self.word()?).map_err(|_| RestoreError::Damaged)?;
            let tag = u32::try_from(self.word()?).map_err(|_| RestoreError::Damaged)?;
            let state = self.words(plan.words())?;
            if bucket >= buckets {
                return Err(RestoreError::Damaged);
            }
            table.import_from(plan, buckets, bucket, tag, &state, now);
        }
        Ok(())
    }
}

impl Limiter {
    /// The state, to be taken up again by [`Builder::restore`].
    pub fn save(&self) -> SavedState {
        self.inner.save()
    }
}

impl<K: Hash + ?Sized> KeyedLimiter<K> {
    /// The state of every key that has not recovered, to be taken up by [`Builder::restore_keyed`].
    pub fn save(&self) -> SavedState {
        self.inner.save()
    }
}

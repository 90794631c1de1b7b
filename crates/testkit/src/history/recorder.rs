//! Compact recorder of admitted calls.

use super::Call;

/// Records the admissions of one caller and merges adjacent ones.
///
/// This makes millions of decisions fit: admissions within a short span become one call with their total
/// cost, from the first call to the last return. Merging only widens the interval of each decision, so a
/// violation reported by [`CheckMode::Proof`](super::CheckMode::Proof) remains proven.
///
/// ```
/// use sluicegate_testkit::history::CallRecorder;
///
/// let mut recorder = CallRecorder::new(7, 100);
/// recorder.record(1_000, 1_010);
/// recorder.record(1_020, 1_030);
/// recorder.record(1_090, 1_110); // too far from the first
/// let calls = recorder.into_calls();
/// assert_eq!(calls.iter().map(|call| (call.called_at, call.returned_at, call.cost)).collect::<Vec<_>>(), [
///     (1_000, 1_030, 2),
///     (1_090, 1_110, 1),
/// ]);
/// ```
#[derive(Clone, Debug)]
pub struct CallRecorder {
    node: u32,
    merge_window: u64,
    calls: Vec<Call<()>>,
}

impl CallRecorder {
    /// Empty recorder for a node. Admissions within `merge_window` nanoseconds are merged.
    pub const fn new(node: u32, merge_window: u64) -> Self {
        Self { node, merge_window, calls: Vec::new() }
    }

    /// Records one admission with the time of its call and of its return.
    pub fn record(&mut self, called_at: u64, returned_at: u64) {
        match self.calls.last_mut() {
            Some(last)
                if last.called_at <= called_at && returned_at < last.called_at.saturating_add(self.merge_window) =>
            {
                last.returned_at = last.returned_at.max(returned_at);
                last.cost += 1;
            }
            _ => {
                let node = self.node;
                self.calls.push(Call { node, key: (), cost: 1, admitted: true, called_at, returned_at });
            }
        }
    }

    /// Recorded calls.
    pub fn into_calls(self) -> Vec<Call<()>> {
        self.calls
    }
}

//! Writing down what was admitted, cheaply.

use super::Call;

/// The admissions of one caller, those close to each other taken together.
///
/// Millions of decisions fit: what is admitted within a short span becomes one call of their whole cost,
/// from when the first was called until the last returned. That only widens the interval in which each
/// fell, so what [`Judge::Proof`](super::Judge::Proof) finds in it is a violation all the same.
///
/// ```
/// use sluicegate_testkit::history::Recorder;
///
/// let mut recorder = Recorder::new(7, 100);
/// recorder.admitted(1_000, 1_010);
/// recorder.admitted(1_020, 1_030);
/// recorder.admitted(1_090, 1_110); // too far from the first
/// let calls = recorder.into_calls();
/// assert_eq!(calls.iter().map(|call| (call.called_at, call.returned_at, call.cost)).collect::<Vec<_>>(), [
///     (1_000, 1_030, 2),
///     (1_090, 1_110, 1),
/// ]);
/// ```
#[derive(Clone, Debug)]
pub struct Recorder {
    node: u32,
    together: u64,
    calls: Vec<Call<()>>,
}

impl Recorder {
    /// Nothing yet, of this node. What was admitted within `together` nanoseconds is taken together.
    pub const fn new(node: u32, together: u64) -> Self {
        Self { node, together, calls: Vec::new() }
    }

    /// One was admitted by a call that was made then and returned then.
    pub fn admitted(&mut self, called_at: u64, returned_at: u64) {
        match self.calls.last_mut() {
            Some(last) if last.called_at <= called_at && returned_at < last.called_at.saturating_add(self.together) => {
                last.returned_at = last.returned_at.max(returned_at);
                last.cost += 1;
            }
            _ => {
                let node = self.node;
                self.calls.push(Call { node, key: (), cost: 1, admitted: true, called_at, returned_at });
            }
        }
    }

    /// What was written down.
    pub fn into_calls(self) -> Vec<Call<()>> {
        self.calls
    }
}

//! Who is told when a signal goes dark: once, and once when it is back.

use sluicegate_engine::rule::Signal;

use crate::readings::Reading;

/// Which signals could not be read the last time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch([bool; Signal::ALL.len()]);

/// What became of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It cannot be read any more.
    Lost,
    /// It can be read again.
    Back,
}

impl Watch {
    /// Notes what was read, and says it in the log if that is news.
    pub(super) fn see(&mut self, signal: Signal, known: Reading) {
        match self.change(signal, known) {
            Some(Change::Lost) => {
                tracing::warn!(signal = signal.name(), "signal cannot be read: conditions on it do not hold");
            }
            Some(Change::Back) => tracing::info!(signal = signal.name(), "signal can be read again"),
            None => {}
        }
    }

    fn change(&mut self, signal: Signal, known: Reading) -> Option<Change> {
        let lost = &mut self.0[signal as usize];
        match known {
            Reading::Unreadable if !*lost => {
                *lost = true;
                Some(Change::Lost)
            }
            Reading::Value(_) if *lost => {
                *lost = false;
                Some(Change::Back)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_are_told_once() {
        let mut watch = Watch::default();
        let story = [
            Reading::NotYet,
            Reading::Value(1.0),
            Reading::Unreadable,
            Reading::Unreadable,
            Reading::NotYet,
            Reading::Value(2.0),
        ];
        let told: Vec<_> = story.into_iter().map(|known| watch.change(Signal::Cpu, known)).collect();
        assert_eq!(told, [None, None, Some(Change::Lost), None, None, Some(Change::Back)]);
        assert_eq!(watch.change(Signal::HostCpu, Reading::Unreadable), Some(Change::Lost), "each for itself");
    }
}

//! Rules that live in the store, for a whole fleet.
//!
//! Every process asks once a second which version is the current one, and takes it up when it is another. The first
//! process that finds none publishes the rules of its own file. A store that has lost the texts is given them back by
//! whoever remembers them; one that cannot be reached changes nothing: the rules in force go on.

use std::sync::Arc;

use sluicegate::cluster::{KeptRules, KeptVersion, Rulebook, RulebookError, store_of};
use tracing::warn;

use super::keeping::Signed;
use super::told::{Applied, Fault, Origin, Refusal, Version};
use super::{Inner, pending};

impl Inner {
    fn rulebook(&self) -> Result<Rulebook, Refusal> {
        let store = store_of(&self.sluice).ok_or_else(|| Refusal::Unavailable("there is no store".to_owned()))?;
        Ok(store.rulebook())
    }

    /// Takes up what the fleet has decided, if rules live in the store. Called every now and then.
    pub(super) async fn follow_fleet(self: &Arc<Self>) {
        if matches!(self.reader.origin(), Origin::Store(_)) {
            let _turn = self.turn.lock().await;
            // What goes wrong has been noted.
            let _ = self.fetch(false).await;
        }
    }

    /// Takes up the fleet's current version, unless it is in force here or was refused here before; `again` tries
    /// that one, too.
    pub(super) async fn fetch(self: &Arc<Self>, again: bool) -> Result<(), Refusal> {
        let book = self.rulebook()?;
        let (present, refused) = {
            let state = self.state.lock();
            (state.history.current(), state.refused)
        };
        let unavailable = |error: RulebookError| self.out_of_reach(&error, again);
        let current = book.current_version().await.map_err(unavailable)?;
        self.in_reach();
        let Some(current) = current else { return self.give(&book, present).await };
        if (current == present || Some(current) == refused) && !again {
            return Ok(());
        }
        let Some(KeptRules { version, text }) = book.current().await.map_err(unavailable)? else { return Ok(()) };
        let signed = Signed { author: version.author, comment: version.comment };
        let taken = self.enforce(text, signed, Some(version.number)).await;
        self.state.lock().refused = taken.is_err().then_some(version.number);
        taken.map(drop)
    }

    /// Gives a store that has no rules those in force here.
    async fn give(self: &Arc<Self>, book: &Rulebook, present: u64) -> Result<(), Refusal> {
        let unavailable = |error: RulebookError| self.out_of_reach(&error, false);
        let (version, text) = {
            let state = self.state.lock();
            let Some(kept) = state.history.version(present) else { return Ok(()) };
            kept
        };
        if present > 0 {
            warn!(version = present, "the store has lost the fleet's rules: they are put back");
            let Version { number, at, author, comment, bytes, .. } = version;
            let kept = KeptRules { version: KeptVersion { number, at, author, comment, bytes }, text };
            return book.put_back(&kept).await.map_err(unavailable);
        }
        match book.publish(&text, "start", "the rules of the first process' file", Some(0)).await {
            Ok(number) => {
                let signed = Signed::by("start", "the rules of the first process' file");
                self.state.lock().history.add(number, &text, &signed, version.at);
                Ok(())
            }
            // Another process was first: the next look brings its rules.
            Err(RulebookError::Overtaken { .. }) => Ok(()),
            Err(error) => Err(unavailable(error)),
        }
    }

    /// Notes that the store cannot be asked. It is looked at all the time: that it still cannot is no news, unless
    /// somebody has asked for it.
    fn out_of_reach(&self, error: &RulebookError, asked_for: bool) -> Refusal {
        let (was_so, never_had) = {
            let mut state = self.state.lock();
            (std::mem::replace(&mut state.out_of_reach, true), state.history.current() == 0)
        };
        let until_then = if never_had { "; the rules of the file hold until then" } else { "" };
        let refusal = Refusal::Unavailable(format!("{error}{until_then}"));
        if was_so && !asked_for { refusal } else { self.trouble(refusal) }
    }

    /// Notes that the store can be asked.
    fn in_reach(&self) {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.out_of_reach) {
            state.trouble = None;
        }
    }

    /// Puts a text in force in the whole fleet, and here at once.
    pub(super) async fn publish(
        self: &Arc<Self>,
        text: String,
        signed: Signed,
        based_on: Option<u64>,
    ) -> Result<Applied, Refusal> {
        // Nobody is given rules that this process would refuse.
        self.reader.read(&text).map_err(Refusal::Faulty)?;
        let published = self.rulebook()?.publish(&text, &signed.author, &signed.comment, based_on).await;
        match published {
            Ok(number) => self.enforce(text, signed, Some(number)).await,
            Err(RulebookError::Overtaken { current }) => Err(Refusal::Overtaken { present: current }),
            Err(error) => Err(Refusal::Unavailable(error.to_string())),
        }
    }

    /// Sees what the file of this process says by now besides rules and lists, which are not taken from it.
    pub(super) async fn look_at_file(&self) -> Result<(), Refusal> {
        let Origin::Store(path) = self.reader.origin() else { return Ok(()) };
        let path = path.clone();
        let loaded = tokio::task::spawn_blocking(move || sluicegate_config::load(path)).await;
        match loaded {
            Ok(Ok(loaded)) => {
                self.state.lock().pending_restart = pending::sections(self.reader.running(), &loaded.settings);
                Ok(())
            }
            Ok(Err(report)) => Err(self.trouble(Refusal::Faulty(Fault::all(&report)))),
            Err(_) => Err(self.trouble(Refusal::Unavailable("the reader has gone".to_owned()))),
        }
    }

    pub(super) async fn fleet_versions(&self) -> Result<Vec<Version>, Refusal> {
        let current = self.state.lock().history.current();
        let kept = self.rulebook()?.versions().await.map_err(|error| Refusal::Unavailable(error.to_string()))?;
        Ok(kept.into_iter().map(|version| told(version, current)).collect())
    }

    pub(super) async fn fleet_version(&self, number: u64) -> Result<Option<(Version, String)>, Refusal> {
        let current = self.state.lock().history.current();
        let kept = self.rulebook()?.version(number).await.map_err(|error| Refusal::Unavailable(error.to_string()))?;
        Ok(kept.map(|kept| (told(kept.version, current), kept.text)))
    }
}

/// A version as everybody here speaks of it.
fn told(kept: KeptVersion, current: u64) -> Version {
    let KeptVersion { number, at, author, comment, bytes } = kept;
    Version { number, at, author, comment, bytes, is_current: number == current }
}

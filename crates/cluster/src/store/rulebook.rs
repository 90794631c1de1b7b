//! The fleet's rulebook, as whoever changes or follows the rules uses it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;

use super::ClusterStore;
use super::exact::ExactBatch;
use crate::driver::Driver;
use crate::rulebook::{Answer, KeptRules, KeptVersion, Question, RulebookError};

/// How long a question without a text may take.
const BRIEFLY: Duration = Duration::from_secs(1);
/// How long one with a text may take: it can have some megabytes.
const WITH_TEXT: Duration = Duration::from_secs(3);

/// The texts of the fleet's rules, with their versions. Clones are the same rulebook; it does not keep the
/// store's connection open.
///
/// A question is answered or fails within a second, one that carries a text within three; at once while the
/// store is known to fail. Texts travel on the same connection as decisions: one of many megabytes holds
/// those up for the moment, and they are made by their rules' policy if that takes too long.
///
/// ```no_run
/// # async fn shown(store: &sluicegate_cluster::ClusterStore) -> Result<(), sluicegate_cluster::RulebookError> {
/// let rulebook = store.rulebook();
/// let number = rulebook.publish("rules: []", "alice", "a fresh start", Some(0)).await?;
/// assert_eq!(rulebook.current_version().await?, Some(number));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Rulebook {
    driver: Driver<ExactBatch>,
    key: Bytes,
    /// The highest number this process has seen; known to all handles.
    seen: Arc<AtomicU64>,
}

impl ClusterStore {
    /// The texts of the fleet's rules, with their versions.
    pub fn rulebook(&self) -> Rulebook {
        self.rulebook.clone()
    }
}

impl Rulebook {
    pub(super) fn new(driver: &Driver<ExactBatch>, prefix: &str) -> Self {
        let key = Bytes::from(format!("{prefix}:{{rulebook}}:versions"));
        Self { driver: driver.background(), key, seen: Arc::default() }
    }

    /// The number of the current version; `None` if there is none yet. Cheap: every process may ask every
    /// second.
    pub async fn current_version(&self) -> Result<Option<u64>, RulebookError> {
        let number = self.number(Question::Number, BRIEFLY).await?;
        Ok(Some(number).filter(|number| *number > 0))
    }

    /// The current version with its text; `None` if there is none yet.
    pub async fn current(&self) -> Result<Option<KeptRules>, RulebookError> {
        self.rules(None).await
    }

    /// The version of this number with its text; `None` if it is not kept, or never was.
    pub async fn version(&self, number: u64) -> Result<Option<KeptRules>, RulebookError> {
        if number == 0 { Ok(None) } else { self.rules(Some(number)).await }
    }

    /// The versions that are kept, the newest first: the last
    /// [hundred](crate::MOST_VERSIONS), fewer if their texts are long.
    pub async fn versions(&self) -> Result<Vec<KeptVersion>, RulebookError> {
        match self.ask(Question::Versions, BRIEFLY).await? {
            Answer::Versions(versions) => Ok(versions),
            _ => Err(RulebookError::unintelligible()),
        }
    }

    /// Publishes a text as the next version, and answers its number. Only if `based_on` is still the current
    /// one: `None` for whatever is current, `Some(0)` only if there is none. Of several who publish on the
    /// same basis one is heard, the others are [overtaken](RulebookError::Overtaken).
    ///
    /// The number is higher than any that this process has seen, also if the store has lost them.
    pub async fn publish(
        &self,
        text: &str,
        author: &str,
        comment: &str,
        based_on: Option<u64>,
    ) -> Result<u64, RulebookError> {
        let seen = self.seen.load(Ordering::Relaxed);
        self.number(Question::Publish { text, author, comment, based_on, seen }, WITH_TEXT).await
    }

    /// Puts back what a store has lost: this version with its number, unless the store has the same or a
    /// later one by now.
    pub async fn put_back(&self, kept: &KeptRules) -> Result<(), RulebookError> {
        self.number(Question::PutBack(kept), WITH_TEXT).await.map(drop)
    }

    async fn rules(&self, number: Option<u64>) -> Result<Option<KeptRules>, RulebookError> {
        match self.ask(Question::Rules(number), WITH_TEXT).await? {
            Answer::Rules(rules) => {
                self.has_seen(rules.as_ref().map_or(0, |rules| rules.version.number));
                Ok(rules)
            }
            _ => Err(RulebookError::unintelligible()),
        }
    }

    async fn number(&self, question: Question<'_>, deadline: Duration) -> Result<u64, RulebookError> {
        match self.ask(question, deadline).await? {
            Answer::Number(number) => {
                self.has_seen(number);
                Ok(number)
            }
            _ => Err(RulebookError::unintelligible()),
        }
    }

    async fn ask(&self, question: Question<'_>, deadline: Duration) -> Result<Answer, RulebookError> {
        let invocation = question.invocation(&self.key)?;
        let answer = self.driver.call(invocation, deadline).await?;
        Answer::read(&self.key, answer)
    }

    fn has_seen(&self, number: u64) {
        self.seen.fetch_max(number, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Rulebook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rulebook").field("key", &self.key).finish_non_exhaustive()
    }
}

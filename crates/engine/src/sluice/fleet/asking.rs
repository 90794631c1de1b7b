//! A request that waits for what the store says.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::waiting::Place;
use super::{Question, decide_at_once};
use crate::clock::{ClockHandle, Sleep};
use crate::decision::Verdict;
use crate::fleet::{Answer, Asked};
use crate::sluice::counts::CountedWait;
use crate::sluice::decide::{self, Asking};
use crate::sluice::outcome::Outcome;
use crate::time::Timestamp;

/// How long to wait where nothing tells: the store knows no moment at which permits come back.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Asks the store and, where the rules say so, waits and asks again. Dropped before it is done, it is as
/// if the request had never come.
pub(in crate::sluice) struct FleetAsking {
    outcome: Option<Outcome>,
    questions: Vec<Question>,
    asked: Vec<Pending>,
    asking: Asking,
    clock: ClockHandle,
    waiting: Option<InWait>,
}

/// A question on its way.
enum Pending {
    /// It was not asked this time: the process has answered it.
    Unasked,
    Answered(Answer),
    Open(Pin<Box<dyn Future<Output = Answer> + Send>>),
}

/// A request that was refused and may be admitted yet.
struct InWait {
    until: Timestamp,
    sleep: Option<Sleep>,
    /// Places among those who wait, one for each rule that refused it.
    _places: Vec<Place>,
    /// Its wait, counted for each of these rules once it really waits.
    counted: Vec<CountedWait>,
}

impl FleetAsking {
    /// Begins to ask for a request that everything else has admitted.
    pub(in crate::sluice) fn begin(
        outcome: Outcome,
        questions: Vec<Question>,
        asking: Asking,
        clock: &ClockHandle,
    ) -> Self {
        let clock = clock.clone();
        let mut begun = Self { outcome: Some(outcome), questions, asked: Vec::new(), asking, clock, waiting: None };
        begun.ask();
        begun
    }

    /// Waits, if it may, for a request that a rule of the fleet has refused at once.
    pub(in crate::sluice) fn refused(outcome: Outcome, questions: Vec<Question>, clock: &ClockHandle) -> Self {
        let (asking, clock) = (Asking::ToWait, clock.clone());
        Self { outcome: Some(outcome), questions, asked: Vec::new(), asking, clock, waiting: None }
    }

    /// Whether a pause is to be sat out.
    pub(in crate::sluice) fn waits(&self) -> bool {
        self.asking == Asking::ToWait
    }

    pub(in crate::sluice) const fn clock(&self) -> &ClockHandle {
        &self.clock
    }

    fn ask(&mut self) {
        let Some(outcome) = &self.outcome else { return };
        let Some(store) = outcome.snapshot.store() else { return };
        let ask = |question: &Question| match question.is_open(outcome).then(|| store.ask(question.wants.clone())) {
            None => Pending::Unasked,
            Some(Asked::Now(answer)) => Pending::Answered(answer),
            Some(Asked::Later(future)) => Pending::Open(future),
        };
        self.asked = self.questions.iter().map(ask).collect();
    }

    /// The request with all answers in it; counted unless there are gates before it.
    fn conclude(&mut self, mut outcome: Outcome, now: Timestamp) -> Poll<(Outcome, Timestamp)> {
        if !outcome.is_gated() {
            outcome.count(now, None);
        }
        self.waiting = None;
        Poll::Ready((outcome, now))
    }

    /// Lets a refused request wait, if it can be admitted in time. Answers for how long at first.
    fn wait(&mut self, outcome: &Outcome, now: Timestamp) -> Option<Duration> {
        if self.asking == Asking::AtOnce || !outcome.may_wait() {
            return None;
        }
        let wait = match outcome.verdict {
            Verdict::Denied { retry_after } => retry_after.unwrap_or(LOOK_AGAIN),
            Verdict::Allowed | Verdict::Wait(_) | Verdict::Never => return None,
        };
        if self.waiting.is_none() {
            let until = now + outcome.longest_wait()?;
            let places = outcome.fleet_places()?;
            self.waiting = Some(InWait { until, sleep: None, _places: places, counted: Vec::new() });
        }
        (now + wait <= self.waiting.as_ref()?.until).then_some(wait)
    }
}

impl Future for FleetAsking {
    /// What was decided, and when.
    type Output = (Outcome, Timestamp);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            if let Some(InWait { sleep: Some(sleep), .. }) = &mut this.waiting {
                ready!(Pin::new(&mut *sleep).poll(context));
            }
            if let Some(InWait { sleep, .. }) = &mut this.waiting
                && sleep.take().is_some()
                && let Some(outcome) = &mut this.outcome
            {
                let now = this.clock.now();
                outcome.fleet.clear();
                decide::rule_again(outcome, now);
                if decide_at_once(outcome, now) {
                    this.ask();
                }
            }
            ready!(hear_all(&mut this.asked, context));
            // Polled again after it was ready: there is nothing more to come.
            let Some(mut outcome) = this.outcome.take() else { return Poll::Pending };
            let now = this.clock.now();
            let answers: Vec<Pending> = this.asked.drain(..).collect();
            if !answers.is_empty() {
                for (question, asked) in this.questions.iter().zip(answers) {
                    if let Pending::Answered(answer) = asked {
                        outcome.hear(&question.checks, answer, now);
                    }
                }
                outcome.conclude_fleet();
            }
            if outcome.is_admitted() {
                return this.conclude(outcome, now);
            }
            let Some(wait) = this.wait(&outcome, now) else { return this.conclude(outcome, now) };
            if let Some(waiting) = &mut this.waiting {
                if waiting.counted.is_empty() {
                    waiting.counted = outcome.count_fleet_waits(now, &this.clock);
                }
                waiting.sleep = Some(this.clock.sleep(wait));
            }
            this.outcome = Some(outcome);
        }
    }
}

/// Waits for all questions at the same time: some are only sent once somebody waits for them.
fn hear_all(asked: &mut [Pending], context: &mut Context<'_>) -> Poll<()> {
    let mut heard = Poll::Ready(());
    for asked in asked {
        if let Pending::Open(future) = asked {
            match future.as_mut().poll(context) {
                Poll::Ready(answer) => *asked = Pending::Answered(answer),
                Poll::Pending => heard = Poll::Pending,
            }
        }
    }
    heard
}

impl Drop for FleetAsking {
    fn drop(&mut self) {
        if let Some(mut outcome) = self.outcome.take() {
            let now = self.clock.now();
            // What has been answered and not looked at yet was taken all the same. What is open is dropped,
            // and the store takes it back.
            for (question, asked) in self.questions.iter().zip(self.asked.drain(..)) {
                if let Pending::Answered(answer @ Ok(_)) = asked {
                    outcome.hear(&question.checks, answer, now);
                }
            }
            outcome.give_back();
        }
    }
}

impl Outcome {
    /// Whether a rule of the fleet refuses.
    pub(in crate::sluice) fn is_refused_by_fleet(&self) -> bool {
        let mut refusing = self.checks.iter().filter(|check| !check.shadow && check.refuses());
        refusing.any(|check| self.snapshot.state(check.rule).fleet.is_some())
    }

    /// Counts from now on how long the cluster-wide rules that refuse let the request wait.
    fn count_fleet_waits(&self, now: Timestamp, clock: &ClockHandle) -> Vec<CountedWait> {
        let refusing = self.checks.iter().filter(|check| !check.shadow && check.refuses());
        let refusing = refusing.filter(|check| self.snapshot.state(check.rule).fleet.is_some());
        refusing.map(|check| self.count_wait(check.rule, now, clock)).collect()
    }

    /// A place among those who wait, for each cluster-wide rule that refuses. `None` if too many wait
    /// already.
    fn fleet_places(&self) -> Option<Vec<Place>> {
        let refusing = self.checks.iter().filter(|check| !check.shadow && check.refuses());
        let mut places = Vec::new();
        for check in refusing {
            let rule = &self.snapshot.rules()[check.rule];
            let (Some(fleet), Some(queue)) = (&self.snapshot.state(check.rule).fleet, rule.on_limit.queue) else {
                continue;
            };
            places.push(fleet.waiting.join(check.key, queue.max_waiting)?);
        }
        Some(places)
    }
}

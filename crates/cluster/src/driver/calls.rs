//! Gathers what waits into calls, and sees each call through to its end.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::time::{sleep, sleep_until, timeout_at};

use super::batch::Batch;
use super::shared::{Asker, Shared, Waiting};
use crate::error::{Failure, StoreError, StoreErrorKind};
use crate::health::Counters;

/// How many items go into one call.
const MOST_ITEMS: usize = 128;
/// How long to wait where a slot is on the move.
const NOT_NOW: Duration = Duration::from_millis(2);
/// How long after its deadline a call may stay unanswered before the whole store counts as silent.
const STALL: Duration = Duration::from_millis(250);
/// How long after that its reply is still waited for, to give back what it took.
const PATIENCE: Duration = Duration::from_secs(2);

/// Each item with what became of it.
type Answered<B> = Vec<(<B as Batch>::Item, Result<<B as Batch>::Answer, StoreError>)>;

impl<B: Batch> Shared<B> {
    /// Gathers until it is dropped: the driver's main task.
    pub(super) async fn gather(self: Arc<Self>) {
        loop {
            self.pump();
            self.wake.notified().await;
        }
    }

    /// Sends what waits, as far as the line is free.
    pub(super) fn pump(&self) {
        if self.is_degraded() {
            self.refuse_all(&Failure::Degraded);
            return;
        }
        loop {
            let waiting = {
                let mut line = self.line.lock();
                let needed = line.pace.needed(line.in_flight);
                if needed.is_none_or(|needed| line.lanes.len() < needed) {
                    // With a full line the next call that ends looks again; nobody else need wake anyone.
                    line.wake_at = needed;
                    return;
                }
                line.in_flight += 1;
                line.lanes.take(MOST_ITEMS)
            };
            let (items, askers) = self.still_wanted(waiting);
            match self.this.upgrade() {
                Some(shared) if !items.is_empty() => {
                    self.runtime.spawn(async move { shared.see_through(items, askers).await });
                }
                _ => self.line.lock().in_flight -= 1,
            }
        }
    }

    /// Leaves out who is gone or has waited long enough: nothing need be taken for them.
    fn still_wanted(&self, waiting: VecDeque<Waiting<B>>) -> (Vec<B::Item>, Vec<Asker<B>>) {
        let now = Instant::now();
        let (mut items, mut askers) = (Vec::with_capacity(waiting.len()), Vec::with_capacity(waiting.len()));
        for Waiting { item, asker } in waiting {
            if asker.answer.is_closed() {
                continue;
            }
            if asker.deadline <= now {
                Counters::add(&self.counters.timeouts, 1);
                // Who is gone need not be told.
                drop(asker.answer.send(Err(Failure::Deadline)));
                continue;
            }
            items.push(item);
            askers.push(asker);
        }
        (items, askers)
    }

    /// One call, from its sending until its askers have heard and nothing is left to give back.
    async fn see_through(self: Arc<Self>, items: Vec<B::Item>, askers: Vec<Asker<B>>) {
        let mut place = Place { shared: &self, held: true };
        let Some(last) = askers.iter().map(|asker| asker.deadline).max() else { return };
        Counters::add(&self.counters.calls, 1);
        let sent = Instant::now();
        let mut reply = pin!(self.exchange(items, last));
        let mut askers = Heard::new(askers);

        let in_time = loop {
            let Some(next) = askers.next_deadline() else { break None };
            tokio::select! {
                biased;
                reply = &mut reply => break Some(reply),
                () = sleep_until(next.into()) => {
                    Counters::add(&self.counters.timeouts, askers.expire(Instant::now()));
                }
            }
        };
        match in_time {
            Some(heard) => {
                self.note(&heard, sent);
                self.line.lock().pace.took(sent.elapsed());
                place.leave();
                self.deliver(heard, askers);
            }
            None => {
                // The line is free for others: this call is only waited for to undo it.
                let silent = StoreError::new(StoreErrorKind::Silent, "no answer within the deadline");
                self.failed(&silent);
                place.leave();
                let mut late = timeout_at((last + STALL).into(), &mut reply).await;
                if late.is_err() {
                    self.silent_since(sent, &silent);
                    late = timeout_at((last + STALL + PATIENCE).into(), &mut reply).await;
                }
                if let Ok(heard) = late {
                    self.deliver(heard, askers);
                }
            }
        }
    }

    /// Notes how a call went: as its first item did, for mostly all go the same way.
    fn note(&self, answered: &Answered<B>, sent: Instant) {
        match answered.first() {
            Some((_, Err(error))) => self.failed(error),
            Some((_, Ok(_))) | None => self.passed(sent),
        }
    }

    /// The answers to these items: of one call, or each of its own if their keys stand on both sides of a slot
    /// on the move.
    async fn exchange(&self, items: Vec<B::Item>, until: Instant) -> Answered<B> {
        let answers: Vec<_> = match self.exchange_together(&items, until).await {
            Ok(answers) => answers.into_iter().map(Ok).collect(),
            Err(error) if error.kind == StoreErrorKind::TryAgain && items.len() > 1 => {
                join_all(items.iter().map(|item| self.exchange_alone(item, until))).await
            }
            Err(error) => items.iter().map(|_| Err(error.clone())).collect(),
        };
        items.into_iter().zip(answers).collect()
    }

    async fn exchange_alone(&self, item: &B::Item, until: Instant) -> Result<B::Answer, StoreError> {
        loop {
            match self.exchange_together(std::slice::from_ref(item), until).await {
                // Its own keys are on both sides: not for long.
                Err(error) if error.kind == StoreErrorKind::TryAgain && Instant::now() < until => {
                    sleep(NOT_NOW).await;
                }
                Err(error) => return Err(error),
                Ok(mut answers) => return answers.pop().ok_or_else(|| StoreError::unintelligible("no answer")),
            }
        }
    }

    async fn exchange_together(&self, items: &[B::Item], until: Instant) -> Result<Vec<B::Answer>, StoreError> {
        let reply = self.link.call(&self.batch.encode(items), until).await?;
        let answers = self.batch.decode(reply, items)?;
        if answers.len() != items.len() {
            let detail = format!("{} answers to {} asks", answers.len(), items.len());
            return Err(StoreError::unintelligible(detail));
        }
        Ok(answers)
    }

    /// Tells the askers; what nobody hears is given back.
    fn deliver(&self, answered: Answered<B>, askers: Heard<B>) {
        let mut unheard = Vec::new();
        for ((item, answer), asker) in answered.into_iter().zip(askers.askers) {
            let heard = answer.map(|answer| (item, answer)).map_err(Failure::Store);
            let back = match asker {
                None => heard,
                Some(asker) => match asker.answer.send(heard) {
                    Ok(()) => continue,
                    Err(back) => back,
                },
            };
            // Who is gone need not be told of a failure.
            unheard.extend(back);
        }
        Counters::add(&self.counters.late_answers, unheard.len() as u64);
        self.give_back(unheard);
    }

    /// Gives back what these took, in the background. From any thread.
    pub(super) fn give_back(&self, unheard: Vec<(B::Item, B::Answer)>) {
        if unheard.is_empty() {
            return;
        }
        let (Some(invocation), Some(shared)) = (self.batch.undo(&unheard), self.this.upgrade()) else { return };
        self.returning.fetch_add(1, Ordering::Relaxed);
        self.runtime.spawn(async move {
            let until = Instant::now() + PATIENCE;
            // If it fails, what was taken is gone until it is due or expires: too little is let in, never too much.
            if let Ok(Err(error)) = timeout_at(until.into(), shared.link.call(&invocation, until)).await {
                shared.counters.failed(&error);
            }
            shared.returning.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// A call's place in the line. Left once, also when the call panics.
struct Place<'a, B: Batch> {
    shared: &'a Shared<B>,
    held: bool,
}

impl<B: Batch> Place<'_, B> {
    fn leave(&mut self) {
        if std::mem::take(&mut self.held) {
            self.shared.line.lock().in_flight -= 1;
            self.shared.pump();
        }
    }
}

impl<B: Batch> Drop for Place<'_, B> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A call's askers: first those who have heard that it was too slow, then those who still wait.
struct Heard<B: Batch> {
    askers: Vec<Option<Asker<B>>>,
    expired: usize,
}

impl<B: Batch> Heard<B> {
    fn new(askers: Vec<Asker<B>>) -> Self {
        Self { askers: askers.into_iter().map(Some).collect(), expired: 0 }
    }

    /// When the first of those who still wait has waited long enough. `None` when nobody waits.
    fn next_deadline(&self) -> Option<Instant> {
        self.askers.get(self.expired)?.as_ref().map(|asker| asker.deadline)
    }

    /// Tells those who have waited long enough. How many they are.
    fn expire(&mut self, now: Instant) -> u64 {
        let mut many = 0;
        // In the order of their deadlines: all wait equally long.
        while self.next_deadline().is_some_and(|deadline| deadline <= now) {
            if let Some(asker) = self.askers.get_mut(self.expired).and_then(Option::take) {
                // Who is gone need not be told.
                drop(asker.answer.send(Err(Failure::Deadline)));
            }
            self.expired += 1;
            many += 1;
        }
        many
    }
}

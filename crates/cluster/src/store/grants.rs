//! Taking what a request wants, step by step where one call does not reach all of it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use sluicegate_engine::fleet::{Answer as FleetAnswer, FleetSaid, FleetTaken, Granted, StoreLost};
use smallvec::SmallVec;

use super::exact::{Exact, ending};
use crate::ask::{Answer, Ask, Said, Unit};
use crate::exact::{Ending, encode_end};

/// How long giving back may take. What is lost by then comes back with time.
const GIVING_BACK: Duration = Duration::from_secs(1);

/// Units in the order they are asked, those that can be decided in one call together.
pub(super) struct Steps {
    exact: Exact,
    steps: SmallVec<[Step; 1]>,
    /// How many wants there are.
    wants: usize,
}

struct Step {
    units: SmallVec<[Unit; 1]>,
    /// Which wants they are for.
    wants: SmallVec<[usize; 1]>,
}

impl Steps {
    pub(super) fn new(exact: &Exact, units: SmallVec<[Unit; 1]>) -> Self {
        let mut steps: SmallVec<[Step; 1]> = SmallVec::new();
        let wants = units.len();
        for (want, unit) in units.into_iter().enumerate() {
            let reaching = |step: &&mut Step| step.units.first().is_some_and(|first| exact.go_together(first, &unit));
            match steps.iter_mut().find(reaching) {
                Some(step) => {
                    step.units.push(unit);
                    step.wants.push(want);
                }
                None => steps.push(Step { units: SmallVec::from_iter([unit]), wants: SmallVec::from_iter([want]) }),
            }
        }
        Self { exact: exact.clone(), steps, wants }
    }

    /// Takes everything, or nothing.
    pub(super) async fn take(self) -> FleetAnswer {
        let mut taken = Taken { exact: self.exact.clone(), units: Vec::with_capacity(self.wants), is_done: false };
        let mut said: SmallVec<[Option<FleetSaid>; 1]> = SmallVec::from_elem(None, self.wants);
        for Step { units, wants } in self.steps {
            let answer = self.exact.ask(&units).await?;
            let admitted = answer.iter().all(Said::admits);
            for (want, heard) in wants.iter().zip(&answer) {
                said[*want] = Some(FleetSaid::from(*heard));
            }
            if admitted {
                taken.add(wants, units, &answer);
            } else {
                // What was taken before goes back with `taken`.
                let said = said.into_iter().flatten().collect();
                return Ok(Granted { said, taken: None });
            }
        }
        let said = said.into_iter().flatten().collect();
        taken.is_done = true;
        Ok(Granted { said, taken: Some(Box::new(taken)) })
    }
}

impl Exact {
    async fn ask(&self, units: &SmallVec<[Unit; 1]>) -> Result<Answer, StoreLost> {
        let (answer, healed) = self.driver().ask(Ask { units: units.clone() }).await.map_err(|_| StoreLost)?;
        if healed > 0 {
            self.driver().counters().healed.fetch_add(healed, Ordering::Relaxed);
        }
        Ok(answer)
    }

    /// Sends what has ended, and does not wait for it.
    fn end(&self, mut endings: Vec<Ending>) {
        while let Some(first) = endings.first() {
            let slot = first.key.slot();
            let (together, rest) =
                endings.into_iter().partition(|ending: &Ending| !self.is_in_slots() || ending.key.slot() == slot);
            endings = rest;
            let call = self.driver().call(encode_end(&together, None), GIVING_BACK);
            self.driver().spawn(async move { drop(call.await) });
        }
    }
}

/// What a request has taken. Dropped before the request was admitted, all of it goes back.
struct Taken {
    exact: Exact,
    /// The unit of each want, and what was said about it.
    units: Vec<(usize, Unit, Said)>,
    /// Whether the request was admitted.
    is_done: bool,
}

impl Taken {
    fn add(&mut self, wants: SmallVec<[usize; 1]>, units: SmallVec<[Unit; 1]>, said: &[Said]) {
        for ((want, unit), said) in wants.into_iter().zip(units).zip(said) {
            self.exact.permits().keep(&unit);
            self.units.push((want, unit, *said));
        }
    }

    /// Ends all units; `actual` tells what each want really cost.
    fn finish(&mut self, actual: impl Fn(usize, &Unit) -> u64) {
        let mut endings = Vec::new();
        for (want, unit, said) in self.units.drain(..) {
            self.exact.permits().let_go(&unit);
            let actual = actual(want, &unit);
            if unit.permit.is_some() || actual != unit.cost {
                endings.push(ending(&unit, &said, actual));
            }
        }
        self.exact.end(endings);
    }
}

impl FleetTaken for Taken {
    fn is_held(&self) -> bool {
        self.units.iter().any(|(_, unit, _)| unit.permit.is_some())
    }

    fn end(mut self: Box<Self>, actual: &[u64]) {
        self.finish(|want, unit| actual.get(want).copied().unwrap_or(unit.cost));
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.is_done {
            // Rates were spent; permits go back however it ended.
            self.finish(|_, unit| unit.cost);
        } else {
            self.finish(|_, _| 0);
        }
    }
}

impl std::fmt::Debug for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Taken").field("units", &self.units).finish_non_exhaustive()
    }
}

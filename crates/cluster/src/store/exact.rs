//! Decisions made in the store, one call for many.

use redis::Value;

use super::permits::Permits;
use crate::ask::{Answer, Ask, Said, Unit};
use crate::driver::{Batch, Driver};
use crate::error::StoreError;
use crate::exact::{Ending, decode_take, encode_end, encode_take};
use crate::invocation::Invocation;

/// How asks become calls of the `take` script.
pub(super) struct ExactBatch;

impl Batch for ExactBatch {
    type Item = Ask;
    type Answer = (Answer, u64);

    fn slot(&self, ask: &Ask) -> u16 {
        ask.units.first().map_or(0, |unit| unit.key.slot())
    }

    fn encode(&self, asks: &[Ask]) -> Invocation {
        encode_take(asks, None)
    }

    fn decode(&self, reply: Value, asks: &[Ask]) -> Result<Vec<Self::Answer>, StoreError> {
        let (answers, healed) =
            decode_take(reply, asks).map_err(|error| StoreError::unintelligible(error.to_string()))?;
        // Counted with the first, as it does not matter whose they were.
        Ok(answers.into_iter().zip(std::iter::once(healed).chain(std::iter::repeat(0))).collect())
    }

    fn undo(&self, unheard: &[(Ask, Self::Answer)]) -> Option<Invocation> {
        let endings = unheard.iter().flat_map(|(ask, (answer, _))| given_back(&ask.units, answer));
        let endings: Vec<Ending> = endings.collect();
        (!endings.is_empty()).then(|| encode_end(&endings, None))
    }
}

/// Everything that an ask took, to be given back.
fn given_back<'a>(units: &'a [Unit], said: &'a [Said]) -> impl Iterator<Item = Ending> + 'a {
    let taken = said.iter().all(Said::admits);
    units.iter().zip(said).filter(move |(unit, _)| taken && unit.cost > 0).map(|(unit, said)| ending(unit, said, 0))
}

/// The end of one unit, with what it really cost.
pub(super) fn ending(unit: &Unit, said: &Said, actual: u64) -> Ending {
    Ending {
        key: unit.key.clone(),
        limits: unit.limits.clone(),
        taken: unit.cost,
        at: said.at,
        actual,
        permit: unit.permit,
    }
}

/// What is needed to decide in the store.
#[derive(Clone)]
pub(super) struct Exact {
    driver: Driver<ExactBatch>,
    permits: Permits,
    /// Whether keys stand in slots, and a call only reaches one of them.
    in_slots: bool,
}

impl Exact {
    pub(super) const fn new(driver: Driver<ExactBatch>, permits: Permits, in_slots: bool) -> Self {
        Self { driver, permits, in_slots }
    }

    pub(super) const fn permits(&self) -> &Permits {
        &self.permits
    }

    pub(super) const fn driver(&self) -> &Driver<ExactBatch> {
        &self.driver
    }

    pub(super) const fn is_in_slots(&self) -> bool {
        self.in_slots
    }

    /// Whether two units can be decided in one call.
    pub(super) fn go_together(&self, one: &Unit, other: &Unit) -> bool {
        !self.in_slots || one.key.slot() == other.key.slot()
    }
}

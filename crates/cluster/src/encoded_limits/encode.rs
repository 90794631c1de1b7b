//! Encoding of limits for the scripts: the store form of each algorithm, and the keys that it needs.

use bytes::Bytes;
use sluicegate_engine::Limit;
use sluicegate_engine::algorithm::store_form::{MAX_NUMBER, SecondaryKey, StoreFormError};

use super::{EncodeLimitsError, EncodedLimits};
use crate::algorithm_scripts;

/// Accumulates the encodings and shapes of limits.
#[derive(Default)]
pub(super) struct LimitEncoder {
    pub(super) permit_ttl: u64,
    pub(super) shape: String,
    pub(super) bytes: Vec<u8>,
    pub(super) secondary_suffixes: Vec<String>,
}

impl LimitEncoder {
    pub(super) fn encode(&mut self, index: usize, limit: &Limit) -> Result<(), EncodeLimitsError> {
        let form =
            limit.store_form().map_err(|StoreFormError(field)| EncodeLimitsError::TooLarge { limit: *limit, field })?;
        self.shape.push_str(&form.shape);
        let mut numbers = form.numbers;
        match form.secondary {
            SecondaryKey::None => {}
            SecondaryKey::Own(suffix) => {
                numbers.push(self.secondary_suffixes.len() as f64);
                self.secondary_suffixes.push(format!("{suffix}{index}"));
            }
            SecondaryKey::Permits => {
                let index = self.secondary_suffixes.iter().position(|suffix| suffix == EncodedLimits::permits_suffix());
                let first = index.is_none();
                let index = index.unwrap_or(self.secondary_suffixes.len());
                if first {
                    self.secondary_suffixes.push(EncodedLimits::permits_suffix().to_owned());
                }
                numbers.extend([self.permit_ttl as f64, index as f64, f64::from(u8::from(first))]);
            }
        }
        self.bytes.extend([algorithm_scripts::number(limit.algorithm()), numbers.len() as u8]);
        self.bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        Ok(())
    }
}

/// Short form of a single token bucket with a debt that fits into one Lua number.
pub(super) fn encode_short_bucket(limits: &[Limit]) -> Option<Bytes> {
    let [limit] = limits else { return None };
    let gcra = limit.as_token_bucket().filter(|gcra| gcra.tolerance() <= MAX_NUMBER)?;
    let numbers = [gcra.interval() as f64, gcra.burst() as f64, gcra.tolerance() as f64];
    let mut bytes = vec![1];
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    Some(bytes.into())
}

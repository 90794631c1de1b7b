//! Numeric encoding of limits for saved state.

use std::time::Duration;

use super::{DESCRIPTIONS, Limit, LimitError, Rate};
use crate::algorithm::{
    Algorithm, HoldingKind, LimitArguments, MAX_PARAMETERS, Parameter, ParameterKind, ParameterValue,
};
use crate::limit::each_algorithm;
use crate::time::saturating_nanos;

/// Words of an encoded limit: the algorithm's code, two for its main parameter, one for each other parameter.
pub(crate) const WORDS: usize = MAX_PARAMETERS + 2;

/// Encodes a limit. The last word is 1 for a limit with room for reservations.
pub(crate) fn encode(limit: &Limit) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    words[0] = limit.description().code;
    let arguments = limit.arguments();
    [words[1], words[2]] = match arguments.get(0) {
        Some(ParameterValue::Rate(rate)) => [rate.count(), saturating_nanos(rate.period())],
        Some(ParameterValue::Count(count)) => [count, 0],
        _ => [0; 2],
    };
    for (index, word) in (1..).zip(&mut words[3..]) {
        *word = match arguments.get(index) {
            Some(ParameterValue::Count(count)) => count,
            Some(ParameterValue::Duration(duration)) => saturating_nanos(duration),
            Some(ParameterValue::Keyword(keyword)) => keyword as u64,
            Some(ParameterValue::Rate(_)) | None => 0,
        };
    }
    if each_algorithm!(limit, algorithm => algorithm.holding()) == Some(HoldingKind::Tokens) {
        words[WORDS - 1] = 1;
    }
    words
}

/// Decodes and validates a limit.
pub(crate) fn decode(words: [u64; WORDS]) -> Result<Limit, LimitError> {
    let description =
        DESCRIPTIONS.iter().find(|description| description.code == words[0]).ok_or(LimitError::NoLimits)?;
    let mut arguments = [None; MAX_PARAMETERS];
    for (index, (parameter, argument)) in description.parameters.iter().zip(&mut arguments).enumerate() {
        let words = if index == 0 { [words[1], words[2]] } else { [words[2 + index], 0] };
        *argument = Some(value(parameter, words)?);
    }
    let limit = Limit::from_arguments(description.name, &LimitArguments::new(arguments))?;
    Ok(if description.reservable && words[WORDS - 1] == 1 { limit.reservable() } else { limit })
}

fn value(parameter: &Parameter, [first, second]: [u64; 2]) -> Result<ParameterValue, LimitError> {
    Ok(match parameter.kind {
        ParameterKind::Rate | ParameterKind::Window | ParameterKind::ByteRate => {
            ParameterValue::Rate(Rate::new(first, Duration::from_nanos(second))?)
        }
        ParameterKind::Count(..) | ParameterKind::Size => ParameterValue::Count(first),
        ParameterKind::Duration => ParameterValue::Duration(Duration::from_nanos(first)),
        ParameterKind::Keyword(words) => {
            ParameterValue::Keyword(usize::try_from(first).unwrap_or(usize::MAX).min(words.len().saturating_sub(1)))
        }
    })
}

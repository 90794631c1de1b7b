//! Random ids of reservations and permits.

use std::fmt;

/// 128 random bits, written as 32 hexadecimal digits. Knowledge of the id authorizes its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::http) struct ReservationId(u128);

impl ReservationId {
    /// Creates a random id. `None` if the system has no randomness.
    pub(super) fn random() -> Option<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).ok()?;
        Some(Self(u128::from_be_bytes(bytes)))
    }

    /// Parses the canonical form.
    pub(in crate::http) fn parse(text: &str) -> Option<Self> {
        let is_canonical = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        u128::from_str_radix(text, 16).ok().filter(|_| is_canonical).map(Self)
    }

    /// The index of the shard that stores this id.
    pub(super) fn shard_index(self, shards: usize) -> usize {
        usize::try_from(self.0 % shards.max(1) as u128).unwrap_or_default()
    }
}

impl fmt::Display for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_parses_only_in_its_canonical_form() {
        let id = ReservationId::random().unwrap();
        let text = id.to_string();
        assert_eq!(ReservationId::parse(&text), Some(id));
        let signed = format!("+{}", &text[1..]);
        for other in ["", "0", &text[1..], &text.to_uppercase().replace('0', "A"), &signed, &format!("{text}0")] {
            assert_ne!(ReservationId::parse(other), Some(id), "{other}");
        }
        assert_eq!(ReservationId::parse(&signed), None);
    }

    #[test]
    fn random_ids_differ() {
        assert_ne!(ReservationId::random(), ReservationId::random());
    }
}

//! What clients know something by.

use std::fmt;

/// 128 random bits, written as 32 hexadecimal digits: whoever has the id was given it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::http) struct Id(u128);

impl Id {
    /// One that nobody knows. `None`: the system has no randomness to give.
    pub(super) fn fresh() -> Option<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).ok()?;
        Some(Self(u128::from_be_bytes(bytes)))
    }

    /// Reads one as it was written.
    pub(in crate::http) fn parse(text: &str) -> Option<Self> {
        let is_written = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        u128::from_str_radix(text, 16).ok().filter(|_| is_written).map(Self)
    }

    /// Which of so many it belongs to.
    pub(super) fn spread(self, over: usize) -> usize {
        usize::try_from(self.0 % over.max(1) as u128).unwrap_or_default()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_is_written_and_no_other_way() {
        let id = Id::fresh().unwrap();
        let text = id.to_string();
        assert_eq!(Id::parse(&text), Some(id));
        let signed = format!("+{}", &text[1..]);
        for other in ["", "0", &text[1..], &text.to_uppercase().replace('0', "A"), &signed, &format!("{text}0")] {
            assert_ne!(Id::parse(other), Some(id), "{other}");
        }
        assert_eq!(Id::parse(&signed), None);
    }

    #[test]
    fn no_two_are_the_same() {
        assert_ne!(Id::fresh(), Id::fresh());
    }
}

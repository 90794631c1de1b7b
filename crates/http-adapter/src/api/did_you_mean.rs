//! Spelling suggestions ("did you mean").

/// Longer words are not compared: it would be slow, and they are not typos of known words.
const MAX_WORD_BYTES: usize = 64;

/// Returns the closest known word within a small edit distance.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if word.len() > MAX_WORD_BYTES {
        return None;
    }
    let near = known.into_iter().filter(|candidate| candidate.len() <= MAX_WORD_BYTES).map(|candidate| {
        let distance = strsim::osa_distance(&word.to_lowercase(), &candidate.to_lowercase());
        (distance, candidate)
    });
    near.filter(|(distance, candidate)| *distance <= candidate.len().max(3) / 3).min().map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_typos_match() {
        let known = ["service", "method", "client_ip"];
        for (word, meant) in [
            ("servise", Some("service")),
            ("Method", Some("method")),
            ("clientip", Some("client_ip")),
            ("", None),
            ("colour", None),
        ] {
            assert_eq!(nearest(word, known), meant, "{word}");
        }
        assert_eq!(nearest(&"x".repeat(1 << 20), known), None);
    }
}

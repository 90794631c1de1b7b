//! Spelling suggestions ("did you mean") of all parsers.

/// Longer words are not compared: it would be slow, and they are not typos of known words.
const MAX_WORD_BYTES: usize = 64;

/// Returns the closest known word within a small edit distance. Letter case does not count, nor does `-` or `_`.
///
/// ```
/// use sluicegate_engine::spelling::nearest;
///
/// assert_eq!(nearest("Client-Ipp", ["service", "client_ip"]), Some("client_ip"));
/// assert_eq!(nearest("colour", ["service", "client_ip"]), None);
/// ```
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if word.len() > MAX_WORD_BYTES {
        return None;
    }
    let folded = |word: &str| word.to_lowercase().replace('-', "_");
    let word = folded(word);
    let candidates = known.into_iter().filter(|candidate| candidate.len() <= MAX_WORD_BYTES);
    candidates
        .map(|candidate| (strsim::osa_distance(&word, &folded(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().max(3) / 3)
        .min()
        .map(|(_, candidate)| candidate)
}

/// True if two words differ by at most one inserted, deleted or replaced letter, or one swap.
pub(crate) fn within_one_edit(a: &str, b: &str) -> bool {
    // The comparison of lengths keeps a long input cheap.
    a.len().abs_diff(b.len()) <= 1 && strsim::osa_distance(a, b) <= 1
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
            ("client-ip", Some("client_ip")),
            ("", None),
            ("colour", None),
        ] {
            assert_eq!(nearest(word, known), meant, "{word}");
        }
        assert_eq!(nearest(&"x".repeat(1 << 20), known), None);
    }

    #[test]
    fn within_one_edit_counts_edits() {
        for (a, b, near) in [
            ("", "", true),
            ("", "a", true),
            ("", "ab", false),
            ("abc", "abc", true),
            ("abc", "abd", true),
            ("abc", "acb", true),
            ("abc", "ab", true),
            ("abc", "bc", true),
            ("abc", "cba", false),
            ("abcd", "badc", false),
            ("ab", "ba", true),
            ("a", "b", true),
        ] {
            assert_eq!(within_one_edit(a, b), near, "{a} {b}");
            assert_eq!(within_one_edit(b, a), near, "{b} {a}");
        }
    }
}

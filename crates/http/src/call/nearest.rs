//! What somebody probably meant.

/// Longer words are not compared: that would take long, and nobody mistypes them.
const LONGEST: usize = 64;

/// The known word that is closest to this one, if any is close.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if word.len() > LONGEST {
        return None;
    }
    let near = known.into_iter().filter(|candidate| candidate.len() <= LONGEST).map(|candidate| {
        let distance = strsim::osa_distance(&word.to_lowercase(), &candidate.to_lowercase());
        (distance, candidate)
    });
    near.filter(|(distance, candidate)| *distance <= candidate.len().max(3) / 3).min().map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_understood_and_nothing_else() {
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

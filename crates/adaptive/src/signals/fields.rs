//! Numbers in the kernel's texts, which come in few shapes.

/// The number behind a word that a line begins with: `usage_usec 1234`.
pub(super) fn after_word(text: &str, word: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        (fields.next()? == word).then(|| fields.next()?.parse().ok())?
    })
}

/// A file that is one number.
pub(super) fn only_number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// A number with a point that is one: no kernel writes infinities.
pub(super) fn finite(field: &str) -> Option<f64> {
    field.parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_whole_words() {
        let text = "inactive_file_x 7\ninactive_file 4096\nnothing\n";
        assert_eq!(after_word(text, "inactive_file"), Some(4_096));
        assert_eq!(after_word(text, "nothing"), None);
        assert_eq!(after_word(text, "inactive"), None);
        assert_eq!(only_number(" 12\n"), Some(12));
        assert_eq!(only_number("-1\n"), None);
        assert_eq!(finite("inf"), None);
    }
}

//! Number parsing for kernel files.

/// Number after a field name at the start of a line: `usage_usec 1234`.
pub(super) fn field_value(text: &str, word: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        (fields.next()? == word).then(|| fields.next()?.parse().ok())?
    })
}

/// Parses a file that holds one number.
pub(super) fn single_number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// Parses a finite decimal number.
pub(super) fn finite_number(field: &str) -> Option<f64> {
    field.parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_names_match_whole_words() {
        let text = "inactive_file_x 7\ninactive_file 4096\nnothing\n";
        assert_eq!(field_value(text, "inactive_file"), Some(4_096));
        assert_eq!(field_value(text, "nothing"), None);
        assert_eq!(field_value(text, "inactive"), None);
        assert_eq!(single_number(" 12\n"), Some(12));
        assert_eq!(single_number("-1\n"), None);
        assert_eq!(finite_number("inf"), None);
    }
}

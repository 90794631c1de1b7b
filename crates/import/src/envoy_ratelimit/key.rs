//! Formats the counter key of a descriptor.
//!
//! Under one limit, the same entries vary in the same order. Joined with `=` and `,`, they are unambiguous
//! once these characters are escaped inside entries.

/// Formats the varying entries, such as `path=/a,remote_address=10.0.0.1`. The lowest bit of `varying` is
/// the first entry.
pub(super) fn format_key<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)> + Clone, varying: u64) -> String {
    let varies = |at| varying.checked_shr(at).is_some_and(|rest| rest & 1 == 1);
    let chosen = |entries| (0..).zip(entries).filter(|(at, _)| varies(*at)).map(|(_, entry)| entry);
    let mut text = String::with_capacity(chosen(entries.clone()).map(|(key, value)| key.len() + value.len() + 2).sum());
    for (key, value) in chosen(entries) {
        if !text.is_empty() {
            text.push(',');
        }
        push_escaped(&mut text, key);
        text.push('=');
        push_escaped(&mut text, value);
    }
    text
}

fn push_escaped(text: &mut String, mut part: &str) {
    while let Some(at) = part.find([',', '=', '\\']) {
        text.push_str(&part[..at]);
        text.push('\\');
        // The special character is one byte long.
        let (marked, rest) = part[at..].split_at(1);
        text.push_str(marked);
        part = rest;
    }
    text.push_str(part);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_readable_and_separators_are_escaped() {
        let written = |entries: &[(&'static str, &'static str)]| format_key(entries.iter().copied(), u64::MAX);
        assert_eq!(written(&[]), "");
        assert_eq!(written(&[("path", "/a"), ("remote_address", "10.0.0.1")]), "path=/a,remote_address=10.0.0.1");
        assert_eq!(super::format_key([("a", "1"), ("b", "2"), ("c", "3")], 0b101), "a=1,c=3");
        assert_eq!(written(&[("q", "a=b,c\\")]), "q=a\\=b\\,c\\\\");
        assert_eq!(written(&[("k", "")]), "k=");
        assert_ne!(written(&[("a", "1,b=2"), ("b", "3")]), written(&[("a", "1"), ("b", "2,b=3")]));
    }
}

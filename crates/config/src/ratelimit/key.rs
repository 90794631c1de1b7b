//! What is counted apart under one limit, as one text.
//!
//! Under one limit the same entries vary, in the same order. So the entries with `=` and `,` between them tell
//! any two of them apart, once these characters are marked where they belong to an entry.

/// Writes those entries that vary, such as `path=/a,remote_address=10.0.0.1`. The lowest bit of `varying` is the
/// first entry's.
pub(super) fn written<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)> + Clone, varying: u64) -> String {
    let varies = |at| varying.checked_shr(at).is_some_and(|rest| rest & 1 == 1);
    let chosen = |entries| (0..).zip(entries).filter(|(at, _)| varies(*at)).map(|(_, entry)| entry);
    let mut text = String::with_capacity(chosen(entries.clone()).map(|(key, value)| key.len() + value.len() + 2).sum());
    for (key, value) in chosen(entries) {
        if !text.is_empty() {
            text.push(',');
        }
        escaped(&mut text, key);
        text.push('=');
        escaped(&mut text, value);
    }
    text
}

fn escaped(text: &mut String, mut part: &str) {
    while let Some(at) = part.find([',', '=', '\\']) {
        text.push_str(&part[..at]);
        text.push('\\');
        // The character found stands for one byte.
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
    fn entries_are_readable_and_their_marks_cannot_be_forged() {
        let written = |entries: &[(&'static str, &'static str)]| written(entries.iter().copied(), u64::MAX);
        assert_eq!(written(&[]), "");
        assert_eq!(written(&[("path", "/a"), ("remote_address", "10.0.0.1")]), "path=/a,remote_address=10.0.0.1");
        assert_eq!(super::written([("a", "1"), ("b", "2"), ("c", "3")], 0b101), "a=1,c=3");
        assert_eq!(written(&[("q", "a=b,c\\")]), "q=a\\=b\\,c\\\\");
        assert_eq!(written(&[("k", "")]), "k=");
        assert_ne!(written(&[("a", "1,b=2"), ("b", "3")]), written(&[("a", "1"), ("b", "2,b=3")]));
    }
}

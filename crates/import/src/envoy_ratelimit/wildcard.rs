//! Values with `*`, each of which matches any text, including none.

/// The text pieces between the stars; one more than there are stars.
#[derive(Clone, Debug)]
pub(super) struct Wildcard {
    first: Box<str>,
    between: Box<[Box<str>]>,
    last: Box<str>,
}

impl Wildcard {
    /// Parses a value; `None` if it has no star.
    pub(super) fn new(value: &str) -> Option<Self> {
        let (first, rest) = value.split_once('*')?;
        let (between, last) = match rest.rsplit_once('*') {
            Some((between, last)) => (between.split('*').map(Box::from).collect(), last),
            None => (Box::default(), rest),
        };
        Some(Self { first: first.into(), between, last: last.into() })
    }

    /// True if a value matches.
    pub(super) fn matches(&self, value: &str) -> bool {
        let Some(rest) = value.strip_prefix(&*self.first) else { return false };
        let Some(mut rest) = rest.strip_suffix(&*self.last) else { return false };
        for piece in &self.between {
            let Some(at) = rest.find(&**piece) else { return false };
            rest = &rest[at + piece.len()..];
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_any_text() {
        assert!(Wildcard::new("plain").is_none());
        for (pattern, value, expected) in [
            ("*", "", true),
            ("*", "anything", true),
            ("foo*", "foo", true),
            ("foo*", "foobar", true),
            ("foo*", "fo", false),
            ("foo*", "xfoo", false),
            ("*foo", "barfoo", true),
            ("*foo", "foobar", false),
            ("bar*b", "bar-b", true),
            ("bar*b", "barb", true),
            ("bar*b", "bar-c", false),
            ("ab*ba", "aba", false),
            ("ab*ba", "abba", true),
            ("svc*ep*rpc", "svc1ep2rpc", true),
            ("svc*ep*rpc", "svcrpc", false),
            ("svc*ep*rpc", "svceprpc", true),
            ("a**b", "ab", true),
            ("*a*a*", "ba", false),
            ("*a*a*", "aa", true),
            ("ü*é", "ü/é", true),
        ] {
            assert_eq!(Wildcard::new(pattern).unwrap().matches(value), expected, "{pattern} {value}");
        }
    }
}

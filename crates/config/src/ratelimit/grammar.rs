//! What a file of envoyproxy/ratelimit may say. The fields from `algorithm` on are ours.

use super::unit;
use crate::grammar::Presence::{Default, Required};
use crate::grammar::tables::{ABSENT, LIMIT, fields};
use crate::grammar::{Field, Section, Shape};

/// A whole file.
pub(super) static FILE: Section = Section {
    name: "a ratelimit file",
    doc: "One domain and its descriptors.",
    fields: fields! {
        "domain": Shape::Text, Required, "shop",
            "The domain that proxies name. No two files have the same.";
        "descriptors": Shape::List(&Shape::Section(&DESCRIPTOR)), Default("none"), "[{ key: remote_address }]",
            "What the first entry of a descriptor is compared with.";
    },
};

/// One of `descriptors`.
pub(super) static DESCRIPTOR: Section = Section {
    name: "a descriptor",
    doc: "What one entry is compared with, the limit if it is the last one, and what comes next if it is not.",
    fields: fields! {
        "key": Shape::Text, Required, "remote_address",
            "The entry's key.";
        "value": Shape::Text, Default("any value, each counted apart"), "10.0.0.1",
            "The entry's value; `*` in it stands for any text.";
        "rate_limit": Shape::Section(&RATE_LIMIT), Default("no limit"), "{ unit: second, requests_per_unit: 10 }",
            "The limit.";
        "shadow_mode": Shape::Truth, Default("false"), "true",
            "Count, but admit everything.";
        "quota_mode": Shape::Truth, Default("false"), "true",
            "Being over the limit does not refuse the request.";
        "detailed_metric": Shape::Truth, Default("false"), "true",
            "Tell all values apart in statistics.";
        "value_to_metric": Shape::Truth, Default("false"), "true",
            "Tell the values of this entry apart in statistics.";
        "share_threshold": Shape::Truth, Default("false"), "true",
            "All values that fit the `*` are counted together.";
        "metadata": Shape::Map(&Shape::Json), ABSENT, "{ plan: free }",
            "What to tell the proxy along with the limit.";
        "descriptors": Shape::List(&Shape::Section(&DESCRIPTOR)), Default("none"), "[{ key: path }]",
            "What the next entry is compared with.";
    },
};

/// `rate_limit`.
pub(super) static RATE_LIMIT: Section = Section {
    name: "a rate_limit",
    doc: "So many requests per unit of time.",
    fields: fields! {
        "unit": Shape::Word(&unit::WORDS), Default("required, unless unlimited"), "second",
            "The unit of time.";
        "requests_per_unit": Shape::Count(0, u32::MAX as u64), Default("required, unless unlimited"), "100",
            "How many per unit; 0 refuses everything.";
        "unlimited": Shape::Truth, Default("false"), "true",
            "Admit everything.";
        "name": Shape::Text, ABSENT, "reads",
            "What other limits may replace it by.";
        "replaces": Shape::List(&Shape::Section(&REPLACES)), ABSENT, "[{ name: reads }]",
            "Limits that do not count where this one does.";
        "algorithm": Shape::Word(&[
            ("fixed_window", "a count per unit of the clock, as the reference counts"),
            ("sliding_window", "never more in any such time"),
            ("interpolated_window", "about so many in any such time, in little memory"),
            ("sliding_log", "exactly at most so many in any such time"),
            ("token_bucket", "a rate, and a burst that may be spent at once"),
            ("leaky_bucket", "a line let out at a constant rate; the answer is held until its turn"),
        ]), Default("fixed_window"), "token_bucket",
            "How it is counted.";
        "burst": Shape::Count(1, u64::MAX), Default("requests_per_unit"), "20",
            "What a bucket holds; only with `token_bucket` and `leaky_bucket`.";
        "limits": Shape::List(&LIMIT), Default("`requests_per_unit` per `unit`"), "[100/s, 1000/1m]",
            "Limits as in a rule, instead of `unit` and `requests_per_unit`: a request must fit all of them.";
    },
};

/// One of `replaces`.
pub(super) static REPLACES: Section = Section {
    name: "one of `replaces`",
    doc: "A limit that is replaced.",
    fields: fields! {
        "name": Shape::Text, Required, "reads", "Its name.";
    },
};

/// Every section, the outermost first.
const ALL: [&Section; 4] = [&FILE, &DESCRIPTOR, &RATE_LIMIT, &REPLACES];

/// Whether any section has a field of that name.
pub(super) fn is_known(field: &str) -> bool {
    ALL.iter().any(|section| section.field(field).is_some())
}

/// What to do with a field that is not known where it stands. The reference reads past one that belongs elsewhere.
pub(super) fn belongs(here: &'static Section, field: &str) -> Option<String> {
    if field == "<<" {
        return Some("`<<` merges maps: give it one, or a list of them".to_owned());
    }
    let has = |section: &Section| section.field(field).is_some();
    let place = if has(&DESCRIPTOR) && here.name == RATE_LIMIT.name {
        "beside `rate_limit`, not within it"
    } else if has(&DESCRIPTOR) {
        "in one of `descriptors`"
    } else if has(&RATE_LIMIT) {
        "within `rate_limit`"
    } else if has(&FILE) {
        "at the top of the file"
    } else {
        return None;
    };
    Some(format!("`{field}` belongs {place}; here it would have no effect"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::descriptors::{Made, domain};
    use super::*;
    use crate::read::{Context, json};
    use crate::tree;

    /// Without this, a field could be declared and yet do nothing, or be read and yet be refused as unknown.
    #[test]
    fn the_reader_asks_for_exactly_the_declared_fields() {
        let text = "{ domain: a, descriptors: [{ key: a, rate_limit: { replaces: [{ name: b }] } }] }";
        let (tree, _) = tree::parse(text);
        let tree = tree.unwrap();
        let context = Context::new(text, None);
        domain(&context, &tree, &mut Made::default());
        let declared: BTreeSet<_> =
            ALL.iter().flat_map(|section| section.names().map(|name| (section.name, name))).collect();
        assert_eq!(*context.asked.borrow(), declared);
    }

    #[test]
    fn every_example_is_good() {
        for field in ALL.iter().flat_map(|section| section.fields) {
            let (tree, findings) = tree::parse(field.example);
            assert!(!findings.has_errors(), "{}", field.name);
            assert!(json(&Context::new(field.example, None), &tree.unwrap()).is_some(), "{}", field.name);
        }
    }
}

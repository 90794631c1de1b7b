//! Grammar of envoyproxy/ratelimit files. The fields from `algorithm` on are Sluicegate extensions.

use sluicegate_config::document::Presence::{Default, Required};
use sluicegate_config::document::{ABSENT, LIMIT, Section, Shape, fields};

use super::unit;

/// The root of a file.
pub(super) static FILE: Section = Section {
    name: "a ratelimit file",
    doc: "One domain and its descriptors.",
    fields: fields! {
        "domain": Shape::Text, Required, "shop",
            "The domain that proxies send. Unique across all files.";
        "descriptors": Shape::List(&Shape::Section(&DESCRIPTOR)), Default("none"), "[{ key: remote_address }]",
            "Descriptors that match the first entry of a request descriptor.";
    },
};

/// An entry of `descriptors`.
pub(super) static DESCRIPTOR: Section = Section {
    name: "a descriptor",
    doc: "Matches one entry: the limit if it is the last entry, and nested descriptors for the next entry.",
    fields: fields! {
        "key": Shape::Text, Required, "remote_address",
            "Key of the entry.";
        "value": Shape::Text, Default("any value, counted per value"), "10.0.0.1",
            "Value of the entry; `*` matches any text.";
        "rate_limit": Shape::Section(&RATE_LIMIT), Default("no limit"), "{ unit: second, requests_per_unit: 10 }",
            "The limit.";
        "shadow_mode": Shape::Bool, Default("false"), "true",
            "Shadow mode: count, but never refuse.";
        "quota_mode": Shape::Bool, Default("false"), "true",
            "Exceeding the limit does not refuse the request.";
        "detailed_metric": Shape::Bool, Default("false"), "true",
            "Separate statistics for all values.";
        "value_to_metric": Shape::Bool, Default("false"), "true",
            "Separate statistics for each value of this entry.";
        "share_threshold": Shape::Bool, Default("false"), "true",
            "All values that match the wildcard share one counter.";
        "metadata": Shape::Map(&Shape::Json), ABSENT, "{ plan: free }",
            "Metadata that is returned to the proxy.";
        "descriptors": Shape::List(&Shape::Section(&DESCRIPTOR)), Default("none"), "[{ key: path }]",
            "Descriptors that match the next entry.";
    },
};

/// `rate_limit`.
pub(super) static RATE_LIMIT: Section = Section {
    name: "a rate_limit",
    doc: "Number of requests per unit of time.",
    fields: fields! {
        "unit": Shape::Keyword(&unit::WORDS), Default("required, unless unlimited"), "second",
            "The unit of time.";
        "requests_per_unit": Shape::Count(0, u32::MAX as u64), Default("required, unless unlimited"), "100",
            "Requests per unit; 0 refuses all requests.";
        "unlimited": Shape::Bool, Default("false"), "true",
            "No limit.";
        "name": Shape::Text, ABSENT, "reads",
            "Name for `replaces` of other limits.";
        "replaces": Shape::List(&Shape::Section(&REPLACES)), ABSENT, "[{ name: reads }]",
            "Limits that are not applied to requests that match this limit.";
        "algorithm": Shape::Keyword(&[
            ("fixed_window", "a count per unit, aligned to the clock, as in envoyproxy/ratelimit"),
            ("sliding_window", "at most the limit in any window"),
            ("interpolated_window", "an approximate sliding window with little memory"),
            ("sliding_log", "an exact sliding window"),
            ("token_bucket", "a rate with a burst"),
            ("leaky_bucket", "a queue with a constant rate; the response is delayed"),
        ]), Default("fixed_window"), "token_bucket",
            "Counting algorithm.";
        "burst": Shape::Count(1, u64::MAX), Default("requests_per_unit"), "20",
            "Capacity of the bucket; only with `token_bucket` and `leaky_bucket`.";
        "limits": Shape::List(&LIMIT), Default("`requests_per_unit` per `unit`"), "[100/s, 1000/1m]",
            "Limits as in a rule, instead of `unit` and `requests_per_unit`. All of them apply.";
    },
};

/// An entry of `replaces`.
pub(super) static REPLACES: Section = Section {
    name: "an entry of `replaces`",
    doc: "A replaced limit.",
    fields: fields! {
        "name": Shape::Text, Required, "reads", "Name of the limit.";
    },
};

/// All sections, outermost first.
const SECTIONS: [&Section; 4] = [&FILE, &DESCRIPTOR, &RATE_LIMIT, &REPLACES];

/// True if any section has a field with that name.
pub(super) fn is_known(field: &str) -> bool {
    SECTIONS.iter().any(|section| section.field(field).is_some())
}

/// Help text for a field in the wrong section. envoyproxy/ratelimit ignores such fields.
pub(super) fn misplaced_help(here: &'static Section, field: &str) -> Option<String> {
    if field == "<<" {
        return Some("`<<` takes a map or a list of maps".to_owned());
    }
    let has = |section: &Section| section.field(field).is_some();
    let location = if has(&DESCRIPTOR) && here.name == RATE_LIMIT.name {
        "next to `rate_limit`, not inside it"
    } else if has(&DESCRIPTOR) {
        "in an entry of `descriptors`"
    } else if has(&RATE_LIMIT) {
        "inside `rate_limit`"
    } else if has(&FILE) {
        "at the top level of the file"
    } else {
        return None;
    };
    Some(format!("`{field}` belongs {location}; it has no effect here"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sluicegate_config::document::{ParseContext, parse_tree, to_json};

    use super::super::descriptors::{RulesBuilder, domain};
    use super::*;

    /// Guards against a field that is declared but not parsed, or parsed but refused as unknown.
    #[test]
    fn the_parser_reads_exactly_the_declared_fields() {
        let text = "{ domain: a, descriptors: [{ key: a, rate_limit: { replaces: [{ name: b }] } }] }";
        let (tree, _) = parse_tree(text);
        let tree = tree.unwrap();
        let context = ParseContext::new(text, None);
        domain(&context, &tree, &mut RulesBuilder::default());
        let declared: BTreeSet<_> =
            SECTIONS.iter().flat_map(|section| section.names().map(|name| (section.name, name))).collect();
        assert_eq!(*context.requested_fields.borrow(), declared);
    }

    #[test]
    fn every_example_is_valid() {
        for field in SECTIONS.iter().flat_map(|section| section.fields) {
            let (tree, findings) = parse_tree(field.example);
            assert!(!findings.has_errors(), "{}", field.name);
            assert!(to_json(&ParseContext::new(field.example, None), &tree.unwrap()).is_some(), "{}", field.name);
        }
    }
}

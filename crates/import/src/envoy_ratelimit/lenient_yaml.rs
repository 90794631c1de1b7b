//! Lenient YAML for envoyproxy/ratelimit files: accepts empty fields, merge keys (`<<`), and unquoted scalars
//! that look like another type.

use std::borrow::Cow;
use std::collections::HashSet;

use sluicegate_config::document::{FieldValue, MapEntry, Node, Value};

use super::grammar;

/// Field with free-form content.
const FREE_FORM_FIELD: &str = "metadata";

/// Returns the tree with merge keys resolved and empty known fields removed.
pub(super) fn normalize(node: Node<'_>) -> Node<'_> {
    normalize_node(node, false)
}

fn normalize_node(node: Node<'_>, free_form: bool) -> Node<'_> {
    let value = match node.value {
        Value::List(items) => Value::List(items.into_iter().map(|item| normalize_node(item, free_form)).collect()),
        Value::Map(entries) => {
            let mut entries = merge_maps(entries);
            entries.retain(|entry| free_form || entry.value.value != Value::Null || !grammar::is_known(&entry.key));
            let relaxed = entries.into_iter().map(|entry| {
                let free = free_form || entry.key == FREE_FORM_FIELD;
                MapEntry { value: normalize_node(entry.value, free), ..entry }
            });
            Value::Map(relaxed.collect())
        }
        other => other,
    };
    Node { span: node.span, value }
}

/// Fields of a map followed by those of merged maps. The map's own fields take precedence, then those merged
/// first.
fn merge_maps(entries: Vec<MapEntry<'_>>) -> Vec<MapEntry<'_>> {
    if !entries.iter().any(|entry| entry.key == "<<" && is_mergeable(&entry.value)) {
        return entries;
    }
    let (merging, own): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|entry| entry.key == "<<" && is_mergeable(&entry.value));
    let mut given: HashSet<Cow<'_, str>> = own.iter().map(|entry| entry.key.clone()).collect();
    let mut all = own;
    let maps = merging.into_iter().flat_map(|entry| match entry.value.value {
        Value::List(maps) => maps,
        _ => vec![entry.value],
    });
    for map in maps {
        let Value::Map(entries) = map.value else { continue };
        all.extend(merge_maps(entries).into_iter().filter(|entry| given.insert(entry.key.clone())));
    }
    all
}

fn is_mergeable(node: &Node<'_>) -> bool {
    match &node.value {
        Value::Map(_) => true,
        Value::List(items) => items.iter().all(|item| matches!(item.value, Value::Map(_))),
        _ => false,
    }
}

/// Parses text. A number or boolean is the text as written: `value: 404` equals `value: "404"`.
pub(super) fn text<'c>(item: &FieldValue<'c>) -> Option<&'c str> {
    match &item.node.value {
        Value::Int(_) | Value::Float(_) | Value::Bool(_) => item.context.text.get(item.span().start..item.span().end),
        _ => item.text(),
    }
}

/// Parses a boolean, including the YAML 1.1 forms.
pub(super) fn boolean(item: &FieldValue<'_>) -> Option<bool> {
    match &item.node.value {
        Value::Text(text) if ["y", "yes", "on"].iter().any(|word| word.eq_ignore_ascii_case(text)) => Some(true),
        Value::Text(text) if ["n", "no", "off"].iter().any(|word| word.eq_ignore_ascii_case(text)) => Some(false),
        _ => item.boolean(),
    }
}

//! What the reference's YAML reader lets pass and ours does not: fields that are there but empty, maps merged
//! with `<<`, and texts that look like something else.

use std::borrow::Cow;
use std::collections::HashSet;

use super::grammar;
use crate::read::Item;
use crate::tree::{Entry, Node, Value};

/// The field below which everything is the user's own.
const FREE: &str = "metadata";

/// The same tree with maps merged, and without the known fields that have no value.
pub(super) fn relaxed(node: Node<'_>) -> Node<'_> {
    relaxed_within(node, false)
}

fn relaxed_within(node: Node<'_>, free: bool) -> Node<'_> {
    let value = match node.value {
        Value::List(items) => Value::List(items.into_iter().map(|item| relaxed_within(item, free)).collect()),
        Value::Map(entries) => {
            let mut entries = merged(entries);
            entries.retain(|entry| free || entry.value.value != Value::Null || !grammar::is_known(&entry.key));
            let relaxed = entries.into_iter().map(|entry| {
                let free = free || entry.key == FREE;
                Entry { value: relaxed_within(entry.value, free), ..entry }
            });
            Value::Map(relaxed.collect())
        }
        other => other,
    };
    Node { span: node.span, value }
}

/// The fields of a map and, after them, those of the maps it is merged with. What a map says itself counts, and
/// then what it is merged with first.
fn merged(entries: Vec<Entry<'_>>) -> Vec<Entry<'_>> {
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
        all.extend(merged(entries).into_iter().filter(|entry| given.insert(entry.key.clone())));
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

/// A text. A number or truth is the text it is written as: `value: 404` is as good as `value: "404"`.
pub(super) fn text<'c>(item: &Item<'c>) -> Option<&'c str> {
    match &item.node.value {
        Value::Int(_) | Value::Float(_) | Value::Bool(_) => item.context.text.get(item.span().start..item.span().end),
        _ => item.text(),
    }
}

/// A truth, also as the older YAML writes it.
pub(super) fn truth(item: &Item<'_>) -> Option<bool> {
    match &item.node.value {
        Value::Text(text) if ["y", "yes", "on"].iter().any(|word| word.eq_ignore_ascii_case(text)) => Some(true),
        Value::Text(text) if ["n", "no", "off"].iter().any(|word| word.eq_ignore_ascii_case(text)) => Some(false),
        _ => item.truth(),
    }
}

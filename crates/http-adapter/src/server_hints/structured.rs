//! Structured fields (RFC 9651) of responses: lists and dictionaries of items with parameters.
//!
//! As the standard requires, a field with a syntax error is ignored entirely.

use sfv::{BareItem, Dictionary, Item, List, ListEntry, Parser};

/// Parses the items of a list; empty on a syntax error. Inner lists are skipped: rate limit headers have none.
pub(super) fn list(field: &str) -> Vec<Item> {
    let entries: List = Parser::new(field).parse().unwrap_or_default();
    entries.into_iter().filter_map(item).collect()
}

/// Parses a dictionary and returns the values of its keys, or `None` for a key that it does not have.
pub(super) fn dictionary(field: &str) -> impl Fn(&str) -> Option<String> {
    let entries: Dictionary = Parser::new(field).parse().unwrap_or_default();
    move |key| entries.get(key).cloned().and_then(item).map(|item| text(&item.bare_item))
}

/// Returns a parameter of an item; the last one wins if the name is repeated.
pub(super) fn param(item: &Item, name: &str) -> Option<String> {
    item.params.get(name).map(text)
}

/// A string, token or number as text; empty for other types.
pub(super) fn text(item: &BareItem) -> String {
    match item {
        BareItem::String(text) => text.as_str().to_owned(),
        BareItem::Token(token) => token.as_str().to_owned(),
        BareItem::Integer(number) => number.to_string(),
        BareItem::Decimal(number) => number.to_string(),
        _ => String::new(),
    }
}

fn item(entry: ListEntry) -> Option<Item> {
    match entry {
        ListEntry::Item(item) => Some(item),
        ListEntry::InnerList(_) => None,
    }
}

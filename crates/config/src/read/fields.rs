//! A map with known fields.

use super::item::Item;
use super::{Context, nearest};
use crate::diagnostic::Finding;
use crate::grammar::{Presence, Section, listed};
use crate::source::Span;
use crate::tree::{Entry, Node, Value};

/// How many unknown fields of one map are reported. Each costs a search for the nearest known word.
const MOST_UNKNOWN: usize = 1_000;

/// A map, opened as a section of the grammar.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'c> {
    pub(crate) context: &'c Context<'c>,
    pub(crate) section: &'static Section,
    entries: &'c [Entry<'c>],
    span: Span,
}

impl<'c> Fields<'c> {
    /// Opens a map, and reports what it should not have and what it lacks.
    pub(crate) fn open(context: &'c Context<'c>, node: &'c Node<'c>, section: &'static Section) -> Option<Self> {
        Self::open_hinted(context, node, section, |_| None)
    }

    /// The same, with a better remedy for some unknown fields.
    pub(crate) fn open_hinted(
        context: &'c Context<'c>,
        node: &'c Node<'c>,
        section: &'static Section,
        hint: impl Fn(&str) -> Option<String>,
    ) -> Option<Self> {
        let Value::Map(entries) = &node.value else {
            let wanted = listed(section.names());
            context.report(
                Finding::error(node.span, format!("{} is a map, not {}", section.name, node.described()))
                    .label("a map belongs here")
                    .help(format!("its fields are {wanted}")),
            );
            return None;
        };
        let fields = Self { context, section, entries, span: node.span };
        fields.report_unknown(hint);
        fields.report_missing();
        Some(fields)
    }

    /// Whether the field is given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.entry(name).is_some()
    }

    /// Whether an unknown field was probably meant to be this one.
    pub(crate) fn has_slip_of(&self, name: &str) -> bool {
        let unknown = self.entries.iter().filter(|entry| self.section.field(&entry.key).is_none());
        unknown.take(MOST_UNKNOWN).any(|entry| nearest(&entry.key, self.section.names()) == Some(name))
    }

    /// Whether nothing at all is given.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Where the field's name stands; the section's beginning if it is not given.
    pub(crate) fn key_span(&self, name: &str) -> Span {
        self.entry(name).map_or_else(|| self.head(), |entry| entry.key_span)
    }

    /// Where the field's value stands; the section's beginning if it is not given.
    pub(crate) fn value_span(&self, name: &str) -> Span {
        self.entry(name).map_or_else(|| self.head(), |entry| entry.value.span)
    }

    /// The field's value. One that is there but empty is reported.
    pub(crate) fn get(&self, name: &'static str) -> Option<Item<'c>> {
        #[cfg(test)]
        self.context.asked.borrow_mut().insert((self.section.name, name));
        let field = self.section.field(name)?;
        let entry = self.entry(name)?;
        if entry.value.value == Value::Null {
            self.context.report(
                Finding::error(entry.key_span, format!("`{name}` has no value"))
                    .label("nothing follows")
                    .help(format!("give it {}, or leave `{name}` out", field.shape.wanted())),
            );
            return None;
        }
        Some(Item { context: self.context, node: &entry.value, name, example: field.example, shape: &field.shape })
    }

    /// A field that is itself a section.
    pub(crate) fn section(&self, name: &'static str) -> Option<Fields<'c>> {
        self.get(name)?.section()
    }

    /// A whole number.
    pub(crate) fn count(&self, name: &'static str) -> Option<u64> {
        self.get(name)?.count()
    }

    /// A whole number that the grammar bounds to 32 bits.
    pub(crate) fn count32(&self, name: &'static str) -> Option<u32> {
        self.count(name).and_then(|count| u32::try_from(count).ok())
    }

    /// One of the words the grammar knows for the field.
    pub(crate) fn word(&self, name: &'static str) -> Option<&'static str> {
        self.get(name)?.word()
    }

    /// What the section is about, in as few bytes as possible: its first key.
    pub(crate) fn head(&self) -> Span {
        self.entries.first().map_or(self.span, |entry| entry.key_span)
    }

    fn entry(&self, name: &str) -> Option<&'c Entry<'c>> {
        self.entries.iter().find(|entry| entry.key == name)
    }

    fn report_unknown(&self, hint: impl Fn(&str) -> Option<String>) {
        let unknown = self.entries.iter().filter(|entry| self.section.field(&entry.key).is_none());
        for entry in unknown.take(MOST_UNKNOWN) {
            let known = || format!("known are {}", listed(self.section.names()));
            let merge = || (entry.key == "<<").then(|| "maps cannot be merged: write the fields out".to_owned());
            let near = || nearest(&entry.key, self.section.names()).map(|word| format!("did you mean `{word}`?"));
            self.context.report(
                Finding::error(entry.key_span, format!("unknown field `{}` in {}", entry.key, self.section.name))
                    .label("not known here")
                    .help(hint(&entry.key).or_else(merge).or_else(near).unwrap_or_else(known)),
            );
        }
    }

    fn report_missing(&self) {
        for field in self.section.fields {
            if field.presence == Presence::Required && !self.has(field.name) && !self.has_slip_of(field.name) {
                self.context.report(
                    Finding::error(self.head(), format!("{} needs `{}`", self.section.name, field.name))
                        .label("not given here")
                        .help(format!("add `{}: {}`", field.name, field.example)),
                );
            }
        }
    }
}

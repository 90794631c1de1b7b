//! A YAML map opened as a declared section.

use sluicegate_engine::spelling::nearest;

use super::ParseContext;
use super::value::FieldValue;
use crate::diagnostic::DiagnosticBuilder;
use crate::grammar::{Presence, Section, backticked_list};
use crate::source::Span;
use crate::tree::{MapEntry, Node, Value};

/// Maximum number of unknown fields reported per map. Each needs a search for the nearest known word.
const MAX_REPORTED_UNKNOWN: usize = 1_000;

/// A map with the fields of a grammar section.
#[derive(Clone, Copy, Debug)]
pub struct FieldMap<'c> {
    /// Shared state of the parsers.
    pub context: &'c ParseContext<'c>,
    pub(crate) section: &'static Section,
    entries: &'c [MapEntry<'c>],
    span: Span,
}

impl<'c> FieldMap<'c> {
    /// Opens a map; reports unknown and missing fields.
    pub(crate) fn open(context: &'c ParseContext<'c>, node: &'c Node<'c>, section: &'static Section) -> Option<Self> {
        Self::open_hinted(context, node, section, |_| None)
    }

    /// Opens a map, with custom help for some unknown fields.
    pub fn open_hinted(
        context: &'c ParseContext<'c>,
        node: &'c Node<'c>,
        section: &'static Section,
        hint: impl Fn(&str) -> Option<String>,
    ) -> Option<Self> {
        let Value::Map(entries) = &node.value else {
            let known = backticked_list(section.names());
            context.report(
                DiagnosticBuilder::error(node.span, format!("{} must be a map, not {}", section.name, node.describe()))
                    .label("not a map")
                    .help(format!("known fields are {known}")),
            );
            return None;
        };
        let fields = Self { context, section, entries, span: node.span };
        fields.report_unknown(hint);
        fields.report_missing();
        Some(fields)
    }

    /// True if the field is present.
    pub fn has(&self, name: &str) -> bool {
        self.entry(name).is_some()
    }

    /// True if an unknown field is probably a misspelling of this one.
    pub fn has_typo_of(&self, name: &str) -> bool {
        let unknown = self.entries.iter().filter(|entry| self.section.field(&entry.key).is_none());
        unknown.take(MAX_REPORTED_UNKNOWN).any(|entry| nearest(&entry.key, self.section.names()) == Some(name))
    }

    /// True if the map has no fields.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Span of the field's name; the start of the section if the field is absent.
    pub fn key_span(&self, name: &str) -> Span {
        self.entry(name).map_or_else(|| self.first_key_span(), |entry| entry.key_span)
    }

    /// Span of the field's value; the start of the section if the field is absent.
    pub fn value_span(&self, name: &str) -> Span {
        self.entry(name).map_or_else(|| self.first_key_span(), |entry| entry.value.span)
    }

    /// Returns the field's value. An empty value is reported.
    pub fn get(&self, name: &'static str) -> Option<FieldValue<'c>> {
        #[cfg(any(test, feature = "test-support"))]
        self.context.requested_fields.borrow_mut().insert((self.section.name, name));
        let field = self.section.field(name)?;
        let entry = self.entry(name)?;
        if entry.value.value == Value::Null {
            self.context.report(
                DiagnosticBuilder::error(entry.key_span, format!("`{name}` has no value"))
                    .label("empty")
                    .help(format!("add {}, or remove `{name}`", field.shape.expected())),
            );
            return None;
        }
        Some(FieldValue {
            context: self.context,
            node: &entry.value,
            name,
            example: field.example,
            shape: &field.shape,
        })
    }

    /// Opens a field that is a section.
    pub(crate) fn section(&self, name: &'static str) -> Option<FieldMap<'c>> {
        self.get(name)?.section()
    }

    /// Parses an integer.
    pub fn count(&self, name: &'static str) -> Option<u64> {
        self.get(name)?.count()
    }

    /// Parses an integer that the grammar limits to 32 bits.
    pub(crate) fn count32(&self, name: &'static str) -> Option<u32> {
        self.count(name).and_then(|count| u32::try_from(count).ok())
    }

    /// Parses a string.
    pub fn text(&self, name: &'static str) -> Option<String> {
        self.get(name)?.text().map(str::to_owned)
    }

    /// Parses one of the field's keywords.
    pub fn keyword(&self, name: &'static str) -> Option<&'static str> {
        self.get(name)?.keyword()
    }

    /// A short span that identifies the section: its first key.
    pub fn first_key_span(&self) -> Span {
        self.entries.first().map_or(self.span, |entry| entry.key_span)
    }

    fn entry(&self, name: &str) -> Option<&'c MapEntry<'c>> {
        self.entries.iter().find(|entry| entry.key == name)
    }

    fn report_unknown(&self, hint: impl Fn(&str) -> Option<String>) {
        let unknown = self.entries.iter().filter(|entry| self.section.field(&entry.key).is_none());
        for entry in unknown.take(MAX_REPORTED_UNKNOWN) {
            let known = || format!("known fields are {}", backticked_list(self.section.names()));
            let merge = || (entry.key == "<<").then(|| "merge keys are not supported: write the fields out".to_owned());
            let near = || nearest(&entry.key, self.section.names()).map(|word| format!("did you mean `{word}`?"));
            self.context.report(
                DiagnosticBuilder::error(entry.key_span, format!("unknown field `{}`", entry.key))
                    .label(format!("not a field of {}", self.section.name))
                    .help(hint(&entry.key).or_else(merge).or_else(near).unwrap_or_else(known)),
            );
        }
    }

    fn report_missing(&self) {
        for field in self.section.fields {
            if field.presence == Presence::Required && !self.has(field.name) && !self.has_typo_of(field.name) {
                self.context.report(
                    DiagnosticBuilder::error(
                        self.first_key_span(),
                        format!("missing field `{}` in {}", field.name, self.section.name),
                    )
                    .label("required field is missing")
                    .help(format!("add `{}: {}`", field.name, field.example)),
                );
            }
        }
    }
}

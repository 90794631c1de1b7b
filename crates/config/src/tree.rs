//! YAML tree with a span for every key and value.
//!
//! Built from parser events instead of serde, because all errors are reported with their spans; serde stops
//! at the first. Depth, number of nodes and alias expansion are limited, to bound memory use.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError};

use crate::diagnostic::{DiagnosticBuilder, DiagnosticSink, quoted};
use crate::source::Span;

/// Maximum nesting of lists and maps.
const MAX_DEPTH: usize = 64;
/// Maximum number of values in a file.
const MAX_NODES: usize = 2_000_000;
/// Maximum number of values added by aliases.
const MAX_ALIASED_NODES: usize = 100_000;

/// A value and its span.
#[derive(Clone, Debug, PartialEq)]
pub struct Node<'t> {
    /// Location in the file.
    pub span: Span,
    /// The value.
    pub value: Value<'t>,
}

/// A YAML value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'t> {
    /// No value, or `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// A string.
    Text(Cow<'t, str>),
    /// A list.
    List(Vec<Node<'t>>),
    /// A map in file order, without duplicate keys.
    Map(Vec<MapEntry<'t>>),
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct MapEntry<'t> {
    /// The key.
    pub key: Cow<'t, str>,
    /// Location of the key.
    pub key_span: Span,
    /// The value.
    pub value: Node<'t>,
}

impl Node<'_> {
    /// Describes the value for messages: `the number 5`, `'text'`, `a list`.
    pub(crate) fn describe(&self) -> String {
        match &self.value {
            Value::Null => "an empty value".to_owned(),
            Value::Bool(value) => format!("`{value}`"),
            Value::Int(value) => format!("the number {value}"),
            Value::Float(value) => format!("the number {value:?}"),
            Value::Text(text) => quoted(text),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }

    /// Number of nodes in a copy of the value.
    fn weight(&self) -> usize {
        1 + match &self.value {
            Value::Text(text) => text.len() / 64,
            Value::List(items) => items.iter().map(Node::weight).sum(),
            Value::Map(entries) => entries.iter().map(|entry| 1 + entry.value.weight()).sum(),
            _ => 0,
        }
    }
}

/// Parses a text. Returns no tree if the text has no value or a fatal syntax error, which is reported.
pub fn parse(text: &str) -> (Option<Node<'_>>, DiagnosticSink) {
    let mut builder = TreeBuilder::default();
    let options = granit_parser::options! {
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
        emit_comments: false,
    };
    for event in Parser::new_from_str_with_options(text, options) {
        let step = match event {
            Ok((event, span)) => {
                let range = span.byte_range().unwrap_or_default();
                builder.handle_event(event, Span::new(range.start, range.end))
            }
            Err(error) => Err(syntax(text, &error).into()),
        };
        if let Err(finding) = step {
            // After a syntax error, the rest of the file and the open collections are unreliable.
            builder.findings.push(*finding);
            return (None, builder.findings);
        }
    }
    (builder.root, builder.findings)
}

#[derive(Default)]
struct TreeBuilder<'t> {
    root: Option<Node<'t>>,
    open: Vec<OpenCollection<'t>>,
    anchors: HashMap<usize, Node<'t>>,
    documents: usize,
    nodes: usize,
    aliased: usize,
    findings: DiagnosticSink,
}

/// An error that ends parsing.
type FatalError = Box<DiagnosticBuilder>;

/// An unfinished list or map.
struct OpenCollection<'t> {
    span: Span,
    anchor: usize,
    content: CollectionContent<'t>,
}

enum CollectionContent<'t> {
    List(Vec<Node<'t>>),
    Map {
        entries: Vec<MapEntry<'t>>,
        /// Key whose value comes next.
        key: Option<(Cow<'t, str>, Span)>,
    },
}

impl<'t> TreeBuilder<'t> {
    fn handle_event(&mut self, event: Event<'t>, span: Span) -> Result<(), FatalError> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(DiagnosticBuilder::error(span, "a rule file contains only one document")
                        .label("a second document starts here")
                        .help("remove the `---`, or move the second document to another file")
                        .into());
                }
            }
            Event::Alias(id) => return self.resolve_alias(id, span),
            Event::Scalar(text, style, anchor, tag) => {
                self.count_node(span)?;
                self.refuse_tag(tag.is_some(), span);
                if let Some(OpenCollection { content: CollectionContent::Map { key: key @ None, .. }, .. }) =
                    self.open.last_mut()
                {
                    *key = Some((text, span));
                    return Ok(());
                }
                let value = if style == ScalarStyle::Plain { plain_scalar(text) } else { Value::Text(text) };
                self.insert(Node { span, value }, anchor)?;
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.count_node(span)?;
                self.refuse_tag(tag.is_some(), span);
                self.open_collection(OpenCollection { span, anchor, content: CollectionContent::List(Vec::new()) })?;
            }
            Event::MappingStart(_, anchor, tag) => {
                self.count_node(span)?;
                self.refuse_tag(tag.is_some(), span);
                self.open_collection(OpenCollection {
                    span,
                    anchor,
                    content: CollectionContent::Map { entries: Vec::new(), key: None },
                })?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(OpenCollection { span: start, anchor, content: inside }) = self.open.pop() {
                    let (value, end) = self.close_collection(inside, span);
                    self.insert(Node { span: Span::new(start.start, end.max(start.end)), value }, anchor)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn open_collection(&mut self, open: OpenCollection<'t>) -> Result<(), FatalError> {
        if let Some(OpenCollection { content: CollectionContent::Map { key: None, .. }, .. }) = self.open.last() {
            return Err(DiagnosticBuilder::error(open.span, "a key must be a string")
                .label("a list or map cannot be a key")
                .help("quote text that contains `{` or `[`")
                .into());
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(too_deep(open.span).into());
        }
        self.open.push(open);
        Ok(())
    }

    fn close_collection(&mut self, inside: CollectionContent<'t>, end: Span) -> (Value<'t>, usize) {
        match inside {
            CollectionContent::List(items) => {
                let last = items.last().map_or(0, |node| node.span.end);
                (Value::List(items), collection_end(end, last))
            }
            CollectionContent::Map { entries, .. } => {
                let last = entries.last().map_or(0, |entry| entry.value.span.end.max(entry.key_span.end));
                (Value::Map(self.remove_duplicate_keys(entries)), collection_end(end, last))
            }
        }
    }

    /// Reports duplicate keys and keeps the first of each.
    fn remove_duplicate_keys(&mut self, mut entries: Vec<MapEntry<'t>>) -> Vec<MapEntry<'t>> {
        let mut seen: HashMap<&str, Span> = HashMap::with_capacity(entries.len());
        let mut duplicates = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let Some(first) = seen.insert(&entry.key, entry.key_span) else { continue };
            seen.insert(&entry.key, first);
            duplicates.push(index);
            self.findings.push(
                DiagnosticBuilder::error(entry.key_span, format!("duplicate field `{}`", entry.key))
                    .label("duplicate")
                    .with_related(first, "first")
                    .help("remove one of them"),
            );
        }
        if !duplicates.is_empty() {
            let mut duplicates = duplicates.into_iter().peekable();
            let mut index = 0;
            entries.retain(|_| {
                let drop = duplicates.next_if_eq(&index).is_some();
                index += 1;
                !drop
            });
        }
        entries
    }

    fn resolve_alias(&mut self, id: usize, span: Span) -> Result<(), FatalError> {
        let Some(node) = self.anchors.get(&id) else {
            return Err(DiagnosticBuilder::error(span, "the alias is part of the value it refers to")
                .label("recursive alias")
                .help("write the value out")
                .into());
        };
        self.aliased += node.weight();
        if self.aliased > MAX_ALIASED_NODES {
            return Err(DiagnosticBuilder::error(span, "aliases add too many values")
                .label(format!("more than {MAX_ALIASED_NODES} values with this alias"))
                .help("write the values out, or replace many rules by a rule with a `key`")
                .into());
        }
        let node = node.clone();
        if let Some(OpenCollection { content: CollectionContent::Map { key: key @ None, .. }, .. }) =
            self.open.last_mut()
        {
            let Value::Text(text) = node.value else {
                return Err(DiagnosticBuilder::error(span, "a key must be a string")
                    .label("the alias refers to a list, map or number")
                    .help("write the key out")
                    .into());
            };
            *key = Some((text, span));
            return Ok(());
        }
        self.insert(node, 0)
    }

    fn insert(&mut self, node: Node<'t>, anchor: usize) -> Result<(), FatalError> {
        if anchor != 0 {
            // An anchor costs as much as an alias to it, so that nested anchors are limited too.
            self.aliased += node.weight();
            if self.aliased > MAX_ALIASED_NODES {
                return Err(DiagnosticBuilder::error(node.span, "anchors contain too many values")
                    .label(format!("more than {MAX_ALIASED_NODES} values with this anchor"))
                    .help("remove unused anchors (`&name`)")
                    .into());
            }
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut().map(|open| &mut open.content) {
            None => self.root = Some(node),
            Some(CollectionContent::List(items)) => items.push(node),
            Some(CollectionContent::Map { entries, key }) => {
                if let Some((key, key_span)) = key.take() {
                    entries.push(MapEntry { key, key_span, value: node });
                }
            }
        }
        Ok(())
    }

    fn count_node(&mut self, span: Span) -> Result<(), FatalError> {
        self.nodes += 1;
        if self.nodes <= MAX_NODES {
            return Ok(());
        }
        Err(DiagnosticBuilder::error(span, format!("the file has more than {MAX_NODES} values"))
            .label("one too many")
            .help("replace rules that differ only in one value by a rule with a `key`")
            .into())
    }

    fn refuse_tag(&mut self, tagged: bool, span: Span) {
        if tagged {
            self.findings.push(
                DiagnosticBuilder::error(span, "YAML tags such as `!!str` are not supported")
                    .label("this value has a tag")
                    .help("remove the tag; quote a number to make it a string"),
            );
        }
    }
}

/// End of a list or map: its bracket, or the end of its last element.
fn collection_end(end: Span, last: usize) -> usize {
    if end.end == end.start + 1 { end.end } else { last }
}

/// Interprets an unquoted scalar (YAML 1.2, core schema).
fn plain_scalar(text: Cow<'_, str>) -> Value<'_> {
    match &*text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        ".nan" | ".NaN" | ".NAN" => return Value::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Value::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Value::Float(f64::NEG_INFINITY),
        _ => {}
    }
    let radix = [("0x", 16), ("0o", 8)]
        .into_iter()
        .find_map(|(prefix, radix)| Some((text.strip_prefix(prefix)?, radix)))
        .filter(|(digits, _)| digits.starts_with(|c: char| c.is_ascii_alphanumeric()));
    if let Some(value) = radix.and_then(|(digits, radix)| i128::from_str_radix(digits, radix).ok()) {
        return Value::Int(value);
    }
    let numeric = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'))
        && text.bytes().any(|b| b.is_ascii_digit())
        && !text.starts_with(['e', 'E']);
    if !numeric {
        return Value::Text(text);
    }
    if let Ok(value) = text.parse::<i128>() {
        return Value::Int(value);
    }
    match text.parse::<f64>() {
        Ok(value) => Value::Float(value),
        Err(_) => Value::Text(text),
    }
}

fn too_deep(span: Span) -> DiagnosticBuilder {
    DiagnosticBuilder::error(span, format!("nested deeper than {MAX_DEPTH} levels"))
        .label("one level too many")
        .help("check for a missing closing bracket above this line")
}

fn syntax(text: &str, error: &ScanError) -> DiagnosticBuilder {
    let marker = error.marker();
    let at = marker
        .byte_offset()
        .or_else(|| text.char_indices().nth(marker.index()).map(|(at, _)| at))
        .unwrap_or(text.len())
        .min(text.len());
    let length = text[at..].chars().next().map_or(0, char::len_utf8);
    let span = Span::new(at, at + length);
    let (message, help) = match error.kind() {
        ErrorKind::RecursionLimitExceeded => return too_deep(span),
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabInPlainScalar
        | ErrorKind::TabAtBlockScalarStart => {
            ("tabs are not allowed for indentation in YAML".to_owned(), "indent with spaces".to_owned())
        }
        ErrorKind::UnclosedFlowCollection { open } => {
            (format!("the file ends inside `{open}`"), format!("close the `{open}`; the file may be truncated"))
        }
        ErrorKind::UnexpectedEofFlowMapping | ErrorKind::UnexpectedEofImplicitFlowMapping => {
            ("the file ends inside `{`".to_owned(), "add the closing `}`; the file may be truncated".to_owned())
        }
        ErrorKind::UnexpectedEofFlowSequence => {
            ("the file ends inside `[`".to_owned(), "add the closing `]`; the file may be truncated".to_owned())
        }
        ErrorKind::UnclosedQuotedScalar => {
            ("unterminated quoted text".to_owned(), "add the closing quote; the file may be truncated".to_owned())
        }
        ErrorKind::InvalidQuotedScalarIndent => (
            "unterminated quoted text, or a continuation line with too little indentation".to_owned(),
            "add the closing quote, or indent the line further".to_owned(),
        ),
        ErrorKind::UnexpectedEof | ErrorKind::UnexpectedEofBlockMapping | ErrorKind::UnexpectedEofBlockSequence => {
            ("unexpected end of the file".to_owned(), "check the end of the file; it may be truncated".to_owned())
        }
        ErrorKind::UnknownAnchor => (
            "unknown alias".to_owned(),
            "quote text that starts with `*`; an alias needs an anchor `&name` before it".to_owned(),
        ),
        ErrorKind::SimpleKeyExpected => {
            ("a key without `:` and value".to_owned(), "write `key: value`; the file may be truncated".to_owned())
        }
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement => (
            "unexpected `:`".to_owned(),
            "quote text that contains `: `; indent a key like the other keys of its map".to_owned(),
        ),
        ErrorKind::InvalidIndentation | ErrorKind::ExpectedBlockMappingKey | ErrorKind::ExpectedBlockSequenceEntry => (
            "the indentation does not match any line above".to_owned(),
            "indent the line like the other entries of its list or map, with spaces".to_owned(),
        ),
        kind => (format!("invalid YAML: {kind}"), "quote text that contains special characters".to_owned()),
    };
    DiagnosticBuilder::error(span, message).label("detected here").help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value<'_> {
        parse(text).0.unwrap().value
    }

    #[test]
    fn plain_scalars_follow_the_core_schema() {
        assert_eq!(value("5"), Value::Int(5));
        assert_eq!(value("-1"), Value::Int(-1));
        assert_eq!(value("0x10"), Value::Int(16));
        assert_eq!(value("1e308"), Value::Float(1e308));
        assert_eq!(value("'5'"), Value::Text("5".into()));
        assert_eq!(value("yes"), Value::Text("yes".into()));
        assert_eq!(value("1_000"), Value::Text("1_000".into()));
        assert_eq!(value("300/1m"), Value::Text("300/1m".into()));
        assert_eq!(value("true"), Value::Bool(true));
        assert_eq!(value("~"), Value::Null);
    }

    #[test]
    fn keys_and_values_have_spans() {
        let text = "a: { bé: [1, 'x'] }\nc: d\n";
        let Value::Map(entries) = value(text) else { panic!() };
        let at = |span: Span| &text[span.start..span.end];
        assert_eq!(at(entries[0].key_span), "a");
        assert_eq!(at(entries[0].value.span), "{ bé: [1, 'x'] }");
        assert_eq!(at(entries[1].value.span), "d");
        let Value::Map(inner) = &entries[0].value.value else { panic!() };
        assert_eq!(at(inner[0].key_span), "bé");
        let Value::List(items) = &inner[0].value.value else { panic!() };
        assert_eq!(at(items[1].span), "'x'");
    }

    #[test]
    fn aliases_are_resolved_and_bombs_refused() {
        let Value::List(items) = value("[&a [1], *a]") else { panic!() };
        assert_eq!(items[0], items[1]);
        let mut bomb = String::from("- &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..30 {
            let alias = format!("*a{}", level - 1);
            bomb.push_str(&format!("- &a{level} [{}]\n", vec![alias; 10].join(", ")));
        }
        let (tree, findings) = parse(&bomb);
        assert!(tree.is_none());
        assert!(findings.has_errors());
        assert!(parse("&a [*a]").0.is_none());
    }

    #[test]
    fn deep_nesting_is_refused() {
        for text in ["[".repeat(10_000), "{a: ".repeat(10_000), "- ".repeat(10_000)] {
            let (tree, findings) = parse(&text);
            assert!(tree.is_none());
            assert!(findings.has_errors());
        }
    }
}

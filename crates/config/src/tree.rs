//! YAML as a tree in which every key and every value knows its place in the file.
//!
//! The tree is built from the parser's events and not through serde, because a rule file's reader
//! wants all faults at once and the place of each; serde stops at the first. What could be used to
//! exhaust memory is bounded here: depth, number of nodes, and what aliases may multiply.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError};

use crate::diagnostic::{Finding, Findings, quoted};
use crate::source::Span;

/// How deep lists and maps may be nested.
const DEEPEST: usize = 64;
/// How many values a file may hold.
const MOST_NODES: usize = 2_000_000;
/// How many values aliases may add to those that are written out.
const MOST_ALIASED: usize = 100_000;

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node<'t> {
    pub(crate) span: Span,
    pub(crate) value: Value<'t>,
}

/// What a file holds at one place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'t> {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Cow<'t, str>),
    List(Vec<Node<'t>>),
    Map(Vec<Entry<'t>>),
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry<'t> {
    pub(crate) key: Cow<'t, str>,
    pub(crate) key_span: Span,
    pub(crate) value: Node<'t>,
}

impl Node<'_> {
    /// The value as a message names it: `the number 5`, `a list`.
    pub(crate) fn described(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Bool(value) => format!("`{value}`"),
            Value::Int(value) => format!("the number {value}"),
            Value::Float(value) => format!("the number {value:?}"),
            Value::Text(text) => format!("the text {}", quoted(text)),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }

    /// How many nodes a copy of it costs.
    fn weight(&self) -> usize {
        1 + match &self.value {
            Value::Text(text) => text.len() / 64,
            Value::List(items) => items.iter().map(Node::weight).sum(),
            Value::Map(entries) => entries.iter().map(|entry| 1 + entry.value.weight()).sum(),
            _ => 0,
        }
    }
}

/// Reads a text. The tree is missing if the text has no value at all, or cannot be followed to its
/// end; findings say why.
pub(crate) fn parse(text: &str) -> (Option<Node<'_>>, Findings) {
    let mut builder = Builder::default();
    let options = granit_parser::options! {
        flow_nesting_limit: DEEPEST,
        block_nesting_limit: DEEPEST,
        emit_comments: false,
    };
    for event in Parser::new_from_str_with_options(text, options) {
        let step = match event {
            Ok((event, span)) => {
                let range = span.byte_range().unwrap_or_default();
                builder.take(event, Span::new(range.start, range.end))
            }
            Err(error) => Err(syntax(text, &error).into()),
        };
        if let Err(finding) = step {
            // What follows a broken place is guesswork, and so is what stands open above it.
            builder.findings.push(*finding);
            return (None, builder.findings);
        }
    }
    (builder.root, builder.findings)
}

#[derive(Default)]
struct Builder<'t> {
    root: Option<Node<'t>>,
    open: Vec<Open<'t>>,
    anchors: HashMap<usize, Node<'t>>,
    documents: usize,
    nodes: usize,
    aliased: usize,
    findings: Findings,
}

/// Why a text cannot be followed further.
type Refusal = Box<Finding>;

/// A list or map whose end has not come yet.
struct Open<'t> {
    span: Span,
    anchor: usize,
    inside: Inside<'t>,
}

enum Inside<'t> {
    List(Vec<Node<'t>>),
    Map {
        entries: Vec<Entry<'t>>,
        /// The key whose value comes next.
        key: Option<(Cow<'t, str>, Span)>,
    },
}

impl<'t> Builder<'t> {
    fn take(&mut self, event: Event<'t>, span: Span) -> Result<(), Refusal> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(Finding::error(span, "a rule file holds one document")
                        .label("a second one begins here")
                        .help("remove the `---`, or put the second document in a file of its own")
                        .into());
                }
            }
            Event::Alias(id) => return self.alias(id, span),
            Event::Scalar(text, style, anchor, tag) => {
                self.count(span)?;
                self.refuse_tag(tag.is_some(), span);
                if let Some(Open { inside: Inside::Map { key: key @ None, .. }, .. }) = self.open.last_mut() {
                    *key = Some((text, span));
                    return Ok(());
                }
                let value = if style == ScalarStyle::Plain { plain(text) } else { Value::Text(text) };
                self.put(Node { span, value }, anchor)?;
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.count(span)?;
                self.refuse_tag(tag.is_some(), span);
                self.open(Open { span, anchor, inside: Inside::List(Vec::new()) })?;
            }
            Event::MappingStart(_, anchor, tag) => {
                self.count(span)?;
                self.refuse_tag(tag.is_some(), span);
                self.open(Open { span, anchor, inside: Inside::Map { entries: Vec::new(), key: None } })?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(Open { span: start, anchor, inside }) = self.open.pop() {
                    let (value, end) = self.close(inside, span);
                    self.put(Node { span: Span::new(start.start, end.max(start.end)), value }, anchor)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn open(&mut self, open: Open<'t>) -> Result<(), Refusal> {
        if let Some(Open { inside: Inside::Map { key: None, .. }, .. }) = self.open.last() {
            return Err(Finding::error(open.span, "a key must be a word")
                .label("a list or map stands where a key belongs")
                .help("text with `{` or `[` in it needs quotes")
                .into());
        }
        if self.open.len() >= DEEPEST {
            return Err(too_deep(open.span).into());
        }
        self.open.push(open);
        Ok(())
    }

    fn close(&mut self, inside: Inside<'t>, end: Span) -> (Value<'t>, usize) {
        match inside {
            Inside::List(items) => {
                let last = items.last().map_or(0, |node| node.span.end);
                (Value::List(items), flow_end(end, last))
            }
            Inside::Map { entries, .. } => {
                let last = entries.last().map_or(0, |entry| entry.value.span.end.max(entry.key_span.end));
                (Value::Map(self.unique(entries)), flow_end(end, last))
            }
        }
    }

    /// Reports keys given twice and keeps the first of each.
    fn unique(&mut self, mut entries: Vec<Entry<'t>>) -> Vec<Entry<'t>> {
        let mut seen: HashMap<&str, Span> = HashMap::with_capacity(entries.len());
        let mut again = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let Some(first) = seen.insert(&entry.key, entry.key_span) else { continue };
            seen.insert(&entry.key, first);
            again.push(index);
            self.findings.push(
                Finding::error(entry.key_span, format!("`{}` is given twice", entry.key))
                    .label("again here")
                    .also(first, "first here")
                    .help("keep one of them"),
            );
        }
        if !again.is_empty() {
            let mut again = again.into_iter().peekable();
            let mut index = 0;
            entries.retain(|_| {
                let drop = again.next_if_eq(&index).is_some();
                index += 1;
                !drop
            });
        }
        entries
    }

    fn alias(&mut self, id: usize, span: Span) -> Result<(), Refusal> {
        let Some(node) = self.anchors.get(&id) else {
            return Err(Finding::error(span, "this alias stands within the value it refers to")
                .label("would never end")
                .help("write the value out")
                .into());
        };
        self.aliased += node.weight();
        if self.aliased > MOST_ALIASED {
            return Err(Finding::error(span, "aliases blow this file up")
                .label(format!("with this one they add more than {MOST_ALIASED} values"))
                .help("write the values out, or use a rule with a key instead of many rules")
                .into());
        }
        let node = node.clone();
        if let Some(Open { inside: Inside::Map { key: key @ None, .. }, .. }) = self.open.last_mut() {
            let Value::Text(text) = node.value else {
                return Err(Finding::error(span, "a key must be a word")
                    .label("this alias stands for something else")
                    .into());
            };
            *key = Some((text, span));
            return Ok(());
        }
        self.put(node, 0)
    }

    fn put(&mut self, node: Node<'t>, anchor: usize) -> Result<(), Refusal> {
        if anchor != 0 {
            // Remembering a value costs as much as an alias to it: nested anchors must not add up.
            self.aliased += node.weight();
            if self.aliased > MOST_ALIASED {
                return Err(Finding::error(node.span, "too much of this file is anchored")
                    .label(format!("with this one anchors hold more than {MOST_ALIASED} values"))
                    .help("remove the `&` names nobody refers to")
                    .into());
            }
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut().map(|open| &mut open.inside) {
            None => self.root = Some(node),
            Some(Inside::List(items)) => items.push(node),
            Some(Inside::Map { entries, key }) => {
                if let Some((key, key_span)) = key.take() {
                    entries.push(Entry { key, key_span, value: node });
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, span: Span) -> Result<(), Refusal> {
        self.nodes += 1;
        if self.nodes <= MOST_NODES {
            return Ok(());
        }
        Err(Finding::error(span, format!("the file holds more than {MOST_NODES} values"))
            .label("this one is too many")
            .help("fewer rules with a key do the work of many rules without")
            .into())
    }

    fn refuse_tag(&mut self, tagged: bool, span: Span) {
        if tagged {
            self.findings.push(
                Finding::error(span, "tags such as `!!str` have no meaning here")
                    .label("this value has one")
                    .help("remove the tag; to make a number a text, put it in quotes"),
            );
        }
    }
}

/// The end of a list or map: its bracket, or the end of what is in it.
fn flow_end(end: Span, last: usize) -> usize {
    if end.end == end.start + 1 { end.end } else { last }
}

/// What an unquoted text stands for (YAML 1.2, core schema).
fn plain(text: Cow<'_, str>) -> Value<'_> {
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

fn too_deep(span: Span) -> Finding {
    Finding::error(span, format!("nested deeper than {DEEPEST} levels"))
        .label("one level too many")
        .help("no rule needs that much; a bracket may be missing further up")
}

fn syntax(text: &str, error: &ScanError) -> Finding {
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
            ("a tab stands where YAML wants spaces".to_owned(), "indent with spaces".to_owned())
        }
        ErrorKind::UnclosedFlowCollection { open } => {
            (format!("the file ends within a `{open}`"), format!("close the `{open}`; the file may be cut off"))
        }
        ErrorKind::UnexpectedEofFlowMapping | ErrorKind::UnexpectedEofImplicitFlowMapping => {
            ("the file ends within a `{`".to_owned(), "close it with `}`; the file may be cut off".to_owned())
        }
        ErrorKind::UnexpectedEofFlowSequence => {
            ("the file ends within a `[`".to_owned(), "close it with `]`; the file may be cut off".to_owned())
        }
        ErrorKind::UnclosedQuotedScalar => {
            ("a quoted text does not end".to_owned(), "add the closing quote; the file may be cut off".to_owned())
        }
        ErrorKind::InvalidQuotedScalarIndent => (
            "a quoted text goes on in a line that is not part of it".to_owned(),
            "add the closing quote, or indent the line further".to_owned(),
        ),
        ErrorKind::UnexpectedEof | ErrorKind::UnexpectedEofBlockMapping | ErrorKind::UnexpectedEofBlockSequence => {
            ("the file ends too early".to_owned(), "the file may be cut off".to_owned())
        }
        ErrorKind::UnknownAnchor => (
            "this alias refers to nothing".to_owned(),
            "text that begins with `*` needs quotes; a value to refer to begins with `&name`".to_owned(),
        ),
        ErrorKind::SimpleKeyExpected => {
            ("a key without `:` and a value".to_owned(), "write `key: value`; the file may be cut off".to_owned())
        }
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement => (
            "a `:` stands where no value can follow".to_owned(),
            "text with `: ` in it needs quotes; a key needs the indentation of its neighbours".to_owned(),
        ),
        ErrorKind::InvalidIndentation | ErrorKind::ExpectedBlockMappingKey | ErrorKind::ExpectedBlockSequenceEntry => (
            "this line's indentation fits nothing above it".to_owned(),
            "indent it like its neighbours, with spaces".to_owned(),
        ),
        kind => (format!("this is not YAML: {kind}"), "text with special characters needs quotes".to_owned()),
    };
    Finding::error(span, message).label("noticed here").help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value<'_> {
        parse(text).0.unwrap().value
    }

    #[test]
    fn plain_texts_become_what_the_core_schema_says() {
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
    fn keys_and_values_know_their_place() {
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
    fn aliases_are_followed_and_bombs_are_not() {
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
    fn deep_nesting_is_refused_at_once() {
        for text in ["[".repeat(10_000), "{a: ".repeat(10_000), "- ".repeat(10_000)] {
            let (tree, findings) = parse(&text);
            assert!(tree.is_none());
            assert!(findings.has_errors());
        }
    }
}

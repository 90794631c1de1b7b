//! Diagnostics of a rule file: location, message and remedy.
//!
//! ```
//! let report = sluicegate_config::parse("rules.yaml", "rulez: []").unwrap_err();
//! let error = &report.diagnostics()[0];
//! assert_eq!((error.line, error.column), (1, 1));
//! assert_eq!(error.help.as_deref(), Some("did you mean `rules`?"));
//! ```

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use crate::source::{SourceText, Span};

/// Maximum number of diagnostics in a rendered report; the others are counted.
pub const MAX_SHOWN: usize = 100;

/// Maximum number retained per severity; the others are only counted. A file can have a million errors.
const MAX_RETAINED: usize = 10_000;

/// Longer lines are referred to by number and not shown.
const MAX_SHOWN_LINE_BYTES: usize = 2_000;

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The file is refused.
    Error,
    /// The file is valid, but probably not as intended.
    Warning,
}

/// One error or warning about a rule file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// File name, as passed in.
    pub file: String,
    /// Line, from 1; 0 if the diagnostic concerns the entire file.
    pub line: usize,
    /// Column in characters, from 1; 0 if the diagnostic concerns the entire file.
    pub column: usize,
    /// Byte range in the file.
    pub span: Span,
    /// The problem.
    pub message: String,
    /// Label of the marked range.
    pub label: String,
    /// The remedy.
    pub help: Option<String>,
    /// Related ranges with their labels.
    pub related: Vec<(Span, String)>,
    /// Error or warning.
    pub severity: Severity,
}

/// All diagnostics of one rule file in file order, or of several files in sequence.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The files, each with the cumulative number of diagnostics up to its end.
    sources: Vec<(usize, Arc<SourceText>)>,
    diagnostics: Vec<Diagnostic>,
    /// Number of diagnostics that were not retained.
    omitted: usize,
}

/// Output style of a rendered report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RenderStyle {
    /// Plain text.
    #[default]
    Plain,
    /// ANSI colours, for a terminal.
    Coloured,
}

/// A diagnostic under construction; line and column are resolved later.
#[derive(Clone, Debug)]
#[must_use = "report it"]
pub struct DiagnosticBuilder {
    severity: Severity,
    span: Option<Span>,
    message: String,
    label: String,
    help: Option<String>,
    related: Vec<(Span, String)>,
}

/// Collects diagnostics: errors and warnings separately, so that neither displaces the other.
#[derive(Debug, Default)]
pub struct DiagnosticSink {
    errors: BoundedList,
    warnings: BoundedList,
}

#[derive(Debug, Default)]
struct BoundedList {
    findings: Vec<DiagnosticBuilder>,
    /// Number of diagnostics that were not retained.
    omitted: usize,
}

impl DiagnosticSink {
    /// Adds a diagnostic.
    pub fn push(&mut self, finding: DiagnosticBuilder) {
        let list = if finding.severity == Severity::Error { &mut self.errors } else { &mut self.warnings };
        if list.findings.len() < MAX_RETAINED {
            list.findings.push(finding);
        } else {
            list.omitted += 1;
        }
    }

    /// True if there are errors.
    pub fn has_errors(&self) -> bool {
        !self.errors.findings.is_empty()
    }

    /// Adds the diagnostics of another sink.
    pub fn append(&mut self, other: Self) {
        other.errors.findings.into_iter().chain(other.warnings.findings).for_each(|finding| self.push(finding));
        self.errors.omitted += other.errors.omitted;
        self.warnings.omitted += other.warnings.omitted;
    }

    /// Returns the errors if there are any, otherwise the warnings.
    pub fn into_report(self, source: Arc<SourceText>) -> Report {
        let BoundedList { findings, omitted } = if self.has_errors() { self.errors } else { self.warnings };
        Report::new(source, findings, omitted)
    }
}

impl From<DiagnosticBuilder> for DiagnosticSink {
    fn from(finding: DiagnosticBuilder) -> Self {
        let mut findings = Self::default();
        findings.push(finding);
        findings
    }
}

impl DiagnosticBuilder {
    /// An error at this span.
    pub fn error(span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, Some(span), message.into())
    }

    pub(crate) fn warning(span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, Some(span), message.into())
    }

    /// An error about the entire file.
    pub fn for_file(message: impl Into<String>) -> Self {
        Self::new(Severity::Error, None, message.into())
    }

    fn new(severity: Severity, span: Option<Span>, message: String) -> Self {
        Self {
            severity,
            span,
            message: escape_control(&message),
            label: String::new(),
            help: None,
            related: Vec::new(),
        }
    }

    /// Sets the label of the marked range.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = escape_control(&label.into());
        self
    }

    /// Sets the remedy.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(escape_control(&help.into()));
        self
    }

    pub(crate) fn maybe_help(mut self, help: Option<String>) -> Self {
        self.help = help.map(|help| escape_control(&help));
        self
    }

    /// Adds a related range with its label.
    pub fn with_related(mut self, span: Span, label: impl Into<String>) -> Self {
        self.related.push((span, escape_control(&label.into())));
        self
    }
}

impl Report {
    fn new(source: Arc<SourceText>, mut findings: Vec<DiagnosticBuilder>, omitted: usize) -> Self {
        findings.sort_by_key(|finding| finding.span.map_or(0, |span| span.start));
        let mut diagnostics: Vec<Diagnostic> = Vec::with_capacity(findings.len());
        for finding in findings {
            let diagnostic = locate(&source, finding);
            // A value behind an alias is parsed for each use and would be reported each time.
            if diagnostics.last() != Some(&diagnostic) {
                diagnostics.push(diagnostic);
            }
        }
        Self { sources: vec![(diagnostics.len(), source)], diagnostics, omitted }
    }

    /// Merges the reports of several files.
    pub fn merge(reports: Vec<Self>) -> Self {
        let mut all = Self::default();
        for report in reports {
            let before = all.diagnostics.len();
            let count = report.diagnostics.len().min(MAX_RETAINED - before);
            all.omitted += report.omitted + report.diagnostics.len() - count;
            all.sources.extend(report.sources.into_iter().map(|(end, source)| (before + end.min(count), source)));
            all.diagnostics.extend(report.diagnostics.into_iter().take(count));
        }
        all
    }

    /// The diagnostics in file order; at most ten thousand.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// True if there are no diagnostics.
    pub fn is_empty(&self) -> bool {
        self.diagnostics.is_empty()
    }

    /// Total number of diagnostics, including those not retained.
    pub fn len(&self) -> usize {
        self.diagnostics.len() + self.omitted
    }

    /// Renders the diagnostics with the lines they refer to; at most [`MAX_SHOWN`] of them.
    pub fn render(&self, style: RenderStyle) -> String {
        let renderer = match style {
            RenderStyle::Plain => Renderer::plain(),
            RenderStyle::Coloured => Renderer::styled(),
        };
        let mut shown: Vec<String> = self
            .diagnostics
            .iter()
            .take(MAX_SHOWN)
            .enumerate()
            .map(|(index, diagnostic)| renderer.render(&[group(self.source_of(index), diagnostic)]))
            .collect();
        if let Some(more) = self.len().checked_sub(MAX_SHOWN).filter(|more| *more > 0) {
            shown.push(format!("and {more} more"));
        }
        shown.join("\n\n")
    }

    /// The file of the diagnostic at this index.
    fn source_of(&self, index: usize) -> Option<&SourceText> {
        self.sources.iter().find(|(end, _)| index < *end).map(|(_, source)| &**source)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(RenderStyle::Plain))
    }
}

impl std::error::Error for Report {}

/// Formats as one line: `rules.yaml:3:7: error: message (help)`.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        match self.line {
            0 => write!(f, "{}: {severity}: {}", self.file, self.message)?,
            line => write!(f, "{}:{line}:{}: {severity}: {}", self.file, self.column, self.message)?,
        }
        match &self.help {
            Some(help) => write!(f, " ({help})"),
            None => Ok(()),
        }
    }
}

fn group<'a>(source: Option<&'a SourceText>, diagnostic: &'a Diagnostic) -> Group<'a> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(&*diagnostic.message);
    let mut group = match source.and_then(|source| snippet(source, diagnostic)) {
        Some(snippet) => title.element(snippet),
        None if diagnostic.line == 0 => title.element(Origin::path(&*diagnostic.file)),
        None => title.element(Origin::path(&*diagnostic.file).line(diagnostic.line).char_column(diagnostic.column)),
    };
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(&**help));
    }
    group
}

/// Cuts the lines of a diagnostic out of the file, so that the cost does not depend on the file size.
fn snippet<'a>(
    source: &'a SourceText,
    diagnostic: &'a Diagnostic,
) -> Option<Snippet<'a, annotate_snippets::Annotation<'a>>> {
    if diagnostic.line == 0 {
        return None;
    }
    let marks = std::iter::once((diagnostic.span, &*diagnostic.label))
        .chain(diagnostic.related.iter().map(|(span, label)| (*span, &**label)));
    let lines = marks.clone().map(|(span, _)| source.position(span.start).0);
    let (first, last) = (lines.clone().min()?, lines.max()?);
    // A distant related range is referred to by its line number.
    let near = last - first <= 2_000;
    let (first, last) = if near { (first, last) } else { (diagnostic.line, diagnostic.line) };
    let cut = Span::new(source.line(first).start, source.line(last).end);
    let text = source.text.get(cut.start..cut.end)?;
    if text.lines().any(|line| line.len() > MAX_SHOWN_LINE_BYTES) {
        return None;
    }
    let mut snippet = Snippet::source(mask_passwords(text)).line_start(first).path(&*diagnostic.file);
    for (index, (span, label)) in marks.enumerate() {
        if index > 0 && !near {
            continue;
        }
        let line_end = source.line(source.position(span.start).0).end;
        let start = span.start.min(line_end);
        let end = span.end.min(line_end).max(start);
        let kind = if index == 0 { AnnotationKind::Primary } else { AnnotationKind::Context };
        let label = (!label.is_empty()).then_some(label);
        snippet = snippet.annotation(kind.span(start - cut.start..end - cut.start).label(label));
    }
    Some(snippet)
}

fn locate(source: &SourceText, finding: DiagnosticBuilder) -> Diagnostic {
    let DiagnosticBuilder { severity, span, message, label, help, related } = finding;
    let length = source.text.len();
    let within = |span: Span| Span::new(span.start.min(length), span.end.min(length));
    let (line, column) = span.map_or((0, 0), |span| source.position(within(span).start));
    Diagnostic {
        file: source.name.clone(),
        line,
        column,
        span: within(span.unwrap_or_default()),
        message,
        label,
        help,
        related: related.into_iter().map(|(span, label)| (within(span), label)).collect(),
        severity,
    }
}

/// Escapes control characters. Messages quote the file, and its content must not move a terminal's cursor
/// or break a log line.
fn escape_control(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in mask_passwords(text).chars() {
        match c {
            '\n' | '\r' | '\t' => escaped.extend(c.escape_default()),
            c if c.is_control() || is_invisible(c) => escaped.extend(c.escape_unicode()),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Masks URL passwords (`user:password@host`) with one star per byte, which keeps spans valid: reports end
/// up in logs and tickets.
fn mask_passwords(text: &str) -> Cow<'_, str> {
    if !text.contains('@') {
        return Cow::Borrowed(text);
    }
    let mut bytes = text.as_bytes().to_vec();
    for (at, _) in text.match_indices('@') {
        let word = text[..at].rfind([' ', '\t', '\n', '\'', '"']).map_or(0, |space| space + 1);
        let login = text[word..at].find("://").map_or(word, |scheme| word + scheme + 3);
        if let Some(colon) = text[login..at].find(':') {
            bytes[login + colon + 1..at].fill(b'*');
        }
    }
    String::from_utf8(bytes).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Bidirectional control and zero-width characters.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Quotes text for a message and truncates it.
pub fn quoted(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("'{}...'", &text[..end]),
        None => format!("'{text}'"),
    }
}

//! What is wrong with a rule file: where, why, and what to do.
//!
//! ```
//! let report = sluicegate_config::parse("rules.yaml", "rulez: []").unwrap_err();
//! let fault = &report.diagnostics()[0];
//! assert_eq!((fault.line, fault.column), (1, 1));
//! assert_eq!(fault.help.as_deref(), Some("did you mean `rules`?"));
//! ```

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use crate::source::{Source, Span};

/// How many diagnostics a rendering shows before it says how many more there are.
pub const MOST_SHOWN: usize = 100;

/// How many of a kind are kept; further ones are only counted. A file can have a million faults.
const MOST_KEPT: usize = 10_000;

/// Lines longer than this are named but not shown.
const LONGEST_SHOWN_LINE: usize = 2_000;

/// Whether a file can be used in spite of what was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The file is refused.
    Error,
    /// The file works, but probably not as meant.
    Warning,
}

/// One thing found in a rule file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file's name, as it was given.
    pub file: String,
    /// The line, from 1; 0 if it is about the file as a whole.
    pub line: usize,
    /// The column, from 1, in characters; 0 if it is about the file as a whole.
    pub column: usize,
    /// The bytes it is about.
    pub span: Span,
    /// What is wrong.
    pub message: String,
    /// What to look at in the marked place.
    pub label: String,
    /// The remedy.
    pub help: Option<String>,
    /// Other places that play a part.
    pub related: Vec<(Span, String)>,
    /// Error or warning.
    pub severity: Severity,
}

/// Everything found in one rule file, in the order of the file; or in several, one file after the other.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The files, each with how many of the diagnostics are about it or those before it.
    sources: Vec<(usize, Arc<Source>)>,
    diagnostics: Vec<Diagnostic>,
    /// Found, but not kept.
    further: usize,
}

/// With or without colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Style {
    /// Text alone.
    #[default]
    Plain,
    /// With ANSI colours, for a terminal.
    Coloured,
}

/// Something found, before it is known which line it stands on.
#[derive(Clone, Debug)]
#[must_use = "report it"]
pub(crate) struct Finding {
    severity: Severity,
    span: Option<Span>,
    message: String,
    label: String,
    help: Option<String>,
    related: Vec<(Span, String)>,
}

/// What was found so far: errors and warnings apart, so that neither crowds out the other.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    errors: Kept,
    warnings: Kept,
}

#[derive(Debug, Default)]
struct Kept {
    findings: Vec<Finding>,
    /// Found, but not kept.
    further: usize,
}

impl Findings {
    pub(crate) fn push(&mut self, finding: Finding) {
        let kept = if finding.severity == Severity::Error { &mut self.errors } else { &mut self.warnings };
        if kept.findings.len() < MOST_KEPT {
            kept.findings.push(finding);
        } else {
            kept.further += 1;
        }
    }

    pub(crate) fn has_errors(&self) -> bool {
        !self.errors.findings.is_empty()
    }

    /// Adds what was found elsewhere.
    pub(crate) fn append(&mut self, other: Self) {
        other.errors.findings.into_iter().chain(other.warnings.findings).for_each(|finding| self.push(finding));
        self.errors.further += other.errors.further;
        self.warnings.further += other.warnings.further;
    }

    /// The errors if there are any, otherwise the warnings.
    pub(crate) fn into_report(self, source: Arc<Source>) -> Report {
        let Kept { findings, further } = if self.has_errors() { self.errors } else { self.warnings };
        Report::new(source, findings, further)
    }
}

impl From<Finding> for Findings {
    fn from(finding: Finding) -> Self {
        let mut findings = Self::default();
        findings.push(finding);
        findings
    }
}

impl Finding {
    pub(crate) fn error(span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, Some(span), message.into())
    }

    pub(crate) fn warning(span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, Some(span), message.into())
    }

    /// About the file as a whole.
    pub(crate) fn whole(message: impl Into<String>) -> Self {
        Self::new(Severity::Error, None, message.into())
    }

    fn new(severity: Severity, span: Option<Span>, message: String) -> Self {
        Self { severity, span, message: clean(&message), label: String::new(), help: None, related: Vec::new() }
    }

    pub(crate) fn label(mut self, label: impl Into<String>) -> Self {
        self.label = clean(&label.into());
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(clean(&help.into()));
        self
    }

    pub(crate) fn maybe_help(mut self, help: Option<String>) -> Self {
        self.help = help.map(|help| clean(&help));
        self
    }

    pub(crate) fn also(mut self, span: Span, label: impl Into<String>) -> Self {
        self.related.push((span, clean(&label.into())));
        self
    }
}

impl Report {
    fn new(source: Arc<Source>, mut findings: Vec<Finding>, further: usize) -> Self {
        findings.sort_by_key(|finding| finding.span.map_or(0, |span| span.start));
        let mut diagnostics: Vec<Diagnostic> = Vec::with_capacity(findings.len());
        for finding in findings {
            let diagnostic = locate(&source, finding);
            // A value behind an alias is read once for each use and would be reported as often.
            if diagnostics.last() != Some(&diagnostic) {
                diagnostics.push(diagnostic);
            }
        }
        Self { sources: vec![(diagnostics.len(), source)], diagnostics, further }
    }

    /// What was found in several files, as one.
    pub(crate) fn joined(reports: Vec<Self>) -> Self {
        let mut all = Self::default();
        for report in reports {
            let before = all.diagnostics.len();
            let kept = report.diagnostics.len().min(MOST_KEPT - before);
            all.further += report.further + report.diagnostics.len() - kept;
            all.sources.extend(report.sources.into_iter().map(|(end, source)| (before + end.min(kept), source)));
            all.diagnostics.extend(report.diagnostics.into_iter().take(kept));
        }
        all
    }

    /// What was found, in the order of the file; at most ten thousand.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.diagnostics.is_empty()
    }

    /// How many things were found.
    pub fn len(&self) -> usize {
        self.diagnostics.len() + self.further
    }

    /// Everything as text, each with the lines it is about; at most [`MOST_SHOWN`] of them.
    pub fn render(&self, style: Style) -> String {
        let renderer = match style {
            Style::Plain => Renderer::plain(),
            Style::Coloured => Renderer::styled(),
        };
        let mut shown: Vec<String> = self
            .diagnostics
            .iter()
            .take(MOST_SHOWN)
            .enumerate()
            .map(|(index, diagnostic)| renderer.render(&[group(self.source_of(index), diagnostic)]))
            .collect();
        if let Some(more) = self.len().checked_sub(MOST_SHOWN).filter(|more| *more > 0) {
            shown.push(format!("and {more} more"));
        }
        shown.join("\n\n")
    }

    /// The file that the diagnostic at this position is about.
    fn source_of(&self, index: usize) -> Option<&Source> {
        self.sources.iter().find(|(end, _)| index < *end).map(|(_, source)| &**source)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(Style::Plain))
    }
}

impl std::error::Error for Report {}

/// `rules.yaml:3:7: error: what is wrong (what to do)`, on one line.
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

fn group<'a>(source: Option<&'a Source>, diagnostic: &'a Diagnostic) -> Group<'a> {
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

/// The lines a diagnostic is about, cut out of the file so that the file's size does not matter.
fn snippet<'a>(
    source: &'a Source,
    diagnostic: &'a Diagnostic,
) -> Option<Snippet<'a, annotate_snippets::Annotation<'a>>> {
    if diagnostic.line == 0 {
        return None;
    }
    let marks = std::iter::once((diagnostic.span, &*diagnostic.label))
        .chain(diagnostic.related.iter().map(|(span, label)| (*span, &**label)));
    let lines = marks.clone().map(|(span, _)| source.position(span.start).0);
    let (first, last) = (lines.clone().min()?, lines.max()?);
    // Far apart, the related place is named by its line instead of being shown.
    let near = last - first <= 2_000;
    let (first, last) = if near { (first, last) } else { (diagnostic.line, diagnostic.line) };
    let cut = Span::new(source.line(first).start, source.line(last).end);
    let text = source.text.get(cut.start..cut.end)?;
    if text.lines().any(|line| line.len() > LONGEST_SHOWN_LINE) {
        return None;
    }
    let mut snippet = Snippet::source(masked(text)).line_start(first).path(&*diagnostic.file);
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

fn locate(source: &Source, finding: Finding) -> Diagnostic {
    let Finding { severity, span, message, label, help, related } = finding;
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

/// Messages quote the file, and a file may hold anything: control characters are written as escapes,
/// so that no file can move a terminal's cursor or break a log line.
fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    for c in masked(text).chars() {
        match c {
            '\n' | '\r' | '\t' => cleaned.extend(c.escape_default()),
            c if c.is_control() || is_invisible(c) => cleaned.extend(c.escape_unicode()),
            c => cleaned.push(c),
        }
    }
    cleaned
}

/// The text with every password of a URL in it (`user:password@host`) made of stars, each byte one,
/// so that places stay where they are: reports end up in logs and tickets.
fn masked(text: &str) -> Cow<'_, str> {
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

/// Characters that turn the direction of text or take no room.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// A text as a message quotes it: in quotes, and not longer than a reader wants.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("'{}...'", &text[..end]),
        None => format!("'{text}'"),
    }
}

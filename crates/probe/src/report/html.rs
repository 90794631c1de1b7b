//! HTML report: one file without scripts and external resources.

use std::fmt::Write;

use super::super::criteria::StepVerdict;
use super::table::{COLUMNS, cells};
use super::{Findings, rule, summary, svg_plot};

const STYLE: &str = ":root{color-scheme:light dark;--text:#24292f;--ground:#fff;--line:#d0d7de;--bad:#cf222e}\
@media (prefers-color-scheme:dark){:root{--text:#e6edf3;--ground:#0d1117;--line:#30363d;--bad:#f85149}}\
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:var(--text);\
background:var(--ground)}svg{max-width:100%}pre{overflow-x:auto;padding:.75rem;border:1px solid var(--line)}\
table{border-collapse:collapse;width:100%}th,td{text-align:right;padding:.25rem .5rem;border-bottom:1px solid var(--line)}\
th:last-child,td:last-child{text-align:left}.not-good td:last-child{color:var(--bad)}";

/// Renders the page.
pub(crate) fn page(findings: &Findings) -> String {
    let title = escape_html(&format!("Load test of {}", findings.target));
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    );
    for line in summary::lines(findings) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "<p>{}</p>", escape_html(&line));
    }
    text.push_str(&svg_plot(findings));
    text.push_str("<table>\n<thead><tr>");
    for column in COLUMNS {
        let _ = write!(text, "<th>{}</th>", escape_html(column));
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for judged in &findings.steps {
        let class = if judged.verdict == StepVerdict::Good { "good" } else { "not-good" };
        let _ = write!(text, "<tr class=\"{class}\">");
        for cell in cells(judged) {
            let _ = write!(text, "<td>{}</td>", escape_html(&cell));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody>\n</table>\n");
    if let Some(rule) = rule(findings) {
        let _ = writeln!(text, "<h2>Proposed rule</h2>\n<pre>{}</pre>", escape_html(&rule));
    }
    text.push_str("</body>\n</html>\n");
    text
}

/// Escapes text for element content and quoted attributes.
pub(super) fn escape_html(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut escaped, character| {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
        escaped
    })
}

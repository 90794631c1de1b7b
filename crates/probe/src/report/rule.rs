//! Proposed limit as a rule file.

use std::fmt::Write;

use super::super::format::{latency_or_none, percent, rate};
use super::Findings;

/// A rule for the loaded path; `None` without a peak. It passes `sluicegate check` as it is.
pub(crate) fn rule(findings: &Findings) -> Option<String> {
    let (peak, proposal) = (&findings.peak()?.step, findings.proposal()?);
    let pattern = pattern(&findings.path);
    let limit = proposal.limit();
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "# Proposed by `sluicegate probe`: {} below the peak of {}/s (p99 {}).",
        percent(findings.buffer),
        rate(peak.offered),
        latency_or_none(peak.p99)
    );
    if pattern.matches_more {
        let _ = writeln!(
            text,
            "# `*` replaces segments that a pattern cannot express: check that it matches no other paths."
        );
    }
    let _ = writeln!(text, "rules:");
    let _ = writeln!(text, "  - name: {}", name(&findings.path));
    let _ = writeln!(text, "    match: \"{} {}\"", findings.method, pattern.text);
    let _ = writeln!(text, "    limits: [{limit}]");
    let _ = writeln!(
        text,
        "    # Little's law: {limit} with a latency of {} (p99) means a concurrency of {}. To refuse requests also if",
        latency_or_none(peak.p99),
        proposal.concurrency
    );
    let _ = writeln!(text, "    # the latency increases: limits: [{limit}, {{ concurrency: {} }}]", {
        proposal.concurrency
    });
    Some(text)
}

struct Pattern {
    text: String,
    /// True if the pattern also matches other paths.
    matches_more: bool,
}

/// The path as a pattern. Segments with pattern syntax become `*`.
fn pattern(path: &str) -> Pattern {
    let is_plain = |segment: &str| {
        let is_valid = segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte));
        is_valid && !segment.bytes().all(|byte| byte == b'.')
    };
    let body = path.trim_matches('/');
    let mut matches_more = false;
    let segments = body.split('/').filter(|segment| !segment.is_empty()).map(|segment| {
        if is_plain(segment) {
            segment
        } else {
            matches_more = true;
            "*"
        }
    });
    let mut text = segments.fold(String::new(), |text, segment| text + "/" + segment);
    if text.is_empty() || path.ends_with('/') {
        text.push('/');
    }
    Pattern { text, matches_more }
}

/// A rule name derived from the path.
fn name(path: &str) -> String {
    let words = path.split(|character: char| !character.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.take(4).fold("peak".to_owned(), |name, word| name + "-" + &word.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::super::tests::findings;
    use super::*;

    #[test]
    fn the_rule_passes_check() {
        let paths = [
            "/",
            "/api/orders",
            "/api/orders/",
            "/a//b",
            "/a/../b/./c",
            "/größe/{id}/a*b/a%20b/x:y",
            "/~me/a.b-c_d",
            "/{*rest}",
            "//",
            "/\"quoted\"\\",
        ];
        for path in paths {
            for method in ["GET", "POST", "PROPFIND"] {
                let findings = Findings { path: path.to_owned(), method: method.to_owned(), ..findings() };
                let text = rule(&findings).unwrap();
                let loaded = sluicegate_config::parse("rule.yaml", &text);
                let loaded = loaded.unwrap_or_else(|report| panic!("{path}: {report}\n{text}"));
                assert!(loaded.warnings.is_empty(), "{path}: {}", loaded.warnings);
            }
        }
    }

    #[test]
    fn wildcard_patterns_pass_check() {
        let text = rule(&findings()).unwrap();
        let both = text.split_once("limits: [").unwrap().0.to_owned() + text.rsplit_once("limits: ").unwrap().1;
        let both = both.replace("    [", "    limits: [");
        sluicegate_config::parse("rule.yaml", &both).unwrap_or_else(|report| panic!("{report}\n{both}"));
    }
}

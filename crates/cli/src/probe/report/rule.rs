//! The proposed limit as a rule file.

use std::fmt::Write;

use super::super::figures::{latency_or_none, percent, rate};
use super::Findings;

/// A rule for the path that was loaded; `None` without a peak. `sluicegate check` takes it as it is.
pub(in crate::probe) fn rule(findings: &Findings) -> Option<String> {
    let (peak, proposal) = (&findings.peak()?.step, findings.proposal()?);
    let pattern = pattern(&findings.path);
    let limit = proposal.limit();
    let mut text = String::new();
    // Writing to a text does not fail.
    let _ = writeln!(
        text,
        "# Proposed by `sluicegate probe`: {} below a peak of {}/s, where p99 was {}.",
        percent(findings.buffer),
        rate(peak.offered),
        latency_or_none(peak.p99)
    );
    if pattern.is_wider {
        let _ = writeln!(text, "# `*` stands for what a pattern cannot say: look whether it matches too much.");
    }
    let _ = writeln!(text, "rules:");
    let _ = writeln!(text, "  - name: {}", name(&findings.path));
    let _ = writeln!(text, "    match: \"{} {}\"", findings.method, pattern.text);
    let _ = writeln!(text, "    limits: [{limit}]");
    let _ = writeln!(
        text,
        "    # By Little's law, {limit} that take {} each (p99) are {} under way at once. To refuse also when the",
        latency_or_none(peak.p99),
        proposal.at_once
    );
    let _ = writeln!(text, "    # service has become slower than that: limits: [{limit}, {{ concurrency: {} }}]", {
        proposal.at_once
    });
    Some(text)
}

struct Pattern {
    text: String,
    /// It matches other paths too.
    is_wider: bool,
}

/// The path as a pattern. Segments that a pattern would read as something else become `*`.
fn pattern(path: &str) -> Pattern {
    let is_plain = |segment: &str| {
        let is_fit = segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte));
        is_fit && !segment.bytes().all(|byte| byte == b'.')
    };
    let body = path.trim_matches('/');
    let mut is_wider = false;
    let segments = body.split('/').filter(|segment| !segment.is_empty()).map(|segment| {
        if is_plain(segment) {
            segment
        } else {
            is_wider = true;
            "*"
        }
    });
    let mut text = segments.fold(String::new(), |text, segment| text + "/" + segment);
    if text.is_empty() || path.ends_with('/') {
        text.push('/');
    }
    Pattern { text, is_wider }
}

/// A name that tells which path it is for.
fn name(path: &str) -> String {
    let words = path.split(|character: char| !character.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.take(4).fold("peak".to_owned(), |name, word| name + "-" + &word.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::super::tests::findings;
    use super::*;

    #[test]
    fn the_rule_is_one_that_is_taken() {
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
    fn what_is_left_out_is_taken_too() {
        let text = rule(&findings()).unwrap();
        let both = text.split_once("limits: [").unwrap().0.to_owned() + text.rsplit_once("limits: ").unwrap().1;
        let both = both.replace("    [", "    limits: [");
        sluicegate_config::parse("rule.yaml", &both).unwrap_or_else(|report| panic!("{report}\n{both}"));
    }
}

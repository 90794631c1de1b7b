//! Tests of every report format.

use std::time::Duration;

use super::super::criteria::tests::{CRITERIA, good_step, overloaded_step};
use super::super::criteria::{judge, max_p99};
use super::super::search::SearchEnd;
use super::super::step::{FailureCounts, StepResult};
use super::*;

/// Findings for a service with a capacity of 200/s.
pub(super) fn findings() -> Findings {
    let steps = [
        good_step(100.0, 20),
        good_step(150.0, 24),
        overloaded_step(225.0, 200.0),
        StepResult { p99: Some(Duration::from_millis(480)), ..overloaded_step(225.0, 199.0) },
        good_step(188.0, 31),
        StepResult { lateness_p99: Duration::from_millis(42), ..overloaded_step(207.0, 190.0) },
        good_step(207.0, 55),
        overloaded_step(216.0, 200.0),
        overloaded_step(216.0, 201.0),
    ];
    with(&steps, SearchEnd::Found)
}

fn with(steps: &[StepResult], end: SearchEnd) -> Findings {
    Findings {
        target: "http://127.0.0.1:8080/api/orders?x=<script>".to_owned(),
        method: "GET".to_owned(),
        path: "/api/orders".to_owned(),
        address: "127.0.0.1".parse().ok(),
        steps: judge(steps, CRITERIA),
        end,
        max_p99: max_p99(steps, CRITERIA),
        buffer: 0.2,
        took: Duration::from_secs(47),
    }
}

#[test]
fn text_report() {
    insta::assert_snapshot!(report(&findings()));
}

#[test]
fn json_report() {
    insta::assert_snapshot!(format!("{:#}", document(&findings())));
}

#[test]
fn svg_report() {
    insta::assert_snapshot!(svg_plot(&findings()));
}

#[test]
fn html_page_is_self_contained() {
    let page = page(&findings());
    assert!(page.contains("&lt;script&gt;") && !page.contains("<script"), "{page}");
    let external = ["src=", "href=", "url(", "@import"].into_iter().find(|word| page.contains(word));
    assert_eq!(external, None);
    assert!(page.contains("prefers-color-scheme:dark") && page.contains(&svg_plot(&findings())));
    assert_eq!(page.matches("<tr").count(), 1 + findings().steps.len());
    assert!(page.contains("limits: [165/s]"), "{page}");
}

#[test]
fn every_search_end_is_reported() {
    let limited = |offered: f64| {
        let failures = FailureCounts { limited: ((offered - 50.0) * 4.0) as u64, ..FailureCounts::default() };
        StepResult { failures, ..overloaded_step(offered, 50.0) }
    };
    let failing = StepResult {
        failures: FailureCounts { server_errors: 40, ..FailureCounts::default() },
        ..overloaded_step(10.0, 0.0)
    };
    let not_found = StepResult { statuses: [(404, 40)].into(), ..good_step(10.0, 3) };
    let late = StepResult { lateness_p99: Duration::from_millis(64), ..overloaded_step(900.0, 700.0) };
    let cases = [
        ("limited", with(&[good_step(40.0, 3), limited(60.0), limited(60.0)], SearchEnd::Found)),
        ("failing", with(&[failing], SearchEnd::Distress)),
        ("top, all 404", with(&[not_found], SearchEnd::Top)),
        ("generator", with(&[good_step(600.0, 3), late.clone(), late.clone(), late], SearchEnd::Generator)),
        ("time", with(&[good_step(10.0, 3)], SearchEnd::Time)),
        ("time, bad rate found", with(&[good_step(10.0, 3), overloaded_step(15.0, 11.0)], SearchEnd::Time)),
        ("interrupted", with(&[good_step(10.0, 3)], SearchEnd::Interrupted)),
        ("interrupted before the first step", with(&[], SearchEnd::Interrupted)),
        ("none good", with(&[overloaded_step(1.0, 0.0), overloaded_step(1.0, 0.0)], SearchEnd::NoneGood)),
    ];
    let reports = cases.map(|(name, findings)| format!("{name}\n  {}\n", summary::lines(&findings).join("\n  ")));
    insta::assert_snapshot!(reports.join("\n"));
}

#[test]
fn charts_fit_any_width() {
    let findings = findings();
    for columns in 0..140 {
        for height in 2..14 {
            let plot = chart(&findings.steps, findings.max_p99, columns, [height, height]);
            let widest = plot.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(widest <= columns.max(70), "{columns}: {widest}");
            assert_eq!(plot.is_empty(), columns < 22);
        }
    }
    assert_eq!(chart(&[], findings.max_p99, 80, [8, 8]), "");
}

#[test]
fn proposed_limits_are_positive_integers() {
    let propose = |rate: f64, p99: u64, buffer: f64| {
        let findings = Findings { buffer, ..with(&[good_step(rate, p99)], SearchEnd::Top) };
        let proposal = findings.proposal().unwrap();
        (proposal.limit(), proposal.concurrency)
    };
    assert_eq!(propose(200.0, 100, 0.2), ("160/s".to_owned(), 16));
    assert_eq!(propose(1_000.0, 1, 0.0), ("1000/s".to_owned(), 1));
    assert_eq!(propose(1.0, 1_500, 0.2), ("48/1m".to_owned(), 2));
    assert_eq!(propose(1.0, 1, 0.95), ("3/1m".to_owned(), 1));
}

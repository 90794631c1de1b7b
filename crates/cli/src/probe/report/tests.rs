//! Every form of one load test, as it is told.

use std::time::Duration;

use super::super::search::End;
use super::super::step::{Failures, Step};
use super::super::verdict::tests::{DEMANDS, behind, well};
use super::super::verdict::{judge, most_p99};
use super::*;

/// A service that does 200/s.
pub(super) fn findings() -> Findings {
    let steps = [
        well(100.0, 20),
        well(150.0, 24),
        behind(225.0, 200.0),
        Step { p99: Some(Duration::from_millis(480)), ..behind(225.0, 199.0) },
        well(188.0, 31),
        Step { late: Duration::from_millis(42), ..behind(207.0, 190.0) },
        well(207.0, 55),
        behind(216.0, 200.0),
        behind(216.0, 201.0),
    ];
    with(&steps, End::Found)
}

fn with(steps: &[Step], end: End) -> Findings {
    Findings {
        target: "http://127.0.0.1:8080/api/orders?x=<script>".to_owned(),
        method: "GET".to_owned(),
        path: "/api/orders".to_owned(),
        address: "127.0.0.1".parse().ok(),
        steps: judge(steps, DEMANDS),
        end,
        most_p99: most_p99(steps, DEMANDS),
        buffer: 0.2,
        took: Duration::from_secs(47),
    }
}

#[test]
fn the_report_tells_everything() {
    insta::assert_snapshot!(report(&findings()));
}

#[test]
fn the_document_for_programs_tells_everything() {
    insta::assert_snapshot!(format!("{:#}", everything(&findings())));
}

#[test]
fn the_picture_is_drawn() {
    insta::assert_snapshot!(picture(&findings()));
}

#[test]
fn the_page_holds_all_of_it_and_nothing_of_others() {
    let page = page(&findings());
    assert!(page.contains("&lt;script&gt;") && !page.contains("<script"), "{page}");
    let fetched = ["src=", "href=", "url(", "@import"].into_iter().find(|word| page.contains(word));
    assert_eq!(fetched, None);
    assert!(page.contains("prefers-color-scheme:dark") && page.contains(&picture(&findings())));
    assert_eq!(page.matches("<tr").count(), 1 + findings().steps.len());
    assert!(page.contains("limits: [165/s]"), "{page}");
}

#[test]
fn every_end_is_told() {
    let limited = |offered: f64| {
        let failures = Failures { limited: ((offered - 50.0) * 4.0) as u64, ..Failures::default() };
        Step { failures, ..behind(offered, 50.0) }
    };
    let failing = Step { failures: Failures { server_errors: 40, ..Failures::default() }, ..behind(10.0, 0.0) };
    let lost = Step { statuses: [(404, 40)].into(), ..well(10.0, 3) };
    let late = Step { late: Duration::from_millis(64), ..behind(900.0, 700.0) };
    let cases = [
        ("limited", with(&[well(40.0, 3), limited(60.0), limited(60.0)], End::Found)),
        ("failing", with(&[failing], End::Distress)),
        ("top, all 404", with(&[lost], End::Top)),
        ("generator", with(&[well(600.0, 3), late.clone(), late.clone(), late], End::Generator)),
        ("time", with(&[well(10.0, 3)], End::Time)),
        ("time, knee in sight", with(&[well(10.0, 3), behind(15.0, 11.0)], End::Time)),
        ("interrupted", with(&[well(10.0, 3)], End::Interrupted)),
        ("interrupted at once", with(&[], End::Interrupted)),
        ("none good", with(&[behind(1.0, 0.0), behind(1.0, 0.0)], End::NoneGood)),
    ];
    let told = cases.map(|(name, findings)| format!("{name}\n  {}\n", summary::lines(&findings).join("\n  ")));
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn charts_fit_whatever_room_there_is() {
    let findings = findings();
    for columns in 0..140 {
        for height in 2..14 {
            let drawn = chart(&findings.steps, findings.most_p99, columns, [height, height]);
            let widest = drawn.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(widest <= columns.max(70), "{columns}: {widest}");
            assert_eq!(drawn.is_empty(), columns < 22);
        }
    }
    assert_eq!(chart(&[], findings.most_p99, 80, [8, 8]), "");
}

#[test]
fn limits_are_whole_and_never_none() {
    let proposed = |rate: f64, p99: u64, buffer: f64| {
        let findings = Findings { buffer, ..with(&[well(rate, p99)], End::Top) };
        let proposal = findings.proposal().unwrap();
        (proposal.limit(), proposal.at_once)
    };
    assert_eq!(proposed(200.0, 100, 0.2), ("160/s".to_owned(), 16));
    assert_eq!(proposed(1_000.0, 1, 0.0), ("1000/s".to_owned(), 1));
    assert_eq!(proposed(1.0, 1_500, 0.2), ("48/1m".to_owned(), 2));
    assert_eq!(proposed(1.0, 1, 0.95), ("3/1m".to_owned(), 1));
}

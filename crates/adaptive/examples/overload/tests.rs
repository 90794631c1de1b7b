//! Checks that the page in `docs/` is current: all of its text, and a part of its figures that is quick to
//! compute. A change to a control law or a scenario requires regenerating the page.

use sluicegate_testkit::overload::experiment::ServerShape;

use crate::{CONTENDERS, page};

const PAGE: &str = include_str!("../../../../docs/adaptive-bench.md");
const OUT_OF_DATE: &str = "is not what `make bench-adaptive` writes: run it";

/// Returns the section of the page under a heading.
fn section(heading: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("{heading} {OUT_OF_DATE}"));
    rest.split("\n#").next().unwrap_or(rest)
}

#[test]
fn page_text_is_up_to_date() {
    let words = page::write(|_, _| String::new(), |_| String::new());
    let figures = |line: &&str| !CONTENDERS.iter().any(|law| line.starts_with(&format!("| {} |", law.name)));
    let [written, expected] = [PAGE, &words].map(|text| text.lines().filter(figures).collect::<Vec<_>>());
    for (written, expected) in written.iter().zip(&expected) {
        assert_eq!(written, expected, "the page {OUT_OF_DATE}");
    }
    assert_eq!(written.len(), expected.len(), "the page {OUT_OF_DATE}");
}

#[test]
fn figures_for_the_queue_shape_are_up_to_date() {
    let written = section("### M/M/8");
    for law in CONTENDERS {
        let row = page::gates(law, &ServerShape::QUEUE);
        assert!(written.contains(&row), "{row}{OUT_OF_DATE}");
    }
}

#[test]
fn figures_for_many_workers_and_events_are_up_to_date() {
    let [ours, ..] = CONTENDERS;
    let (wide, events) = (page::gates(ours, &ServerShape::WIDE), page::events(ours));
    assert!(section("### M/M/64").contains(&wide), "{wide}{OUT_OF_DATE}");
    assert!(section("## Events").contains(&events), "{events}{OUT_OF_DATE}");
}

#[test]
fn sluicegate_meets_every_gate_and_event() {
    let ours: Vec<&str> = PAGE.lines().filter(|line| line.starts_with("| Sluicegate |")).collect();
    assert_eq!(ours.len(), ServerShape::ALL.len() + 1, "one of each shape, and one of events");
    for row in ours {
        assert!(row.contains('✓') && !row.contains('✗'), "{row}");
    }
}

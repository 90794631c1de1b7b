//! The page in `docs/` is what this program writes today: all of its words, and a part of its figures that is quickly
//! played again. Whoever changes a law, or what it meets, is reminded to write the page anew.

use sluicegate_testkit::overload::trial::Shape;

use crate::{LAWS, page};

const PAGE: &str = include_str!("../../../../docs/adaptive-bench.md");
const ANEW: &str = "is not what `make bench-adaptive` writes: run it";

/// The part of the page under a heading.
fn under(heading: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("{heading} {ANEW}"));
    rest.split("\n#").next().unwrap_or(rest)
}

#[test]
fn its_words_are_those_of_today() {
    let words = page::write(|_, _| String::new(), |_| String::new());
    let figures = |line: &&str| !LAWS.iter().any(|law| line.starts_with(&format!("| {} |", law.name)));
    let [written, expected] = [PAGE, &words].map(|text| text.lines().filter(figures).collect::<Vec<_>>());
    for (written, expected) in written.iter().zip(&expected) {
        assert_eq!(written, expected, "the page {ANEW}");
    }
    assert_eq!(written.len(), expected.len(), "the page {ANEW}");
}

#[test]
fn its_figures_of_every_law_before_a_queue_are_those_of_today() {
    let written = under("### M/M/8");
    for law in LAWS {
        let row = page::gates(law, &Shape::QUEUE);
        assert!(written.contains(&row), "{row}{ANEW}");
    }
}

#[test]
fn its_figures_of_ours_before_many_workers_and_in_events_are_those_of_today() {
    let [ours, ..] = LAWS;
    let (wide, events) = (page::gates(ours, &Shape::WIDE), page::events(ours));
    assert!(under("### M/M/64").contains(&wide), "{wide}{ANEW}");
    assert!(under("## Events").contains(&events), "{events}{ANEW}");
}

#[test]
fn ours_meets_every_gate_and_event_on_it() {
    let ours: Vec<&str> = PAGE.lines().filter(|line| line.starts_with("| Sluicegate |")).collect();
    assert_eq!(ours.len(), Shape::ALL.len() + 1, "one of each shape, and one of events");
    for row in ours {
        assert!(row.contains('✓') && !row.contains('✗'), "{row}");
    }
}

//! SVG picture of a simulated burst.
//!
//! The upper part shows every request as a dot at its arrival, and as a ring at its admission if it was queued.
//! The lower part shows the number of admitted requests in the last second, next to the limit of ten.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::burst::{ArrivalResult, ArrivalTrace, DURATION_MS};

const WIDTH: u64 = 760;
const LEFT: u64 = 50;
const RIGHT: u64 = 745;
/// Vertical position of the dots.
const DOTS_Y: u64 = 150;
/// Vertical position of the curve's zero.
const CURVE_ZERO_Y: u64 = 290;
const BOTTOM: u64 = 325;
/// Height of one request in the curve.
const CURVE_UNIT: u64 = 5;
/// The limit in every picture.
const LIMIT: u64 = 10;
/// Requests within this many milliseconds are stacked in one column.
const COLUMN_MS: u64 = 50;

const ADMITTED: &str = "#1a7f37";
const QUEUED: &str = "#0b6bcb";
const REFUSED: &str = "#c0392b";

/// Draws the traces of all requests.
pub fn draw(title: &str, traces: &[ArrivalTrace]) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {BOTTOM}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<title>{title}</title>\n<rect width=\"{WIDTH}\" height=\"{BOTTOM}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"18\" font-family=\"monospace\">{title}</text>\n"
    );
    legend(&mut svg, traces);
    axis(&mut svg);
    requests(&mut svg, traces);
    curve(&mut svg, traces);
    svg.push_str("</svg>\n");
    svg
}

fn x_of(milliseconds: u64) -> u64 {
    LEFT + milliseconds * (RIGHT - LEFT) / DURATION_MS
}

fn legend(svg: &mut String, traces: &[ArrivalTrace]) {
    let count = |matches: fn(&ArrivalResult) -> bool| traces.iter().filter(|it| matches(&it.result)).count();
    let entries = [
        (ADMITTED, "admitted immediately", count(|result| matches!(result, ArrivalResult::Passed))),
        (QUEUED, "admitted after a wait (ring)", count(|result| matches!(result, ArrivalResult::Waited(_)))),
        (REFUSED, "refused", count(|result| matches!(result, ArrivalResult::Refused))),
    ];
    for (x, (colour, label, number)) in [LEFT, LEFT + 190, LEFT + 430].into_iter().zip(entries) {
        let _ = writeln!(svg, "<circle cx=\"{}\" cy=\"36\" r=\"4\" fill=\"{colour}\"/>", x + 4);
        let _ = writeln!(svg, "<text x=\"{}\" y=\"40\">{number} {label}</text>", x + 14);
    }
}

fn axis(svg: &mut String) {
    for half_second in 0..=DURATION_MS / 500 {
        let x = x_of(half_second * 500);
        let colour = if half_second % 2 == 0 { "#ccc" } else { "#eee" };
        let _ = writeln!(svg, "<path d=\"M{x} 52V{CURVE_ZERO_Y}\" stroke=\"{colour}\"/>");
        if half_second % 2 == 0 {
            let _ = writeln!(
                svg,
                "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{} s</text>",
                CURVE_ZERO_Y + 18,
                half_second / 2
            );
        }
    }
    let _ = writeln!(svg, "<path d=\"M{LEFT} {DOTS_Y}H{RIGHT}M{LEFT} {CURVE_ZERO_Y}H{RIGHT}\" stroke=\"#444\"/>");
    let limit = CURVE_ZERO_Y - LIMIT * CURVE_UNIT;
    let _ = writeln!(svg, "<path d=\"M{LEFT} {limit}H{RIGHT}\" stroke=\"#888\" stroke-dasharray=\"4 3\"/>");
    for (number, y) in [(0, CURVE_ZERO_Y), (LIMIT, limit), (2 * LIMIT, CURVE_ZERO_Y - 2 * LIMIT * CURVE_UNIT)] {
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{number}</text>", LEFT - 6, y + 4);
    }
    let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\">admitted in the last second</text>", LEFT + 6, DOTS_Y + 22);
}

/// Draws dots in columns at the arrivals, and rings from the top at the admissions.
fn requests(svg: &mut String, traces: &[ArrivalTrace]) {
    let mut heights: BTreeMap<u64, u64> = BTreeMap::new();
    for it in traces {
        let column = it.arrived_ms / COLUMN_MS;
        let height = heights.entry(column).or_default();
        let (x, y) = (x_of(column * COLUMN_MS + COLUMN_MS / 2), DOTS_Y - 7 - *height * 9);
        *height += 1;
        let colour = match it.result {
            ArrivalResult::Passed => ADMITTED,
            ArrivalResult::Waited(_) => QUEUED,
            ArrivalResult::Refused => REFUSED,
        };
        let _ = writeln!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"3.5\" fill=\"{colour}\"/>");
        if let ArrivalResult::Waited(until) = it.result {
            let _ = writeln!(
                svg,
                "<circle cx=\"{}\" cy=\"62\" r=\"3.5\" fill=\"none\" stroke=\"{QUEUED}\" stroke-width=\"1.5\"/>",
                x_of(until)
            );
        }
    }
}

/// Draws the number of admitted requests in the last second as a step curve.
fn curve(svg: &mut String, traces: &[ArrivalTrace]) {
    let mut started: Vec<u64> = traces.iter().filter_map(ArrivalTrace::started_ms).collect();
    started.sort_unstable();
    let mut times: Vec<u64> = started.iter().flat_map(|at| [*at, at + 1_000]).filter(|at| *at <= DURATION_MS).collect();
    times.sort_unstable();
    times.dedup();
    let mut path = format!("M{LEFT} {CURVE_ZERO_Y}");
    for now in times {
        let count = started.iter().filter(|at| **at <= now && now < **at + 1_000).count() as u64;
        let _ = write!(path, "H{}V{}", x_of(now), CURVE_ZERO_Y - count * CURVE_UNIT);
    }
    let _ = writeln!(svg, "<path d=\"{path}H{RIGHT}\" fill=\"none\" stroke=\"{ADMITTED}\" stroke-width=\"2\"/>");
}

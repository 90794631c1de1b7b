//! What became of a burst, as SVG.
//!
//! Above, every request is a dot where it came, and a ring where it went on if it had to wait. Below is how many have
//! gone on in the last second, beside the ten that are allowed.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::burst::{Fate, LASTS, Told};

const WIDTH: u64 = 760;
const LEFT: u64 = 50;
const RIGHT: u64 = 745;
/// Where the dots stand.
const FLOOR: u64 = 150;
/// Where the curve's zero is.
const ZERO: u64 = 290;
const BOTTOM: u64 = 325;
/// Height of one request of the curve.
const UNIT: u64 = 5;
/// The limit of every picture.
const TEN: u64 = 10;
/// Requests of so many milliseconds stand on one another.
const COLUMN: u64 = 50;

const PASSED: &str = "#1a7f37";
const WAITED: &str = "#0b6bcb";
const REFUSED: &str = "#c0392b";

/// The picture of what became of each request.
pub fn draw(title: &str, told: &[Told]) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {BOTTOM}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<title>{title}</title>\n<rect width=\"{WIDTH}\" height=\"{BOTTOM}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"18\" font-family=\"monospace\">{title}</text>\n"
    );
    legend(&mut svg, told);
    axis(&mut svg);
    requests(&mut svg, told);
    curve(&mut svg, told);
    svg.push_str("</svg>\n");
    svg
}

fn across(milliseconds: u64) -> u64 {
    LEFT + milliseconds * (RIGHT - LEFT) / LASTS
}

fn legend(svg: &mut String, told: &[Told]) {
    let count = |wanted: fn(&Fate) -> bool| told.iter().filter(|it| wanted(&it.fate)).count();
    let words = [
        (PASSED, "went on at once", count(|fate| matches!(fate, Fate::Passed))),
        (WAITED, "waited, and went on (ring)", count(|fate| matches!(fate, Fate::Waited(_)))),
        (REFUSED, "refused", count(|fate| matches!(fate, Fate::Refused))),
    ];
    for (x, (colour, word, many)) in [LEFT, LEFT + 170, LEFT + 410].into_iter().zip(words) {
        let _ = writeln!(svg, "<circle cx=\"{}\" cy=\"36\" r=\"4\" fill=\"{colour}\"/>", x + 4);
        let _ = writeln!(svg, "<text x=\"{}\" y=\"40\">{many} {word}</text>", x + 14);
    }
}

fn axis(svg: &mut String) {
    for half in 0..=LASTS / 500 {
        let x = across(half * 500);
        let colour = if half % 2 == 0 { "#ccc" } else { "#eee" };
        let _ = writeln!(svg, "<path d=\"M{x} 52V{ZERO}\" stroke=\"{colour}\"/>");
        if half % 2 == 0 {
            let _ = writeln!(svg, "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{} s</text>", ZERO + 18, half / 2);
        }
    }
    let _ = writeln!(svg, "<path d=\"M{LEFT} {FLOOR}H{RIGHT}M{LEFT} {ZERO}H{RIGHT}\" stroke=\"#444\"/>");
    let limit = ZERO - TEN * UNIT;
    let _ = writeln!(svg, "<path d=\"M{LEFT} {limit}H{RIGHT}\" stroke=\"#888\" stroke-dasharray=\"4 3\"/>");
    for (many, y) in [(0, ZERO), (TEN, limit), (2 * TEN, ZERO - 2 * TEN * UNIT)] {
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{many}</text>", LEFT - 6, y + 4);
    }
    let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\">gone on in the last second</text>", LEFT + 6, FLOOR + 22);
}

/// Dots stand in columns where requests came; rings hang from the top where they went on.
fn requests(svg: &mut String, told: &[Told]) {
    let mut stood: BTreeMap<u64, u64> = BTreeMap::new();
    for it in told {
        let column = it.came / COLUMN;
        let height = stood.entry(column).or_default();
        let (x, y) = (across(column * COLUMN + COLUMN / 2), FLOOR - 7 - *height * 9);
        *height += 1;
        let colour = match it.fate {
            Fate::Passed => PASSED,
            Fate::Waited(_) => WAITED,
            Fate::Refused => REFUSED,
        };
        let _ = writeln!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"3.5\" fill=\"{colour}\"/>");
        if let Fate::Waited(until) = it.fate {
            let _ = writeln!(
                svg,
                "<circle cx=\"{}\" cy=\"62\" r=\"3.5\" fill=\"none\" stroke=\"{WAITED}\" stroke-width=\"1.5\"/>",
                across(until)
            );
        }
    }
}

/// How many have gone on in the last second, as steps.
fn curve(svg: &mut String, told: &[Told]) {
    let mut started: Vec<u64> = told.iter().filter_map(Told::started).collect();
    started.sort_unstable();
    let mut moments: Vec<u64> = started.iter().flat_map(|at| [*at, at + 1_000]).filter(|at| *at <= LASTS).collect();
    moments.sort_unstable();
    moments.dedup();
    let mut path = format!("M{LEFT} {ZERO}");
    for now in moments {
        let many = started.iter().filter(|at| **at <= now && now < **at + 1_000).count() as u64;
        let _ = write!(path, "H{}V{}", across(now), ZERO - many * UNIT);
    }
    let _ = writeln!(svg, "<path d=\"{path}H{RIGHT}\" fill=\"none\" stroke=\"{PASSED}\" stroke-width=\"2\"/>");
}

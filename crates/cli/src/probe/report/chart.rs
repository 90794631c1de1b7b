//! The plot in letters, for terminals.

use std::time::Duration;

use super::super::verdict::Judged;
use super::plot::{Kind, Panel, panels};

/// Room for what stands left of an axis.
const LABELS: usize = 8;
/// The narrowest that is worth drawing.
const NARROWEST: usize = 12;

/// Both panels in so many columns, with these many lines for the dots of each. Empty without a step.
pub(in crate::probe) fn chart(steps: &[Judged], most_p99: Duration, columns: usize, heights: [usize; 2]) -> String {
    let width = columns.saturating_sub(LABELS + 2);
    if steps.is_empty() || width < NARROWEST {
        return String::new();
    }
    let panels = panels(steps, most_p99);
    let drawn = panels.iter().zip(heights).map(|(panel, height)| draw(panel, width, height));
    let legend = format!("{:LABELS$}  ● good  × not good  ? unclear  · what it should be\n", "");
    drawn.collect::<String>() + &legend
}

fn draw(panel: &Panel, width: usize, height: usize) -> String {
    let column = |x: f64| (x * (width - 1) as f64).round() as usize;
    // The first line is the top.
    let row = |y: f64| ((1.0 - y) * (height - 1) as f64).round() as usize;
    let mut cells = vec![vec![' '; width]; height];
    let mut put = |x: usize, y: usize, mark: char| {
        if let Some(cell) = cells.get_mut(y).and_then(|line| line.get_mut(x)) {
            *cell = mark;
        }
    };
    if let Some((left, right)) = panel.ideal {
        for x in 0..width {
            let share = x as f64 / (width - 1) as f64;
            put(x, row(left + (right - left) * share), '·');
        }
    }
    for dot in &panel.dots {
        let mark = match dot.kind {
            Kind::Good => '●',
            Kind::Bad => '×',
            Kind::Unclear => '?',
        };
        put(column(dot.x), row(dot.y), mark);
    }
    let mut labels = vec![String::new(); height];
    for mark in panel.y.marks() {
        labels[row(panel.y.at(mark))] = (panel.write)(mark);
    }
    let mut text = format!("{:LABELS$}  {}\n", "", panel.title);
    for (label, line) in labels.iter().zip(&cells) {
        let line: String = line.iter().collect();
        text.push_str(format!("{label:>LABELS$} │{line}").trim_end());
        text.push('\n');
    }
    text.push_str(&format!("{:LABELS$} └{}\n", "", "─".repeat(width)));
    text.push_str(&foot(panel, width, column));
    text
}

/// The marks of the axis below, as many as have room.
fn foot(panel: &Panel, width: usize, column: impl Fn(f64) -> usize) -> String {
    let mut line = String::new();
    for mark in panel.x.marks() {
        let label = super::super::figures::rate(mark);
        let begin = column(panel.x.at(mark)).saturating_sub(label.len() / 2).min(width.saturating_sub(label.len()));
        if begin >= line.len() + usize::from(!line.is_empty()) {
            line.push_str(&" ".repeat(begin - line.len()));
            line.push_str(&label);
        }
    }
    format!("{:LABELS$}  {line}\n", "")
}

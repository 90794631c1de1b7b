//! Text plot for terminals.

use std::time::Duration;

use super::super::criteria::JudgedStep;
use super::plot::{DotKind, Panel, panels};

/// Width of the axis labels.
const LABEL_WIDTH: usize = 8;
/// Minimum width of a plot.
const MIN_WIDTH: usize = 12;

/// Draws both panels with this width and these heights. Empty without steps.
pub(crate) fn chart(steps: &[JudgedStep], max_p99: Duration, columns: usize, heights: [usize; 2]) -> String {
    let width = columns.saturating_sub(LABEL_WIDTH + 2);
    if steps.is_empty() || width < MIN_WIDTH {
        return String::new();
    }
    let panels = panels(steps, max_p99);
    let plots = panels.iter().zip(heights).map(|(panel, height)| draw(panel, width, height));
    let legend = format!("{:LABEL_WIDTH$}  ● good  × not good  ? unclear  · expected\n", "");
    plots.collect::<String>() + &legend
}

fn draw(panel: &Panel, width: usize, height: usize) -> String {
    let column = |x: f64| (x * (width - 1) as f64).round() as usize;
    // Line 0 is the top.
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
            DotKind::Good => '●',
            DotKind::Bad => '×',
            DotKind::Unclear => '?',
        };
        put(column(dot.x), row(dot.y), mark);
    }
    let mut labels = vec![String::new(); height];
    for mark in panel.y.ticks() {
        labels[row(panel.y.position(mark))] = (panel.format)(mark);
    }
    let mut text = format!("{:LABEL_WIDTH$}  {}\n", "", panel.title);
    for (label, line) in labels.iter().zip(&cells) {
        let line: String = line.iter().collect();
        text.push_str(format!("{label:>LABEL_WIDTH$} │{line}").trim_end());
        text.push('\n');
    }
    text.push_str(&format!("{:LABEL_WIDTH$} └{}\n", "", "─".repeat(width)));
    text.push_str(&x_axis(panel, width, column));
    text
}

/// Labels of the x axis, as many as fit.
fn x_axis(panel: &Panel, width: usize, column: impl Fn(f64) -> usize) -> String {
    let mut line = String::new();
    for mark in panel.x.ticks() {
        let label = super::super::format::rate(mark);
        let begin =
            column(panel.x.position(mark)).saturating_sub(label.len() / 2).min(width.saturating_sub(label.len()));
        if begin >= line.len() + usize::from(!line.is_empty()) {
            line.push_str(&" ".repeat(begin - line.len()));
            line.push_str(&label);
        }
    }
    format!("{:LABEL_WIDTH$}  {line}\n", "")
}

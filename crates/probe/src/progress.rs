//! Progress display on standard error; the report goes to standard output.
//!
//! On a terminal, the steps so far, the plot and a progress bar are redrawn in place and erased at the end.
//! Otherwise every step is one plain line.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use crossterm::terminal;

use super::criteria::JudgedStep;
use super::format::rate;
use super::report::{chart, line, table};
use super::search::StepPurpose;

/// Maximum width that is drawn.
const MAX_COLUMNS: usize = 100;
/// Lines of the plot's panels, and of the complete plot.
const PANEL_LINES: [usize; 2] = [8, 5];
const CHART_LINES: usize = PANEL_LINES[0] + PANEL_LINES[1] + 7;
/// Length of the progress bar.
const BAR_WIDTH: usize = 24;
/// Moves to the first column and clears everything below.
const CLEAR_BELOW: &str = "\r\u{1b}[J";

/// Progress of the current step.
#[derive(Clone, Copy)]
pub(super) struct Progress {
    pub(super) rate: f64,
    pub(super) purpose: StepPurpose,
    /// Elapsed fraction of the step, from 0 to 1.
    pub(super) step_fraction: f64,
    /// Maximum remaining time of the test.
    pub(super) time_left: Duration,
}

pub(super) enum ProgressView {
    Terminal {
        /// Number of lines drawn above the cursor.
        drawn: usize,
    },
    Lines,
}

impl ProgressView {
    pub(super) fn new() -> Self {
        let is_dumb = std::env::var_os("TERM").is_none_or(|kind| kind.is_empty() || kind == "dumb");
        if io::stderr().is_terminal() && !is_dumb { Self::Terminal { drawn: 0 } } else { Self::Lines }
    }

    /// Shows a finished step.
    pub(super) fn step(&mut self, judged: &JudgedStep) {
        if matches!(self, Self::Lines) {
            write_stderr(&format!("{}\n", line(judged)));
        }
    }

    /// Redraws after some time has passed.
    pub(super) fn tick(&mut self, steps: &[JudgedStep], max_p99: Duration, progress: Progress) {
        let Self::Terminal { drawn } = self else { return };
        let (columns, rows) = terminal::size().map_or((80, 24), |(columns, rows)| (columns.into(), rows.into()));
        let text = render(steps, max_p99, progress, columns, rows);
        write_stderr(&format!("{}{text}", erase_lines(*drawn)));
        *drawn = text.matches('\n').count();
    }

    /// Ends the display and erases it.
    pub(super) fn end(&mut self) {
        if let Self::Terminal { drawn } = self {
            write_stderr(&erase_lines(*drawn));
            *drawn = 0;
        }
    }
}

/// Escape sequence that erases this many lines.
fn erase_lines(lines: usize) -> String {
    if lines == 0 { CLEAR_BELOW.to_owned() } else { format!("\u{1b}[{lines}A{CLEAR_BELOW}") }
}

/// Write errors are ignored: they must not end the test.
fn write_stderr(text: &str) {
    let mut err = io::stderr().lock();
    drop(err.write_all(text.as_bytes()).and_then(|()| err.flush()));
}

/// Renders the latest steps, the plot and the progress bar within the given size. No line is wider than the
/// screen.
fn render(steps: &[JudgedStep], max_p99: Duration, progress: Progress, columns: usize, rows: usize) -> String {
    let columns = columns.saturating_sub(1).min(MAX_COLUMNS);
    // The progress bar, an empty line and the table's header.
    let available = rows.saturating_sub(4);
    let plot = if available >= CHART_LINES + 4 { chart(steps, max_p99, columns, PANEL_LINES) } else { String::new() };
    let rows = available.saturating_sub(plot.matches('\n').count());
    let latest = &steps[steps.len().saturating_sub(rows)..];
    let step_table = if latest.is_empty() { String::new() } else { table(latest) + "\n" };
    let lines = step_table.lines().chain(plot.lines()).map(|line| truncate(line, columns) + "\n").collect::<String>();
    lines + &truncate(&bar(progress), columns)
}

fn truncate(line: &str, columns: usize) -> String {
    line.chars().take(columns).collect()
}

fn bar(progress: Progress) -> String {
    let Progress { rate: offered, purpose, step_fraction, time_left } = progress;
    let full = ((step_fraction.clamp(0.0, 1.0) * BAR_WIDTH as f64).round() as usize).min(BAR_WIDTH);
    let purpose = match purpose {
        StepPurpose::Increase => "increasing",
        StepPurpose::Confirm => "repeating",
        StepPurpose::Bisect => "bisecting",
        StepPurpose::Decrease => "decreasing",
    };
    let (minutes, seconds) = (time_left.as_secs() / 60, time_left.as_secs() % 60);
    format!(
        "{}{} {}/s, {purpose}; at most {minutes}:{seconds:02} remaining",
        "█".repeat(full),
        "░".repeat(BAR_WIDTH - full),
        rate(offered)
    )
}

#[cfg(test)]
mod tests {
    use super::super::criteria::judge;
    use super::super::criteria::tests::{CRITERIA, good_step, overloaded_step};
    use super::*;

    const PROGRESS: Progress = Progress {
        rate: 225.0,
        purpose: StepPurpose::Confirm,
        step_fraction: 0.5,
        time_left: Duration::from_secs(125),
    };

    #[test]
    fn progress_grows_with_the_steps() {
        let steps = judge(&[good_step(100.0, 20), good_step(150.0, 24), overloaded_step(225.0, 200.0)], CRITERIA);
        let max_p99 = Duration::from_millis(60);
        insta::assert_snapshot!(render(&steps, max_p99, PROGRESS, 80, 40));
        assert_eq!(
            render(&[], max_p99, PROGRESS, 80, 24),
            "████████████░░░░░░░░░░░░ 225/s, repeating; at most 2:05 remaining"
        );
    }

    #[test]
    fn progress_fits_the_screen() {
        let steps: Vec<_> = (1..60).map(|index| good_step(f64::from(index) * 10.0, 5)).collect();
        let steps = judge(&steps, CRITERIA);
        for columns in 0..130 {
            for rows in 1..60 {
                let drawn = render(&steps, Duration::from_millis(10), PROGRESS, columns, rows);
                assert!(drawn.lines().all(|line| line.chars().count() < columns.max(1)), "{columns}x{rows}");
                assert!(drawn.lines().count() <= rows.max(4), "{columns}x{rows}: {}", drawn.lines().count());
            }
        }
    }
}

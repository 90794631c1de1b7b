//! What is shown while it runs, on standard error: the report is for standard output.
//!
//! On a terminal, the steps so far, the plot and a bar are drawn again and again at the same place, and taken away at
//! the end. Elsewhere every step is one plain line.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use ratatui::crossterm::terminal;

use super::figures::rate;
use super::report::{chart, line, table};
use super::search::Aim;
use super::verdict::Judged;

/// The widest that is drawn.
const WIDEST: usize = 100;
/// Lines of the plot's panels, and of everything around them.
const HEIGHTS: [usize; 2] = [8, 5];
const CHART: usize = HEIGHTS[0] + HEIGHTS[1] + 7;
/// The bar's length.
const BAR: usize = 24;
/// Back to the first column, and everything from there on away.
const CLEAR: &str = "\r\u{1b}[J";

/// What is under way.
#[derive(Clone, Copy)]
pub(super) struct Progress {
    pub(super) rate: f64,
    pub(super) aim: Aim,
    /// How much of the step is over: a share of one.
    pub(super) share: f64,
    /// How long everything can still take.
    pub(super) left: Duration,
}

pub(super) enum Live {
    Terminal {
        /// Lines above the cursor that were drawn.
        drawn: usize,
    },
    Lines,
}

impl Live {
    pub(super) fn new() -> Self {
        let is_dumb = std::env::var_os("TERM").is_none_or(|kind| kind.is_empty() || kind == "dumb");
        if io::stderr().is_terminal() && !is_dumb { Self::Terminal { drawn: 0 } } else { Self::Lines }
    }

    /// A step is over.
    pub(super) fn step(&mut self, judged: &Judged) {
        if matches!(self, Self::Lines) {
            say(&format!("{}\n", line(judged)));
        }
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, steps: &[Judged], most_p99: Duration, progress: Progress) {
        let Self::Terminal { drawn } = self else { return };
        let (columns, rows) = terminal::size().map_or((80, 24), |(columns, rows)| (columns.into(), rows.into()));
        let picture = picture(steps, most_p99, progress, columns, rows);
        say(&format!("{}{picture}", back(*drawn)));
        *drawn = picture.matches('\n').count();
    }

    /// It is over: what was drawn is taken away.
    pub(super) fn end(&mut self) {
        if let Self::Terminal { drawn } = self {
            say(&back(*drawn));
            *drawn = 0;
        }
    }
}

/// Takes so many lines away.
fn back(lines: usize) -> String {
    if lines == 0 { CLEAR.to_owned() } else { format!("\u{1b}[{lines}A{CLEAR}") }
}

/// If nobody can read it, it is not worth ending for.
fn say(text: &str) {
    let mut err = io::stderr().lock();
    drop(err.write_all(text.as_bytes()).and_then(|()| err.flush()));
}

/// The latest steps, the plot and the bar, as far as there is room. No line is longer than the screen is wide.
fn picture(steps: &[Judged], most_p99: Duration, progress: Progress, columns: usize, rows: usize) -> String {
    let columns = columns.saturating_sub(1).min(WIDEST);
    // The bar, an empty line, the table's head.
    let room = rows.saturating_sub(4);
    let drawn = if room >= CHART + 4 { chart(steps, most_p99, columns, HEIGHTS) } else { String::new() };
    let rows = room.saturating_sub(drawn.matches('\n').count());
    let latest = &steps[steps.len().saturating_sub(rows)..];
    let listed = if latest.is_empty() { String::new() } else { table(latest) + "\n" };
    let lines = listed.lines().chain(drawn.lines()).map(|line| cut(line, columns) + "\n").collect::<String>();
    lines + &cut(&bar(progress), columns)
}

fn cut(line: &str, columns: usize) -> String {
    line.chars().take(columns).collect()
}

fn bar(progress: Progress) -> String {
    let Progress { rate: offered, aim, share, left } = progress;
    let full = ((share.clamp(0.0, 1.0) * BAR as f64).round() as usize).min(BAR);
    let aim = match aim {
        Aim::Climb => "climbing",
        Aim::Confirm => "once more",
        Aim::Refine => "closing in",
        Aim::Descend => "going down",
    };
    let (minutes, seconds) = (left.as_secs() / 60, left.as_secs() % 60);
    format!(
        "{}{} {}/s, {aim}; {minutes}:{seconds:02} left at most",
        "█".repeat(full),
        "░".repeat(BAR - full),
        rate(offered)
    )
}

#[cfg(test)]
mod tests {
    use super::super::verdict::judge;
    use super::super::verdict::tests::{DEMANDS, behind, well};
    use super::*;

    const PROGRESS: Progress = Progress { rate: 225.0, aim: Aim::Confirm, share: 0.5, left: Duration::from_secs(125) };

    #[test]
    fn the_picture_grows_with_the_steps() {
        let steps = judge(&[well(100.0, 20), well(150.0, 24), behind(225.0, 200.0)], DEMANDS);
        let most = Duration::from_millis(60);
        insta::assert_snapshot!(picture(&steps, most, PROGRESS, 80, 40));
        assert_eq!(
            picture(&[], most, PROGRESS, 80, 24),
            "████████████░░░░░░░░░░░░ 225/s, once more; 2:05 left at most"
        );
    }

    #[test]
    fn the_picture_fits_the_screen() {
        let steps: Vec<_> = (1..60).map(|nth| well(f64::from(nth) * 10.0, 5)).collect();
        let steps = judge(&steps, DEMANDS);
        for columns in 0..130 {
            for rows in 1..60 {
                let drawn = picture(&steps, Duration::from_millis(10), PROGRESS, columns, rows);
                assert!(drawn.lines().all(|line| line.chars().count() < columns.max(1)), "{columns}x{rows}");
                assert!(drawn.lines().count() <= rows.max(4), "{columns}x{rows}: {}", drawn.lines().count());
            }
        }
    }
}

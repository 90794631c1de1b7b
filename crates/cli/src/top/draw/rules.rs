//! The rules: what passes, what does not, how much of the limit is used, what protects the process, the traffic of the
//! last minute.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::Text as Drawn;
use ratatui::widgets::{Cell, Row};

use super::figures;
use super::palette::Palette;
use crate::top::model::{Model, RuleRow};
use crate::top::text::fitted;

/// How wide the bar of what is used is, without its percentage.
const BAR: usize = 5;
/// The least the traffic gets where there is room for it.
const TRAFFIC: u16 = 10;

/// A column besides the rule's name.
struct Part {
    title: &'static str,
    width: u16,
    /// Screens narrower than this go without it.
    from: u16,
    draw: fn(&RuleRow, Palette) -> (String, Style),
}

const PARTS: [Part; 5] = [
    Part { title: "PASSED/S", width: 8, from: 0, draw: |row, palette| (passed(row), palette.plain()) },
    Part { title: "LIMITED/S", width: 9, from: 0, draw: limited },
    Part { title: "BANNED/S", width: 8, from: 60, draw: banned },
    Part { title: "WAITING", width: 7, from: 60, draw: waiting },
    Part { title: "USED", width: 10, from: 70, draw: used },
];

/// Only where there are rules that protect the process.
const PROTECTION: Part = Part { title: "HOLDS", width: 13, from: 70, draw: holds };

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, palette: Palette) {
    let protects = model.seen().rules.iter().any(|rule| rule.figures.protection.is_some());
    let parts = PARTS.iter().chain(protects.then_some(&PROTECTION));
    let parts: Vec<&Part> = parts.filter(|part| area.width >= part.from).collect();
    let others: u16 = parts.iter().map(|part| part.width + 1).sum();
    let traffic = match area.width {
        ..80 => 0,
        ..100 if protects => 0,
        width => (width - others).div_ceil(3).clamp(TRAFFIC, 60),
    };
    let name = area.width.saturating_sub(others + if traffic > 0 { traffic + 1 } else { 0 });
    let mut widths = vec![Constraint::Length(name)];
    widths.extend(parts.iter().map(|part| Constraint::Length(part.width)));
    let mut titles = vec![Cell::from("RULE")];
    titles.extend(parts.iter().map(|part| right(part.title.to_owned(), Style::new())));
    if traffic > 0 {
        widths.push(Constraint::Length(traffic));
        titles.push(Cell::from("TRAFFIC"));
    }
    let row = |rule: &RuleRow| {
        let mut cells = vec![Cell::from(fitted(&rule.figures.name.to_string(), usize::from(name)))];
        cells.extend(parts.iter().map(|part| {
            let (text, style) = (part.draw)(rule, palette);
            right(text, style)
        }));
        if traffic > 0 {
            cells.push(Cell::from(figures::spark(rule.past.iter(), usize::from(traffic))).style(palette.figure()));
        }
        Row::new(cells)
    };
    let rows = model.rules().into_iter().map(row).collect();
    let empty = match &model.seen().tick {
        None => "no figures yet",
        Some(_) => "there are no rules",
    };
    super::table(frame, area, model, palette, super::Rows { widths, header: Row::new(titles), rows, empty });
}

fn right(text: String, style: Style) -> Cell<'static> {
    Cell::from(Drawn::from(text).alignment(Alignment::Right)).style(style)
}

fn passed(row: &RuleRow) -> String {
    figures::rate(row.rates.map(|rates| rates.passed))
}

fn limited(row: &RuleRow, palette: Palette) -> (String, Style) {
    let rate = row.rates.map(|rates| rates.limited);
    (figures::rate(rate), if rate > Some(0.0) { palette.warning() } else { palette.plain() })
}

fn banned(row: &RuleRow, palette: Palette) -> (String, Style) {
    let rate = row.rates.map(|rates| rates.banned);
    (figures::rate(rate), if rate > Some(0.0) { palette.bad() } else { palette.plain() })
}

fn waiting(row: &RuleRow, palette: Palette) -> (String, Style) {
    let waiting = row.figures.waiting;
    (figures::count(waiting), if waiting > 0 { palette.warning() } else { palette.plain() })
}

fn used(row: &RuleRow, palette: Palette) -> (String, Style) {
    let used = row.figures.used;
    (figures::bar(used, BAR), if used >= Some(0.9) { palette.bad() } else { palette.figure() })
}

fn holds(row: &RuleRow, palette: Palette) -> (String, Style) {
    let Some(protection) = &row.figures.protection else { return (String::new(), palette.plain()) };
    let style = if protection.state.raw() == "limited" { palette.warning() } else { palette.plain() };
    (fitted(&protection.ceiling.to_string(), usize::from(PROTECTION.width)), style)
}

//! View of the rules: admitted and refused rates, limit usage, overload protection, and the traffic of the last
//! minute.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::Text as Drawn;
use ratatui::widgets::{Cell, Row};

use super::format;
use super::palette::Palette;
use crate::model::{Model, RuleRow};
use crate::sanitize::truncate;

/// Width of the usage bar, without its percentage.
const BAR_WIDTH: usize = 5;
/// Minimum width of the traffic sparkline.
const MIN_TRAFFIC_WIDTH: u16 = 10;

/// A column next to the rule's name.
struct RuleTableColumn {
    title: &'static str,
    width: u16,
    /// Hidden on screens narrower than this.
    min_screen_width: u16,
    draw: fn(&RuleRow, Palette) -> (String, Style),
}

const COLUMNS: [RuleTableColumn; 5] = [
    RuleTableColumn {
        title: "ADMITTED/S",
        width: 10,
        min_screen_width: 0,
        draw: |row, palette| (admitted(row), palette.plain()),
    },
    RuleTableColumn { title: "REFUSED/S", width: 9, min_screen_width: 0, draw: refused },
    RuleTableColumn { title: "BANNED/S", width: 8, min_screen_width: 60, draw: banned },
    RuleTableColumn { title: "WAITING", width: 7, min_screen_width: 60, draw: waiting },
    RuleTableColumn { title: "USED", width: 10, min_screen_width: 70, draw: used },
];

/// Shown only if there are adaptive rules.
const PROTECTION_COLUMN: RuleTableColumn =
    RuleTableColumn { title: "CEILING", width: 13, min_screen_width: 70, draw: protection };

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, palette: Palette) {
    let has_adaptive = model.displayed().rules.iter().any(|rule| rule.figures.protection.is_some());
    let parts = COLUMNS.iter().chain(has_adaptive.then_some(&PROTECTION_COLUMN));
    let parts: Vec<&RuleTableColumn> = parts.filter(|part| area.width >= part.min_screen_width).collect();
    let others: u16 = parts.iter().map(|part| part.width + 1).sum();
    let traffic = match area.width {
        ..80 => 0,
        ..100 if has_adaptive => 0,
        width => (width - others).div_ceil(3).clamp(MIN_TRAFFIC_WIDTH, 60),
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
        let mut cells = vec![Cell::from(truncate(&rule.figures.name.to_string(), usize::from(name)))];
        cells.extend(parts.iter().map(|part| {
            let (text, style) = (part.draw)(rule, palette);
            right(text, style)
        }));
        if traffic > 0 {
            cells
                .push(Cell::from(format::sparkline(rule.history.iter(), usize::from(traffic))).style(palette.figure()));
        }
        Row::new(cells)
    };
    let rows = model.rules().into_iter().map(row).collect();
    let empty = match &model.displayed().tick {
        None => "no data yet",
        Some(_) => "no rules",
    };
    super::table(frame, area, model, palette, super::TableContent { widths, header: Row::new(titles), rows, empty });
}

fn right(text: String, style: Style) -> Cell<'static> {
    Cell::from(Drawn::from(text).alignment(Alignment::Right)).style(style)
}

fn admitted(row: &RuleRow) -> String {
    format::rate(row.rates.map(|rates| rates.admitted))
}

fn refused(row: &RuleRow, palette: Palette) -> (String, Style) {
    let rate = row.rates.map(|rates| rates.refused);
    (format::rate(rate), if rate > Some(0.0) { palette.warning() } else { palette.plain() })
}

fn banned(row: &RuleRow, palette: Palette) -> (String, Style) {
    let rate = row.rates.map(|rates| rates.banned);
    (format::rate(rate), if rate > Some(0.0) { palette.bad() } else { palette.plain() })
}

fn waiting(row: &RuleRow, palette: Palette) -> (String, Style) {
    let waiting = row.figures.waiting;
    (format::count(waiting), if waiting > 0 { palette.warning() } else { palette.plain() })
}

fn used(row: &RuleRow, palette: Palette) -> (String, Style) {
    let used = row.figures.used;
    (format::bar(used, BAR_WIDTH), if used >= Some(0.9) { palette.bad() } else { palette.figure() })
}

fn protection(row: &RuleRow, palette: Palette) -> (String, Style) {
    let Some(protection) = &row.figures.protection else { return (String::new(), palette.plain()) };
    let style = if protection.state.raw() == "limited" { palette.warning() } else { palette.plain() };
    (truncate(&protection.ceiling.to_string(), usize::from(PROTECTION_COLUMN.width)), style)
}

//! The keys that ask most, of every rule that counts them.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::text::Text as Drawn;
use ratatui::widgets::{Cell, Row};

use super::figures;
use super::palette::Palette;
use crate::top::model::{KeyRow, Model};
use crate::top::text::fitted;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, palette: Palette) {
    let is_wide = area.width >= 60;
    let others: u16 = if is_wide { 27 } else { 16 };
    let rule = area.width.saturating_sub(others) / 3;
    let key = area.width.saturating_sub(others + rule + 1);
    let mut widths =
        vec![Constraint::Length(rule), Constraint::Length(key), Constraint::Length(7), Constraint::Length(7)];
    let right = |text: String| Cell::from(Drawn::from(text).alignment(Alignment::Right));
    let mut titles =
        vec![Cell::from("RULE"), Cell::from("KEY"), right("ASKED".to_owned()), right("LIMITED".to_owned())];
    if is_wide {
        widths.push(Constraint::Length(10));
        titles.push(right("WITHIN".to_owned()));
    }
    let row = |row: KeyRow<'_>| {
        let fit = |text: String, width: u16| Cell::from(fitted(&text, usize::from(width)));
        let count = |many: Option<u64>| right(many.map_or_else(|| "-".to_owned(), figures::count));
        let mut cells = vec![
            fit(row.rule.to_string(), rule),
            fit(row.key.to_string(), key),
            count(row.asked),
            count(row.refused).style(if row.refused > Some(0) { palette.warning() } else { palette.plain() }),
        ];
        if is_wide {
            cells.push(right(figures::time(row.over)));
        }
        Row::new(cells)
    };
    let rows = model.keys().into_iter().map(row).collect();
    let empty = match &model.seen().top {
        None => "not heard yet",
        Some(_) => "no rule has counted a key",
    };
    super::table(frame, area, model, palette, super::Rows { widths, header: Row::new(titles), rows, empty });
}

//! View of the top keys of each rule.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::text::Text as Drawn;
use ratatui::widgets::{Cell, Row};

use super::format;
use super::palette::Palette;
use crate::model::{KeyRow, Model};
use crate::sanitize::truncate;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, palette: Palette) {
    let is_wide = area.width >= 60;
    let others: u16 = if is_wide { 27 } else { 16 };
    let rule = area.width.saturating_sub(others) / 3;
    let key = area.width.saturating_sub(others + rule + 1);
    let mut widths =
        vec![Constraint::Length(rule), Constraint::Length(key), Constraint::Length(7), Constraint::Length(7)];
    let right = |text: String| Cell::from(Drawn::from(text).alignment(Alignment::Right));
    let mut titles =
        vec![Cell::from("RULE"), Cell::from("KEY"), right("CHECKED".to_owned()), right("REFUSED".to_owned())];
    if is_wide {
        widths.push(Constraint::Length(10));
        titles.push(right("WINDOW".to_owned()));
    }
    let row = |row: KeyRow<'_>| {
        let fit = |text: String, width: u16| Cell::from(truncate(&text, usize::from(width)));
        let count = |number: Option<u64>| right(number.map_or_else(|| "-".to_owned(), format::count));
        let mut cells = vec![
            fit(row.rule.to_string(), rule),
            fit(row.key.to_string(), key),
            count(row.checked),
            count(row.refused).style(if row.refused > Some(0) { palette.warning() } else { palette.plain() }),
        ];
        if is_wide {
            cells.push(right(format::time(row.over)));
        }
        Row::new(cells)
    };
    let rows = model.keys().into_iter().map(row).collect();
    let empty = match &model.displayed().top {
        None => "no data yet",
        Some(_) => "no keys",
    };
    super::table(frame, area, model, palette, super::TableContent { widths, header: Row::new(titles), rows, empty });
}

//! View of the active bans.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::text::Text as Drawn;
use ratatui::widgets::{Cell, Row};

use super::format;
use super::palette::Palette;
use crate::api_types::Ban;
use crate::model::Model;
use crate::sanitize::truncate;

/// Width of the remaining time.
const TIME_WIDTH: u16 = 9;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, palette: Palette) {
    let rule = area.width.saturating_sub(TIME_WIDTH + 2) / 3;
    let key = area.width.saturating_sub(TIME_WIDTH + 2 + rule);
    let widths = [Constraint::Length(rule), Constraint::Length(key), Constraint::Length(TIME_WIDTH)];
    let right = |text: String| Cell::from(Drawn::from(text).alignment(Alignment::Right));
    let titles = Row::new([Cell::from("RULE"), Cell::from("KEY"), right("REMAINING".to_owned())]);
    let row = |ban: &Ban| {
        let fit = |text: String, width: u16| Cell::from(truncate(&text, usize::from(width)));
        Row::new([fit(ban.rule.to_string(), rule), fit(ban.key.to_string(), key), right(format::time(ban.remaining))])
    };
    let rows = model.bans().into_iter().map(row).collect();
    let empty = match &model.displayed().bans {
        None => "no data yet",
        Some(_) => "no bans",
    };
    super::table(
        frame,
        area,
        model,
        palette,
        super::TableContent { widths: widths.to_vec(), header: titles, rows, empty },
    );
}

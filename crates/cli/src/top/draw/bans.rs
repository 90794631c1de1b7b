//! The bans in force.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::text::Text as Drawn;
use ratatui::widgets::{Cell, Row};

use super::figures;
use super::palette::Palette;
use crate::top::model::Model;
use crate::top::text::fitted;
use crate::top::wire::Ban;

/// How wide the time left is.
const TIME: u16 = 9;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, palette: Palette) {
    let rule = area.width.saturating_sub(TIME + 2) / 3;
    let key = area.width.saturating_sub(TIME + 2 + rule);
    let widths = [Constraint::Length(rule), Constraint::Length(key), Constraint::Length(TIME)];
    let right = |text: String| Cell::from(Drawn::from(text).alignment(Alignment::Right));
    let titles = Row::new([Cell::from("RULE"), Cell::from("KEY"), right("TIME LEFT".to_owned())]);
    let row = |ban: &Ban| {
        let fit = |text: String, width: u16| Cell::from(fitted(&text, usize::from(width)));
        Row::new([fit(ban.rule.to_string(), rule), fit(ban.key.to_string(), key), right(figures::time(ban.remaining))])
    };
    let rows = model.bans().into_iter().map(row).collect();
    let empty = match &model.seen().bans {
        None => "not heard yet",
        Some(_) => "nobody is banned",
    };
    super::table(frame, area, model, palette, super::Rows { widths: widths.to_vec(), header: titles, rows, empty });
}

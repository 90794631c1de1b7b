//! Which keys do what, and what the columns mean.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Wrap};

use super::palette::Palette;
use crate::top::model::Model;

const KEYS: [(&str, &str); 9] = [
    ("q", "end"),
    ("Tab, 1 to 5", "another view"),
    ("arrows, j, k", "up and down"),
    ("s", "sort by the next column"),
    ("r", "reverse the order"),
    ("/", "filter by a part of the name"),
    ("Esc", "clear the filter"),
    ("p", "pause, and go on"),
    ("x", "lift the chosen ban"),
];

const WORDS: [(&str, &str); 7] = [
    ("PASSED/S", "admitted each second"),
    ("LIMITED/S", "refused by the limit"),
    ("BANNED/S", "turned away by a ban"),
    ("WAITING", "in line now"),
    ("USED", "of the tightest limit, now"),
    ("HOLDS", "by a protection, now"),
    ("TRAFFIC", "all of these, last minute"),
];

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, palette: Palette) {
    let pair = |(word, meaning): &(&str, &str)| Line::raw(format!("{word:<13}{meaning}"));
    let mut lines = vec![Line::styled("KEYS", palette.header())];
    lines.extend(KEYS.iter().map(pair));
    lines.extend([Line::default(), Line::styled("COLUMNS", palette.header())]);
    lines.extend(WORDS.iter().map(pair));
    let offset = model.cursor().min(lines.len().saturating_sub(1)) as u16;
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).scroll((offset, 0)), area);
}

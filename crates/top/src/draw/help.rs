//! Help view: keys and column meanings.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Wrap};

use super::palette::Palette;
use crate::model::Model;

const KEY_HELP: [(&str, &str); 9] = [
    ("q", "quit"),
    ("Tab, 1 to 5", "switch view"),
    ("arrows, j, k", "move up or down"),
    ("s", "sort by the next column"),
    ("r", "reverse the order"),
    ("/", "filter by name"),
    ("Esc", "clear the filter"),
    ("p", "pause or resume"),
    ("x", "remove the selected ban"),
];

const COLUMN_HELP: [(&str, &str); 7] = [
    ("ADMITTED/S", "admitted per second"),
    ("REFUSED/S", "refused by the limit"),
    ("BANNED/S", "refused by a ban"),
    ("WAITING", "requests in the queue"),
    ("USED", "share of the tightest limit"),
    ("CEILING", "overload protection"),
    ("TRAFFIC", "all requests, last minute"),
];

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, palette: Palette) {
    let pair = |(word, meaning): &(&str, &str)| Line::raw(format!("{word:<13}{meaning}"));
    let mut lines = vec![Line::styled("KEYS", palette.header())];
    lines.extend(KEY_HELP.iter().map(pair));
    lines.extend([Line::default(), Line::styled("COLUMNS", palette.header())]);
    lines.extend(COLUMN_HELP.iter().map(pair));
    let offset = model.cursor().min(lines.len().saturating_sub(1)) as u16;
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).scroll((offset, 0)), area);
}

//! Draws a [`Model`]: a line of state, the views to choose from, the chosen one, and what can be done.
//!
//! The same model on a screen of the same size is always the same picture. What does not fit is left out, the
//! least needed first; no screen is too small to draw on.

mod bans;
pub(super) mod figures;
mod help;
mod keys;
mod palette;
mod rules;
mod store;

use std::time::Instant;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Table, TableState, Wrap};

pub(super) use self::palette::Palette;
use super::client::Trouble;
use super::model::{Column, Connection, Mode, Model, Sort, View};
use super::text::{Text, fitted};

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, palette: Palette, now: Instant) {
    let [head, views, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(state(model, palette, now, head.width), head);
    frame.render_widget(tabs(model, palette, views.width), views);
    match model.view {
        View::Rules => rules::draw(frame, body, model, palette),
        View::Keys => keys::draw(frame, body, model, palette),
        View::Bans => bans::draw(frame, body, model, palette),
        View::Store => store::draw(frame, body, model, palette),
        View::Help => help::draw(frame, body, model, palette),
    }
    frame.render_widget(footer(model, palette, foot.width), foot);
    if let Mode::Confirm(ban) = &model.mode {
        let text = format!("Lift the ban of {} by {}?", ban.key, ban.rule);
        confirm(frame, palette, &text);
    }
}

/// How the connection stands, what is watched, and what it says of itself.
fn state(model: &Model, palette: Palette, now: Instant, width: u16) -> Line<'static> {
    let (word, style) = match &model.connection {
        Connection::Connecting => ("connecting".to_owned(), palette.warning()),
        Connection::Live => ("live".to_owned(), palette.good()),
        Connection::Lost { why: Trouble::TokenNeeded | Trouble::TokenUnknown, .. } => {
            ("token needed".to_owned(), palette.bad())
        }
        Connection::Lost { since, .. } => {
            (format!("reconnecting, {}", figures::time(now.saturating_duration_since(*since))), palette.warning())
        }
    };
    let mut parts = vec![Span::styled(format!("● {word}"), style)];
    if model.is_paused() {
        parts.push(Span::styled("  paused", palette.warning()));
    }
    let mut said = vec![model.place.clone()];
    let seen = model.seen();
    if let Some(tick) = &seen.tick {
        said.push(format!("{} rules", seen.rules.len()));
        said.push(format!("{} bans", tick.bans));
        if let Some(store) = &tick.store {
            said.push(format!("store {store}"));
        }
        if let Some(in_flight) = tick.in_flight {
            said.push(format!("{in_flight} in flight"));
        }
    }
    if let Some(status) = &seen.status {
        said.push(format!("up {}", figures::time(status.uptime)));
    }
    let used: usize = parts.iter().map(Span::width).sum();
    let mut left = usize::from(width).saturating_sub(used);
    for text in said {
        let part = format!("  {text}");
        let part = fitted(&part, left);
        left = left.saturating_sub(Span::raw(part.as_str()).width());
        parts.push(Span::raw(part));
    }
    Line::from(parts)
}

fn tabs(model: &Model, palette: Palette, width: u16) -> Line<'static> {
    let is_narrow = width < 52;
    let mut parts = Vec::new();
    for (nth, view) in View::ALL.into_iter().enumerate() {
        let name = if is_narrow { view.short_name() } else { view.name() };
        let text = if is_narrow { format!("{}{name}", nth + 1) } else { format!(" {} {name} ", nth + 1) };
        let style = if view == model.view { palette.chosen() } else { palette.quiet() };
        parts.extend([Span::styled(text, style), Span::raw(" ")]);
    }
    Line::from(parts)
}

/// What went wrong or was done, what is being typed, or which keys do what.
fn footer(model: &Model, palette: Palette, width: u16) -> Line<'static> {
    let columns = usize::from(width);
    if model.mode == Mode::Filter {
        return Line::styled(
            fitted(&format!("/{}▏ Enter keeps it, Esc clears it", model.filter), columns),
            palette.plain(),
        );
    }
    if let Some(remark) = &model.remark {
        return Line::styled(fitted(remark, columns), palette.warning());
    }
    if let Connection::Lost { why, .. } = &model.connection {
        let why = Text::from(why.to_string().as_str()).to_string();
        return Line::styled(fitted(&why, columns), palette.bad());
    }
    let told = model.seen().status.as_ref().and_then(|status| status.last_error.as_ref());
    if let Some(error) = model.seen().tick.as_ref().and_then(|tick| tick.last_error.as_ref()).or(told) {
        return Line::styled(fitted(&format!("rules not taken up: {error}"), columns), palette.bad());
    }
    let mut keys = match model.view {
        View::Rules => format!("q end  ? help  / filter  p pause  s sort: {}", sorted(model.rule_sort)),
        View::Keys => format!("q end  ? help  / filter  p pause  s sort: {}", sorted(model.key_sort)),
        View::Bans => format!("q end  ? help  x lift  / filter  s sort: {}", sorted(model.ban_sort)),
        View::Store | View::Help => "q end  Tab next view".to_owned(),
    };
    if !model.filter.is_empty() {
        keys = format!("filter: {} (Esc clears it)  {keys}", model.filter);
    }
    Line::styled(fitted(&keys, columns), palette.quiet())
}

fn sorted<C: Column>(sort: Sort<C>) -> String {
    format!("{}{}", sort.column.name(), if sort.is_reversed { " (reversed)" } else { "" })
}

/// What a table has in it.
struct Rows<'a> {
    widths: Vec<Constraint>,
    header: Row<'a>,
    rows: Vec<Row<'a>>,
    /// What to say where there are none.
    empty: &'a str,
}

/// A table with the cursor on one of its rows, or a word where there is none.
fn table(frame: &mut Frame<'_>, area: Rect, model: &Model, palette: Palette, rows: Rows<'_>) {
    let Rows { widths, header, rows, empty } = rows;
    let is_empty = rows.is_empty();
    let table = Table::new(rows, widths)
        .header(header.style(palette.header()))
        .column_spacing(1)
        .row_highlight_style(palette.chosen());
    let mut state = TableState::new().with_selected((!is_empty).then(|| model.cursor()));
    frame.render_stateful_widget(table, area, &mut state);
    if is_empty {
        let below = Rect { y: area.y.saturating_add(1), height: area.height.saturating_sub(1), ..area };
        let said = if model.filter.is_empty() { empty } else { "nothing passes the filter" };
        frame.render_widget(Paragraph::new(said).style(palette.quiet()).wrap(Wrap { trim: true }), below);
    }
}

fn confirm(frame: &mut Frame<'_>, palette: Palette, text: &str) {
    let whole = frame.area();
    let (width, height) = (whole.width.min(60), whole.height.min(6));
    let area = Rect { x: (whole.width - width) / 2, y: (whole.height - height) / 2, width, height };
    let inner = usize::from(width.saturating_sub(2));
    // Long keys are shown in part: two lines and the keys to press.
    let lines =
        vec![Line::raw(fitted(text, inner * 2)), Line::styled("y lifts it, any other key does not", palette.quiet())];
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(Block::bordered()), area);
}

#[cfg(test)]
mod tests;

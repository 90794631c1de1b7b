//! Draws a [`Model`]: status line, tabs, the selected view, and a footer with the available keys.
//!
//! Drawing is a pure function of the model and the screen size. Content that does not fit is dropped, the least
//! important first; any screen size works.

mod bans;
pub(super) mod format;
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
use super::client::ClientError;
use super::model::{Column, ConnectionState, InputMode, Model, Sort, View};
use super::sanitize::{UntrustedText, truncate};

/// Draws the complete screen.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, palette: Palette, now: Instant) {
    let [head, views, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(status_line(model, palette, now, head.width), head);
    frame.render_widget(tabs(model, palette, views.width), views);
    match model.view {
        View::Rules => rules::draw(frame, body, model, palette),
        View::Keys => keys::draw(frame, body, model, palette),
        View::Bans => bans::draw(frame, body, model, palette),
        View::Store => store::draw(frame, body, model, palette),
        View::Help => help::draw(frame, body, model, palette),
    }
    frame.render_widget(footer(model, palette, foot.width), foot);
    if let InputMode::Confirm(ban) = &model.mode {
        let text = format!("Remove the ban of {} (rule {})?", ban.key, ban.rule);
        confirm(frame, palette, &text);
    }
}

/// Status line: connection state, endpoint and process status.
fn status_line(model: &Model, palette: Palette, now: Instant, width: u16) -> Line<'static> {
    let (word, style) = match &model.connection {
        ConnectionState::Connecting => ("connecting".to_owned(), palette.warning()),
        ConnectionState::Live => ("live".to_owned(), palette.good()),
        ConnectionState::Lost { error: ClientError::TokenNeeded | ClientError::TokenRejected, .. } => {
            ("token required".to_owned(), palette.bad())
        }
        ConnectionState::Lost { since, .. } => {
            (format!("reconnecting, {}", format::time(now.saturating_duration_since(*since))), palette.warning())
        }
    };
    let mut parts = vec![Span::styled(format!("● {word}"), style)];
    if model.is_paused() {
        parts.push(Span::styled("  paused", palette.warning()));
    }
    let mut parts_text = vec![model.endpoint.clone()];
    let state = model.displayed();
    if let Some(tick) = &state.tick {
        parts_text.push(format!("{} rules", state.rules.len()));
        parts_text.push(format!("{} bans", tick.bans));
        if let Some(store) = &tick.store {
            parts_text.push(format!("store {store}"));
        }
        if let Some(in_flight) = tick.in_flight {
            parts_text.push(format!("{in_flight} in flight"));
        }
    }
    if let Some(status) = &state.status {
        parts_text.push(format!("up {}", format::time(status.uptime)));
    }
    let used: usize = parts.iter().map(Span::width).sum();
    let mut available = usize::from(width).saturating_sub(used);
    for text in parts_text {
        let part = format!("  {text}");
        let part = truncate(&part, available);
        available = available.saturating_sub(Span::raw(part.as_str()).width());
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
        let style = if view == model.view { palette.selected() } else { palette.dim() };
        parts.extend([Span::styled(text, style), Span::raw(" ")]);
    }
    Line::from(parts)
}

/// Footer: the last message, the filter being typed, or the available keys.
fn footer(model: &Model, palette: Palette, width: u16) -> Line<'static> {
    let columns = usize::from(width);
    if model.mode == InputMode::Filter {
        return Line::styled(
            truncate(&format!("/{}▏ Enter applies, Esc clears", model.filter), columns),
            palette.plain(),
        );
    }
    if let Some(message) = &model.message {
        return Line::styled(truncate(message, columns), palette.warning());
    }
    if let ConnectionState::Lost { error, .. } = &model.connection {
        let error = UntrustedText::from(error.to_string().as_str()).to_string();
        return Line::styled(truncate(&error, columns), palette.bad());
    }
    let status_error = model.displayed().status.as_ref().and_then(|status| status.last_error.as_ref());
    if let Some(error) = model.displayed().tick.as_ref().and_then(|tick| tick.last_error.as_ref()).or(status_error) {
        return Line::styled(truncate(&format!("rules not applied: {error}"), columns), palette.bad());
    }
    let mut keys = match model.view {
        View::Rules => format!("q quit  ? help  / filter  p pause  s sort: {}", sort_label(model.rule_sort)),
        View::Keys => format!("q quit  ? help  / filter  p pause  s sort: {}", sort_label(model.key_sort)),
        View::Bans => format!("q quit  ? help  x remove  / filter  s sort: {}", sort_label(model.ban_sort)),
        View::Store | View::Help => "q quit  Tab next view".to_owned(),
    };
    if !model.filter.is_empty() {
        keys = format!("filter: {} (Esc clears)  {keys}", model.filter);
    }
    Line::styled(truncate(&keys, columns), palette.dim())
}

fn sort_label<C: Column>(sort: Sort<C>) -> String {
    format!("{}{}", sort.column.name(), if sort.is_reversed { " (reversed)" } else { "" })
}

/// Content of a table.
struct TableContent<'a> {
    widths: Vec<Constraint>,
    header: Row<'a>,
    rows: Vec<Row<'a>>,
    /// Text shown if there are no rows.
    empty: &'a str,
}

/// Draws a table with a cursor, or a text if it is empty.
fn table(frame: &mut Frame<'_>, area: Rect, model: &Model, palette: Palette, rows: TableContent<'_>) {
    let TableContent { widths, header, rows, empty } = rows;
    let is_empty = rows.is_empty();
    let table = Table::new(rows, widths)
        .header(header.style(palette.header()))
        .column_spacing(1)
        .row_highlight_style(palette.selected());
    let mut state = TableState::new().with_selected((!is_empty).then(|| model.cursor()));
    frame.render_stateful_widget(table, area, &mut state);
    if is_empty {
        let below = Rect { y: area.y.saturating_add(1), height: area.height.saturating_sub(1), ..area };
        let text = if model.filter.is_empty() { empty } else { "no row matches the filter" };
        frame.render_widget(Paragraph::new(text).style(palette.dim()).wrap(Wrap { trim: true }), below);
    }
}

fn confirm(frame: &mut Frame<'_>, palette: Palette, text: &str) {
    let screen = frame.area();
    let (width, height) = (screen.width.min(60), screen.height.min(6));
    let area = Rect { x: (screen.width - width) / 2, y: (screen.height - height) / 2, width, height };
    let inner = usize::from(width.saturating_sub(2));
    // Long keys are truncated: two lines and the keys to press.
    let lines =
        vec![Line::raw(truncate(text, inner * 2)), Line::styled("y: remove, any other key: cancel", palette.dim())];
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(Block::bordered()), area);
}

#[cfg(test)]
mod tests;

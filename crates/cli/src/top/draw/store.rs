//! The store that the fleet shares, and the process itself.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::figures;
use super::palette::Palette;
use crate::top::model::Model;
use crate::top::wire::{Status, Store, Tick};

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, palette: Palette) {
    let seen = model.seen();
    let mut lines = Vec::new();
    lines.push(Line::styled("STORE", palette.header()));
    match &seen.store {
        None => lines.push(Line::styled("not heard yet", palette.quiet())),
        Some(None) => lines.push(Line::raw("none: every rule counts in this process")),
        Some(Some(store)) => lines.extend(of_store(store, palette)),
    }
    lines.push(Line::default());
    lines.push(Line::styled("PROCESS", palette.header()));
    match &seen.status {
        None => lines.push(Line::styled("not heard yet", palette.quiet())),
        Some(status) => lines.extend(of_process(status, seen.tick.as_ref(), palette)),
    }
    let offset = model.cursor().min(lines.len().saturating_sub(1)) as u16;
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).scroll((offset, 0)), area);
}

fn said(name: &str, text: String) -> Line<'static> {
    Line::raw(format!("{:<17}{text}", name.replace('_', " ")))
}

fn of_store(store: &Store, palette: Palette) -> Vec<Line<'static>> {
    let is_up = store.state.raw() == "up";
    let style = if is_up { palette.good() } else { palette.bad() };
    let state = Line::from(vec![Span::raw(format!("{:<17}", "state")), Span::styled(store.state.to_string(), style)]);
    let mut lines = vec![said("url", store.url.to_string()), state];
    lines.extend(store.nodes.map(|nodes| said("nodes", nodes.to_string())));
    lines.extend(store.figures.iter().map(|(name, many)| said(name, many.to_string())));
    lines.extend(store.failures.iter().map(|(kind, many)| said("failed", format!("{many} × {kind}"))));
    let warnings = store.warnings.iter().chain(&store.last_error);
    lines.extend(warnings.map(|text| Line::styled(text.to_string(), palette.warning())));
    lines
}

fn of_process(status: &Status, tick: Option<&Tick>, palette: Palette) -> Vec<Line<'static>> {
    let place = status.path.as_ref().map_or_else(String::new, |path| format!(" {path}"));
    let mut lines = vec![
        said("version", status.version.to_string()),
        said("up", figures::time(status.uptime)),
        said("rules", format!("{} from {}{place}, version {}", status.rules, status.origin, status.rules_version)),
        said("this token", (if status.may_write { "may write" } else { "may read" }).to_owned()),
    ];
    if let Some(Tick { connections: Some(connections), in_flight, .. }) = tick {
        lines.push(said("connections", format!("{connections}, {} requests under way", in_flight.unwrap_or(0))));
    }
    if !status.pending_restart.is_empty() {
        let sections: Vec<String> = status.pending_restart.iter().map(ToString::to_string).collect();
        lines.push(Line::styled(
            format!("changed, in force after a restart: {}", sections.join(", ")),
            palette.warning(),
        ));
    }
    lines.extend(status.last_error.as_ref().map(|error| Line::styled(error.to_string(), palette.bad())));
    lines
}

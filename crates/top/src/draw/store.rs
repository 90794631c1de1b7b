//! View of the cluster store and of the process.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::format;
use super::palette::Palette;
use crate::api_types::{ProcessStatus, StoreStatus, Tick};
use crate::model::Model;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, palette: Palette) {
    let state = model.displayed();
    let mut lines = Vec::new();
    lines.push(Line::styled("STORE", palette.header()));
    match &state.store {
        None => lines.push(Line::styled("no data yet", palette.dim())),
        Some(None) => lines.push(Line::raw("none: all rules are counted in this process")),
        Some(Some(store)) => lines.extend(store_lines(store, palette)),
    }
    lines.push(Line::default());
    lines.push(Line::styled("PROCESS", palette.header()));
    match &state.status {
        None => lines.push(Line::styled("no data yet", palette.dim())),
        Some(status) => lines.extend(process_lines(status, state.tick.as_ref(), palette)),
    }
    let offset = model.cursor().min(lines.len().saturating_sub(1)) as u16;
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).scroll((offset, 0)), area);
}

fn labelled_line(name: &str, text: String) -> Line<'static> {
    Line::raw(format!("{:<17}{text}", name.replace('_', " ")))
}

fn store_lines(store: &StoreStatus, palette: Palette) -> Vec<Line<'static>> {
    let is_up = store.state.raw() == "up";
    let style = if is_up { palette.good() } else { palette.bad() };
    let state = Line::from(vec![Span::raw(format!("{:<17}", "state")), Span::styled(store.state.to_string(), style)]);
    let mut lines = vec![labelled_line("url", store.url.to_string()), state];
    lines.extend(store.nodes.map(|nodes| labelled_line("nodes", nodes.to_string())));
    lines.extend(store.figures.iter().map(|(name, number)| labelled_line(name, number.to_string())));
    lines.extend(store.failures.iter().map(|(kind, number)| labelled_line("failed", format!("{number} × {kind}"))));
    let warnings = store.warnings.iter().chain(&store.last_error);
    lines.extend(warnings.map(|text| Line::styled(text.to_string(), palette.warning())));
    lines
}

fn process_lines(status: &ProcessStatus, tick: Option<&Tick>, palette: Palette) -> Vec<Line<'static>> {
    let path = status.path.as_ref().map_or_else(String::new, |path| format!(" {path}"));
    let mut lines = vec![
        labelled_line("version", status.version.to_string()),
        labelled_line("up", format::time(status.uptime)),
        labelled_line(
            "rules",
            format!("{} from {}{path}, version {}", status.rules, status.origin, status.rules_version),
        ),
        labelled_line("token access", (if status.may_write { "write" } else { "read" }).to_owned()),
    ];
    if let Some(Tick { connections: Some(connections), in_flight, .. }) = tick {
        lines.push(labelled_line(
            "connections",
            format!("{connections}, {} requests in flight", in_flight.unwrap_or(0)),
        ));
    }
    if !status.pending_restart.is_empty() {
        let sections: Vec<String> = status.pending_restart.iter().map(ToString::to_string).collect();
        lines.push(Line::styled(
            format!("changed, applied after a restart: {}", sections.join(", ")),
            palette.warning(),
        ));
    }
    lines.extend(status.last_error.as_ref().map(|error| Line::styled(error.to_string(), palette.bad())));
    lines
}

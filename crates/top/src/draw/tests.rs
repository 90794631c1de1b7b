//! Snapshot tests of the views on several screen sizes.

use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use serde_json::json;
use unicode_width::UnicodeWidthStr;

use super::*;
use crate::api_types::{Ban, ProcessStatus, StoreStatus, Tick, TopKeys};
use crate::poll::Update;

/// Common screen sizes, and a narrow one.
const SIZES: [(u16, u16); 3] = [(80, 24), (40, 16), (120, 12)];

fn model() -> Model {
    Model::new("http://127.0.0.1:9900".to_owned(), Duration::from_secs(1))
}

/// A model with some of everything, including malicious text.
fn busy_model() -> Model {
    let mut model = model();
    for second in 0..30_u64 {
        let figures = json!({"at_ms": 1_000 * second, "bans": 2, "generation": 3, "store": "up", "nodes": 2,
        "gateway": {"connections": 12, "in_flight": 3, "requests": 9},
        "rules": [
            {"name": "orders-per-client", "admitted": 250 * second, "refused": second * second, "used": null},
            {"name": "total", "admitted": 12_345 * second, "refused": 0, "used": 0.93, "waiting": 7},
            {"name": "evil\u{1b}[2J\r\nrule\u{202e}", "admitted": 0, "refused": 0, "banned": 4 * second, "used": 0.25},
            {"name": "größe-und-日本語-and-a-name-that-is-far-too-long-for-any-screen", "admitted": 3},
        ]});
        model.apply(Update::Tick(Tick::from_json(&figures)), Instant::now());
    }
    let status = json!({"version": "0.1.0", "uptime_s": 93_784.5, "access": "write",
        "rules": {"count": 4, "origin": "file", "path": "rules.yaml", "version": 3, "pending_restart": ["gateway"]}});
    let top = json!({"rules": [{"rule": "orders-per-client", "over_s": 83.2,
        "checked": {"keys": [{"key": "203.0.113.9", "count": 81_234}, {"key": "\u{1b}]0;owned\u{7}", "count": 17}]},
        "refused": {"keys": [{"key": "203.0.113.9", "count": 512}]}}]});
    let bans = json!({"bans": [
        {"rule": "evil", "key": "\u{1b}[31mred", "remaining_s": 12.5},
        {"rule": "orders-per-client", "key": "203.0.113.9", "remaining_s": 3_725.0}]});
    let store = json!({"url": "redis://10.0.0.1:6379", "state": "degraded", "nodes": 2, "decisions": 123_456, "calls": 2_345,
        "timeouts": 3, "failures": {"timeout": 3}, "breaker_openings": 1, "reconnects": 2,
        "warnings": ["10.0.0.1:6379: maxmemory-policy is allkeys-lru"], "last_error": "the store did not respond\u{1b}c"});
    let updates = [
        Update::Status(ProcessStatus::from_json(&status)),
        Update::Top(TopKeys::from_json(&top)),
        Update::Bans(Ban::from_json(&bans)),
        Update::Store(StoreStatus::from_json(&store)),
    ];
    updates.into_iter().for_each(|update| model.apply(update, Instant::now()));
    model
}

fn typed(model: &mut Model, keys: &str) {
    for key in keys.chars() {
        model.press(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE));
    }
}

fn terminal(model: &Model, (width, height): (u16, u16), is_coloured: bool, now: Instant) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, model, Palette::new(is_coloured), now)).unwrap();
    terminal.backend().clone()
}

/// Lines of a screen, without trailing spaces.
fn lines(screen: &TestBackend) -> Vec<String> {
    let buffer = screen.buffer();
    let row = |cells: &[ratatui::buffer::Cell]| {
        let (mut line, mut hidden) = (String::new(), 0);
        for cell in cells {
            // Cells behind a wide character are hidden.
            if hidden > 0 {
                hidden -= 1;
            } else {
                line.push_str(cell.symbol());
                hidden = cell.symbol().width().saturating_sub(1);
            }
        }
        line.trim_end().to_owned()
    };
    buffer.content().chunks(usize::from(buffer.area.width)).map(row).collect()
}

fn screen_text(model: &Model, size: (u16, u16)) -> String {
    lines(&terminal(model, size, false, Instant::now())).join("\n")
}

fn snapshots(name: &str, model: &Model) {
    for (width, height) in SIZES {
        insta::assert_snapshot!(format!("{name}_{width}x{height}"), screen_text(model, (width, height)));
    }
}

#[test]
fn rules() {
    snapshots("rules", &busy_model());
}

#[test]
fn adaptive_rules() {
    let mut model = model();
    let figures = json!({"at_ms": 1_000, "rules": [{"name": "per-ip"}, {"name": "guard"}, {"name": "overload"}, {"name": "evil"}],
        "adaptive": [
            {"name": "guard", "state": "steady", "ceiling": "18 in flight", "reason": "concurrency limit 18"},
            {"name": "overload", "state": "limited", "ceiling": "100/1s", "reason": "cpu 97% > 90%: at most 100 per 1s"},
            {"name": "evil", "state": "\u{1b}[2J", "ceiling": "\u{1b}[2J\r\nwide"}]});
    model.apply(Update::Tick(Tick::from_json(&figures)), Instant::now());
    snapshots("protections", &model);
}

#[test]
fn keys() {
    let mut model = busy_model();
    typed(&mut model, "2");
    snapshots("keys", &model);
}

#[test]
fn bans() {
    let mut model = busy_model();
    typed(&mut model, "3");
    snapshots("bans", &model);
    typed(&mut model, "jx");
    insta::assert_snapshot!("bans_confirm_80x24", screen_text(&model, (80, 24)));
    insta::assert_snapshot!("bans_confirm_40x16", screen_text(&model, (40, 16)));
}

#[test]
fn store() {
    let mut model = busy_model();
    typed(&mut model, "4");
    snapshots("store", &model);
}

#[test]
fn help() {
    let mut model = busy_model();
    typed(&mut model, "?");
    snapshots("help", &model);
}

#[test]
fn connection_states_are_shown() {
    let start = Instant::now();
    let state = |model: &Model| {
        let lines = lines(&terminal(model, (80, 5), false, start + Duration::from_secs(7)));
        format!("{}\n{}", lines[0], lines[4])
    };
    let mut model = model();
    assert!(state(&model).starts_with("● connecting  http://127.0.0.1:9900"));
    model.apply(Update::Lost(ClientError::TokenNeeded), start);
    let shown = state(&model);
    assert!(shown.starts_with("● token required") && shown.contains("use --token-file FILE"), "{shown}");
    model.apply(Update::Lost(ClientError::Unreachable("Connection refused\u{1b}".to_owned())), start);
    let shown = state(&model);
    assert!(shown.starts_with("● reconnecting, 7s") && shown.ends_with("\nConnection refused\\u{1b}"), "{shown}");
    model.apply(Update::Tick(Tick::from_json(&json!({"last_error": "line 3: no\nsuch"}))), start);
    let shown = state(&model);
    assert!(shown.starts_with("● live") && shown.ends_with("rules not applied: line 3: no\\nsuch"), "{shown}");
    typed(&mut model, "p");
    assert!(state(&model).starts_with("● live  paused"));
    typed(&mut model, "/ab");
    assert!(state(&model).contains("\n/ab▏"), "{}", state(&model));
}

#[test]
fn any_screen_size_works_and_control_characters_are_escaped() {
    let sizes = [(1, 1), (1, 50), (2, 3), (5, 2), (9, 9), (39, 4), (59, 7), (60, 8), (79, 30), (81, 2), (400, 3)];
    for view in ["1", "2", "3", "4", "5", "3x", "1/evil", "1/none"] {
        for mut model in [model(), busy_model()] {
            typed(&mut model, view);
            for size in sizes {
                let drawn = terminal(&model, size, true, Instant::now());
                let cells = drawn.buffer().content();
                let symbols = cells.iter().flat_map(|cell| cell.symbol().chars());
                assert!(!symbols.into_iter().any(|symbol| symbol.is_control() || symbol == '\u{202e}'));
            }
        }
    }
}

#[test]
fn no_color_output_has_no_colors() {
    let mut model = busy_model();
    let colours = |model: &Model, is_coloured| {
        let drawn = terminal(model, (80, 24), is_coloured, Instant::now());
        drawn.buffer().content().iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count()
    };
    for view in ["1", "2", "3", "4", "5"] {
        typed(&mut model, view);
        assert_eq!(colours(&model, false), 0);
    }
    assert!(colours(&busy_model(), true) > 0);
}

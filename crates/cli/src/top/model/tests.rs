use http::StatusCode;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::*;
use crate::top::wire::{RuleFigures, Status, Tick};

fn model() -> Model {
    Model::new("http://127.0.0.1:9900".to_owned(), Duration::from_secs(1))
}

fn tick(at_ms: u64, rules: &[(&str, u64, u64)]) -> News {
    let figures = |&(name, admitted, refused): &(&str, u64, u64)| RuleFigures {
        name: name.into(),
        admitted,
        refused,
        ..RuleFigures::default()
    };
    News::Tick(Tick { at_ms, rules: rules.iter().map(figures).collect(), ..Tick::default() })
}

fn hear(model: &mut Model, news: impl IntoIterator<Item = News>) {
    for one in news {
        model.hear(one, Instant::now());
    }
}

fn typed(model: &mut Model, text: &str) -> Option<Wish> {
    text.chars().filter_map(|character| press(model, KeyCode::Char(character))).last()
}

fn press(model: &mut Model, code: KeyCode) -> Option<Wish> {
    model.press(KeyEvent::new(code, KeyModifiers::NONE))
}

fn names(model: &Model) -> Vec<&str> {
    model.rules().iter().map(|row| row.figures.name.raw()).collect()
}

fn ban(key: &str, seconds: u64) -> Ban {
    Ban { rule: "per-ip".into(), key: key.into(), remaining: Duration::from_secs(seconds) }
}

fn may(write: bool) -> News {
    News::Status(Status { may_write: write, ..Status::default() })
}

#[test]
fn rules_are_ordered_by_what_happens_now() {
    let mut model = model();
    hear(&mut model, [tick(1_000, &[("a", 0, 900), ("b", 0, 0), ("c", 500, 0)])]);
    assert_eq!(names(&model), ["a", "b", "c"], "by what was refused so far");
    hear(&mut model, [tick(2_000, &[("a", 0, 900), ("b", 9, 30), ("c", 510, 10)])]);
    assert_eq!(names(&model), ["b", "c", "a"], "by what is refused now");
    typed(&mut model, "s");
    assert_eq!((model.rule_sort.column, names(&model)), (RuleColumn::Passed, vec!["c", "b", "a"]));
    typed(&mut model, "r");
    assert_eq!(names(&model), ["a", "b", "c"]);
    typed(&mut model, "ssssss");
    assert_eq!(model.rule_sort, Sort::by(RuleColumn::Limited), "once around");
}

#[test]
fn rules_that_go_and_come_have_no_rates() {
    let mut model = model();
    hear(
        &mut model,
        [tick(1_000, &[("a", 1, 0)]), tick(2_000, &[("b", 1, 0)]), tick(3_000, &[("a", 9, 0), ("b", 3, 0)])],
    );
    let rates: Vec<_> = model.seen().rules.iter().map(|row| row.rates.map(|rates| rates.passed)).collect();
    assert_eq!(rates, [None, Some(2.0)]);
}

#[test]
fn two_rules_of_one_name_do_no_harm() {
    let mut model = model();
    hear(&mut model, [tick(1_000, &[("a", 1, 0), ("a", 2, 0)]), tick(2_000, &[("a", 1, 0), ("a", 2, 0)])]);
    assert_eq!(model.rules().len(), 2);
}

#[test]
fn figures_that_come_too_soon_wait_for_the_interval() {
    let mut model = Model::new(String::new(), Duration::from_secs(5));
    for second in 0..=5 {
        hear(&mut model, [tick(1_000 * second, &[("a", 10 * second, 0)])]);
    }
    assert_eq!(model.seen().rules[0].rates.map(|rates| rates.passed), Some(10.0));
    assert_eq!(model.seen().rules[0].past.len(), 1);
    hear(&mut model, [tick(100, &[("a", 7, 0)])]);
    assert_eq!(model.seen().rules[0].figures.admitted, 7, "a clock that went back is believed");
}

#[test]
fn a_filter_narrows_what_is_shown() {
    let mut model = model();
    hear(&mut model, [tick(1_000, &[("orders", 0, 0), ("Per-IP", 0, 0), ("total", 0, 0)])]);
    assert_eq!(typed(&mut model, "/ipq"), None, "typed into the filter, q ends nothing");
    press(&mut model, KeyCode::Backspace);
    assert_eq!((model.filter.as_str(), names(&model)), ("ip", vec!["Per-IP"]));
    press(&mut model, KeyCode::Enter);
    assert_eq!(model.mode, Mode::Commands);
    typed(&mut model, "jjjj");
    assert_eq!(model.cursor(), 0, "there is only one");
    press(&mut model, KeyCode::Esc);
    assert_eq!(names(&model).len(), 3);
    typed(&mut model, "/");
    (0..1_000).for_each(|_| drop(typed(&mut model, "x")));
    assert!(model.filter.len() <= 100);
}

#[test]
fn a_pause_keeps_the_screen_and_loses_nothing() {
    let mut model = model();
    hear(&mut model, [tick(1_000, &[("a", 1, 0)])]);
    typed(&mut model, "p");
    hear(&mut model, [tick(2_000, &[("a", 5, 0)]), News::Bans(vec![ban("x", 1)])]);
    assert_eq!((model.seen().rules[0].figures.admitted, model.bans().len()), (1, 0));
    typed(&mut model, "p");
    assert_eq!((model.seen().rules[0].figures.admitted, model.bans().len()), (5, 1));
}

#[test]
fn a_ban_is_lifted_only_when_asked_twice() {
    let mut model = model();
    hear(&mut model, [may(true), News::Bans(vec![ban("a", 10), ban("b", 60)])]);
    typed(&mut model, "3");
    assert_eq!(typed(&mut model, "x"), None);
    assert_eq!(model.mode, Mode::Confirm(ban("b", 60)), "the one that lasts longest is first");
    // The list may change meanwhile; what was asked for stays.
    hear(&mut model, [News::Bans(vec![ban("c", 99)])]);
    assert_eq!(typed(&mut model, "y"), Some(Wish::Lift(ban("b", 60))));
    hear(&mut model, [News::Lifted(ban("c", 99), Ok(true))]);
    assert!(model.bans().is_empty() && model.remark.as_deref() == Some("lifted: c by per-ip"));
    hear(&mut model, [News::Bans(vec![ban("d", 1)])]);
    for no in ["xn", "xq", "x ", "x/"] {
        assert_eq!(typed(&mut model, no), None, "{no}");
        assert_eq!(model.mode, Mode::Commands);
    }
    let refused = Trouble::Refused { status: StatusCode::FORBIDDEN, detail: Some("no\n\u{1b}[2J".into()) };
    hear(&mut model, [News::Lifted(ban("d", 1), Err(refused))]);
    assert_eq!(model.remark.as_deref(), Some("not lifted: 403 Forbidden: no\\n\\u{1b}[2J"));
    assert_eq!(model.bans().len(), 1);
    hear(&mut model, [may(false)]);
    typed(&mut model, "x");
    assert!(model.mode == Mode::Commands && model.remark.as_deref().is_some_and(|text| text.contains("only read")));
}

#[test]
fn the_connection_is_told() {
    let mut model = model();
    let begun = Instant::now();
    assert_eq!(model.connection, Connection::Connecting);
    model.hear(News::Lost(Trouble::TokenNeeded), begun);
    model.hear(News::Lost(Trouble::Unreachable("gone".into())), begun + Duration::from_secs(5));
    let lost = Connection::Lost { why: Trouble::Unreachable("gone".into()), since: begun };
    assert_eq!(model.connection, lost, "since the first");
    hear(&mut model, [tick(1_000, &[])]);
    assert_eq!(model.connection, Connection::Live);
}

#[test]
fn every_key_may_be_typed_at_any_time() {
    let codes = [
        KeyCode::Tab,
        KeyCode::BackTab,
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::PageUp,
        KeyCode::PageDown,
        KeyCode::Home,
        KeyCode::End,
        KeyCode::Delete,
        KeyCode::Esc,
        KeyCode::Enter,
        KeyCode::Insert,
        KeyCode::F(1),
        KeyCode::Null,
        KeyCode::Backspace,
    ];
    for start in 0..5 {
        let mut model = model();
        if start > 2 {
            hear(&mut model, [may(true), News::Bans(vec![ban("a", 1)]), tick(1, &[("a", 1, 1)])]);
        }
        for round in 0..200_usize {
            press(&mut model, codes[(round * 7 + start) % codes.len()]);
            press(&mut model, KeyCode::Char(char::from(b' ' + (round * 31 % 94) as u8)));
            let _ = (model.rules(), model.keys(), model.bans(), model.cursor());
        }
    }
    let mut model = model();
    let end = model.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
    assert_eq!((end, typed(&mut model, "q")), (Some(Wish::Quit), Some(Wish::Quit)));
}

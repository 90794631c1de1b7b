use http::StatusCode;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::*;
use crate::api_types::{ProcessStatus, RuleStats, Tick};

fn model() -> Model {
    Model::new("http://127.0.0.1:9900".to_owned(), Duration::from_secs(1))
}

fn tick(at_ms: u64, rules: &[(&str, u64, u64)]) -> Update {
    let figures = |&(name, admitted, refused): &(&str, u64, u64)| RuleStats {
        name: name.into(),
        admitted,
        refused,
        ..RuleStats::default()
    };
    Update::Tick(Tick { at_ms, rules: rules.iter().map(figures).collect(), ..Tick::default() })
}

fn apply_all(model: &mut Model, updates: impl IntoIterator<Item = Update>) {
    for update in updates {
        model.apply(update, Instant::now());
    }
}

fn type_keys(model: &mut Model, text: &str) -> Option<Action> {
    text.chars().filter_map(|character| press(model, KeyCode::Char(character))).last()
}

fn press(model: &mut Model, code: KeyCode) -> Option<Action> {
    model.press(KeyEvent::new(code, KeyModifiers::NONE))
}

fn names(model: &Model) -> Vec<&str> {
    model.rules().iter().map(|row| row.figures.name.raw()).collect()
}

fn ban(key: &str, seconds: u64) -> Ban {
    Ban { rule: "per-ip".into(), key: key.into(), remaining: Duration::from_secs(seconds) }
}

fn access(write: bool) -> Update {
    Update::Status(ProcessStatus { may_write: write, ..ProcessStatus::default() })
}

#[test]
fn rules_are_sorted_by_current_rates() {
    let mut model = model();
    apply_all(&mut model, [tick(1_000, &[("a", 0, 900), ("b", 0, 0), ("c", 500, 0)])]);
    assert_eq!(names(&model), ["a", "b", "c"], "by total refusals");
    apply_all(&mut model, [tick(2_000, &[("a", 0, 900), ("b", 9, 30), ("c", 510, 10)])]);
    assert_eq!(names(&model), ["b", "c", "a"], "by current refusals");
    type_keys(&mut model, "s");
    assert_eq!((model.rule_sort.column, names(&model)), (RuleColumn::Admitted, vec!["c", "b", "a"]));
    type_keys(&mut model, "r");
    assert_eq!(names(&model), ["a", "b", "c"]);
    type_keys(&mut model, "ssssss");
    assert_eq!(model.rule_sort, Sort::by(RuleColumn::Refused), "back to the first column");
}

#[test]
fn removed_and_new_rules_have_no_rates() {
    let mut model = model();
    apply_all(
        &mut model,
        [tick(1_000, &[("a", 1, 0)]), tick(2_000, &[("b", 1, 0)]), tick(3_000, &[("a", 9, 0), ("b", 3, 0)])],
    );
    let rates: Vec<_> = model.displayed().rules.iter().map(|row| row.rates.map(|rates| rates.admitted)).collect();
    assert_eq!(rates, [None, Some(2.0)]);
}

#[test]
fn duplicate_rule_names_are_tolerated() {
    let mut model = model();
    apply_all(&mut model, [tick(1_000, &[("a", 1, 0), ("a", 2, 0)]), tick(2_000, &[("a", 1, 0), ("a", 2, 0)])]);
    assert_eq!(model.rules().len(), 2);
}

#[test]
fn ticks_within_the_interval_are_deferred() {
    let mut model = Model::new(String::new(), Duration::from_secs(5));
    for second in 0..=5 {
        apply_all(&mut model, [tick(1_000 * second, &[("a", 10 * second, 0)])]);
    }
    assert_eq!(model.displayed().rules[0].rates.map(|rates| rates.admitted), Some(10.0));
    assert_eq!(model.displayed().rules[0].history.len(), 1);
    apply_all(&mut model, [tick(100, &[("a", 7, 0)])]);
    assert_eq!(model.displayed().rules[0].figures.admitted, 7, "a clock that went back is accepted");
}

#[test]
fn a_filter_hides_other_rows() {
    let mut model = model();
    apply_all(&mut model, [tick(1_000, &[("orders", 0, 0), ("Per-IP", 0, 0), ("total", 0, 0)])]);
    assert_eq!(type_keys(&mut model, "/ipq"), None, "in the filter, q does not quit");
    press(&mut model, KeyCode::Backspace);
    assert_eq!((model.filter.as_str(), names(&model)), ("ip", vec!["Per-IP"]));
    press(&mut model, KeyCode::Enter);
    assert_eq!(model.mode, InputMode::Commands);
    type_keys(&mut model, "jjjj");
    assert_eq!(model.cursor(), 0, "there is only one row");
    press(&mut model, KeyCode::Esc);
    assert_eq!(names(&model).len(), 3);
    type_keys(&mut model, "/");
    (0..1_000).for_each(|_| drop(type_keys(&mut model, "x")));
    assert!(model.filter.len() <= 100);
}

#[test]
fn pause_freezes_the_screen_without_losing_data() {
    let mut model = model();
    apply_all(&mut model, [tick(1_000, &[("a", 1, 0)])]);
    type_keys(&mut model, "p");
    apply_all(&mut model, [tick(2_000, &[("a", 5, 0)]), Update::Bans(vec![ban("x", 1)])]);
    assert_eq!((model.displayed().rules[0].figures.admitted, model.bans().len()), (1, 0));
    type_keys(&mut model, "p");
    assert_eq!((model.displayed().rules[0].figures.admitted, model.bans().len()), (5, 1));
}

#[test]
fn removing_a_ban_needs_confirmation() {
    let mut model = model();
    apply_all(&mut model, [access(true), Update::Bans(vec![ban("a", 10), ban("b", 60)])]);
    type_keys(&mut model, "3");
    assert_eq!(type_keys(&mut model, "x"), None);
    assert_eq!(model.mode, InputMode::Confirm(ban("b", 60)), "the longest ban is first");
    // The list may change meanwhile; the ban to confirm stays.
    apply_all(&mut model, [Update::Bans(vec![ban("c", 99)])]);
    assert_eq!(type_keys(&mut model, "y"), Some(Action::RemoveBan(ban("b", 60))));
    apply_all(&mut model, [Update::BanRemoved(ban("c", 99), Ok(true))]);
    assert!(model.bans().is_empty() && model.message.as_deref() == Some("ban removed: c (rule per-ip)"));
    apply_all(&mut model, [Update::Bans(vec![ban("d", 1)])]);
    for no in ["xn", "xq", "x ", "x/"] {
        assert_eq!(type_keys(&mut model, no), None, "{no}");
        assert_eq!(model.mode, InputMode::Commands);
    }
    let refused = ClientError::UnexpectedStatus { status: StatusCode::FORBIDDEN, detail: Some("no\n\u{1b}[2J".into()) };
    apply_all(&mut model, [Update::BanRemoved(ban("d", 1), Err(refused))]);
    assert_eq!(model.message.as_deref(), Some("ban not removed: 403 Forbidden: no\\n\\u{1b}[2J"));
    assert_eq!(model.bans().len(), 1);
    apply_all(&mut model, [access(false)]);
    type_keys(&mut model, "x");
    assert!(
        model.mode == InputMode::Commands && model.message.as_deref().is_some_and(|text| text.contains("read-only"))
    );
}

#[test]
fn connection_state_is_tracked() {
    let mut model = model();
    let start = Instant::now();
    assert_eq!(model.connection, ConnectionState::Connecting);
    model.apply(Update::Lost(ClientError::TokenNeeded), start);
    model.apply(Update::Lost(ClientError::Unreachable("reset".into())), start + Duration::from_secs(5));
    let lost = ConnectionState::Lost { error: ClientError::Unreachable("reset".into()), since: start };
    assert_eq!(model.connection, lost, "since the first error");
    apply_all(&mut model, [tick(1_000, &[])]);
    assert_eq!(model.connection, ConnectionState::Live);
}

#[test]
fn any_key_is_accepted_in_any_mode() {
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
            apply_all(&mut model, [access(true), Update::Bans(vec![ban("a", 1)]), tick(1, &[("a", 1, 1)])]);
        }
        for round in 0..200_usize {
            press(&mut model, codes[(round * 7 + start) % codes.len()]);
            press(&mut model, KeyCode::Char(char::from(b' ' + (round * 31 % 94) as u8)));
            let _ = (model.rules(), model.keys(), model.bans(), model.cursor());
        }
    }
    let mut model = model();
    let end = model.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
    assert_eq!((end, type_keys(&mut model, "q")), (Some(Action::Quit), Some(Action::Quit)));
}

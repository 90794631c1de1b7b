//! The screen, in a real terminal.

use crate::admin::Admin;
use crate::terminal::Terminal;
use crate::until;

#[test]
fn the_views_are_shown_and_the_terminal_is_given_back() {
    let admin = Admin::start();
    let mut terminal = Terminal::run(&admin.url(), &[]);
    terminal.shows("per-ip");
    terminal.shows("live");
    terminal.shows("18 at once");
    terminal.type_keys("2");
    terminal.shows("\\u{1b}[2J");
    terminal.type_keys("3");
    terminal.shows("TIME LEFT");
    terminal.type_keys("4");
    terminal.shows("10.0.0.1:6379");
    terminal.type_keys("?");
    terminal.shows("COLUMNS");
    terminal.type_keys("q");
    assert_eq!(terminal.ended(), ("0".to_owned(), true));
    let sent = terminal.sent();
    assert!(!sent.contains("\u{1b}[31mevil"), "what a client sent reached the terminal");
    assert!(sent.contains("\u{1b}[38;5;"), "there are colours");
}

#[test]
fn no_colours_if_none_are_wanted() {
    let admin = Admin::start();
    let mut terminal = Terminal::run(&admin.url(), &[("NO_COLOR", "1")]);
    terminal.shows("per-ip");
    terminal.type_keys("q");
    assert_eq!(terminal.ended(), ("0".to_owned(), true));
    assert!(!terminal.sent().contains("\u{1b}[38;5;"));
}

#[test]
fn a_lost_stream_is_taken_up_again() {
    let admin = Admin::start();
    let mut terminal = Terminal::run(&admin.url(), &[]);
    terminal.shows("per-ip");
    admin.cut(true);
    terminal.shows("reconnecting");
    terminal.shows("503 Service Unavailable: stopping");
    let before = admin.streams();
    admin.cut(false);
    until("it connects again", || admin.streams() > before);
    terminal.type_keys("q");
    assert_eq!(terminal.ended(), ("0".to_owned(), true));
}

#[test]
fn a_missing_token_is_told_and_waited_for() {
    let admin = Admin::start_with(Some("open-sesame"), "write");
    let mut terminal = Terminal::run(&admin.url(), &[]);
    terminal.shows("token needed");
    terminal.shows("SLUICEGATE_TOKEN");
    terminal.type_keys("q");
    assert_eq!(terminal.ended(), ("0".to_owned(), true));
}

#[test]
fn a_ban_is_lifted_after_a_question() {
    let admin = Admin::start();
    let lifted = || admin.asked().into_iter().filter(|asked| asked.starts_with("DELETE ")).collect::<Vec<_>>();
    let mut terminal = Terminal::run(&admin.url(), &[]);
    terminal.type_keys("3");
    terminal.shows("203.0.113.9");
    // The other one lasts longer and comes first.
    terminal.type_keys("jx");
    terminal.shows("Lift the ban of 203.0.113.9 by per-ip?");
    terminal.type_keys("n");
    terminal.type_keys("xy");
    terminal.shows("lifted: 203.0.113.9 by per-ip");
    assert_eq!(lifted(), ["DELETE /v1/bans?rule=per%2Dip&key=203%2E0%2E113%2E9"]);
    terminal.type_keys("gxy");
    until("the other", || lifted().len() == 2);
    assert_eq!(lifted()[1], "DELETE /v1/bans?rule=per%2Dip&key=%1B%5B2J%1B%5B31mevil%0D%0A", "as it came");
    terminal.type_keys("q");
    assert_eq!(terminal.ended(), ("0".to_owned(), true));
}

#[test]
fn who_may_only_read_lifts_nothing() {
    let admin = Admin::start_with(None, "read");
    let mut terminal = Terminal::run(&admin.url(), &[]);
    terminal.type_keys("3");
    terminal.shows("203.0.113.9");
    terminal.type_keys("x");
    terminal.shows("may only read");
    terminal.type_keys("yq");
    assert_eq!(terminal.ended(), ("0".to_owned(), true));
    assert!(!admin.asked().iter().any(|asked| asked.starts_with("DELETE ")));
}

#[test]
fn signals_and_control_c_end_it_in_order() {
    let admin = Admin::start();
    for signal in ["TERM", "HUP", "INT"] {
        let mut terminal = Terminal::run(&admin.url(), &[]);
        terminal.shows("per-ip");
        terminal.signal(signal);
        assert_eq!(terminal.ended(), ("0".to_owned(), true), "{signal}");
    }
    let mut terminal = Terminal::run(&admin.url(), &[]);
    terminal.shows("per-ip");
    terminal.type_keys("\u{3}");
    assert_eq!(terminal.ended(), ("0".to_owned(), true));
}

#[test]
fn a_terminal_that_cannot_draw_gets_a_table() {
    let admin = Admin::start();
    let terminal = Terminal::run(&admin.url(), &[("TERM", "dumb")]);
    terminal.shows("PASSED/S");
    terminal.shows("per-ip");
    assert!(!terminal.sent().contains('\u{1b}'));
}

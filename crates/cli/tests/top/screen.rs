//! The screen of `top` in a real terminal.

use super::admin::FakeAdmin;
use super::terminal::Terminal;
use super::wait_until;

#[test]
fn views_are_drawn_and_the_terminal_is_restored() {
    let admin = FakeAdmin::start();
    let mut terminal = Terminal::run(&admin.url(), &[]);
    terminal.wait_for_line("per-ip");
    terminal.wait_for_line("live");
    terminal.wait_for_line("18 in flight");
    terminal.type_keys("2");
    terminal.wait_for_line("\\u{1b}[2J");
    terminal.type_keys("3");
    terminal.wait_for_line("REMAINING");
    terminal.type_keys("4");
    terminal.wait_for_line("10.0.0.1:6379");
    terminal.type_keys("?");
    terminal.wait_for_line("COLUMNS");
    terminal.type_keys("q");
    assert_eq!(terminal.wait_exit(), ("0".to_owned(), true));
    let sent = terminal.output();
    assert!(!sent.contains("\u{1b}[31mevil"), "client input reached the terminal");
    assert!(sent.contains("\u{1b}[38;5;"), "colours are used");
}

#[test]
fn no_color_is_respected() {
    let admin = FakeAdmin::start();
    let mut terminal = Terminal::run(&admin.url(), &[("NO_COLOR", "1")]);
    terminal.wait_for_line("per-ip");
    terminal.type_keys("q");
    assert_eq!(terminal.wait_exit(), ("0".to_owned(), true));
    assert!(!terminal.output().contains("\u{1b}[38;5;"));
}

#[test]
fn a_lost_stream_is_resumed() {
    let admin = FakeAdmin::start();
    let mut terminal = Terminal::run(&admin.url(), &[]);
    terminal.wait_for_line("per-ip");
    admin.cut(true);
    terminal.wait_for_line("reconnecting");
    terminal.wait_for_line("503 Service Unavailable: stopping");
    let before = admin.streams();
    admin.cut(false);
    wait_until("it reconnects", || admin.streams() > before);
    terminal.type_keys("q");
    assert_eq!(terminal.wait_exit(), ("0".to_owned(), true));
}

#[test]
fn a_missing_token_is_reported_and_retried() {
    let admin = FakeAdmin::start_with(Some("open-sesame"), "write");
    let mut terminal = Terminal::run(&admin.url(), &[]);
    terminal.wait_for_line("token required");
    terminal.wait_for_line("SLUICEGATE_TOKEN");
    terminal.type_keys("q");
    assert_eq!(terminal.wait_exit(), ("0".to_owned(), true));
}

#[test]
fn a_ban_is_removed_after_confirmation() {
    let admin = FakeAdmin::start();
    let deletions =
        || admin.requests().into_iter().filter(|request| request.starts_with("DELETE ")).collect::<Vec<_>>();
    let mut terminal = Terminal::run(&admin.url(), &[]);
    terminal.type_keys("3");
    terminal.wait_for_line("203.0.113.9");
    // The other ban is longer and listed first.
    terminal.type_keys("jx");
    terminal.wait_for_line("Remove the ban of 203.0.113.9 (rule per-ip)?");
    terminal.type_keys("n");
    terminal.type_keys("xy");
    terminal.wait_for_line("ban removed: 203.0.113.9 (rule per-ip)");
    assert_eq!(deletions(), ["DELETE /v1/bans?rule=per%2Dip&key=203%2E0%2E113%2E9"]);
    terminal.type_keys("gxy");
    wait_until("the other ban is removed", || deletions().len() == 2);
    assert_eq!(deletions()[1], "DELETE /v1/bans?rule=per%2Dip&key=%1B%5B2J%1B%5B31mevil%0D%0A", "unchanged");
    terminal.type_keys("q");
    assert_eq!(terminal.wait_exit(), ("0".to_owned(), true));
}

#[test]
fn a_read_only_token_cannot_remove_bans() {
    let admin = FakeAdmin::start_with(None, "read");
    let mut terminal = Terminal::run(&admin.url(), &[]);
    terminal.type_keys("3");
    terminal.wait_for_line("203.0.113.9");
    terminal.type_keys("x");
    terminal.wait_for_line("read-only access");
    terminal.type_keys("yq");
    assert_eq!(terminal.wait_exit(), ("0".to_owned(), true));
    assert!(!admin.requests().iter().any(|request| request.starts_with("DELETE ")));
}

#[test]
fn signals_and_control_c_exit_cleanly() {
    let admin = FakeAdmin::start();
    for signal in ["TERM", "HUP", "INT"] {
        let mut terminal = Terminal::run(&admin.url(), &[]);
        terminal.wait_for_line("per-ip");
        terminal.signal(signal);
        assert_eq!(terminal.wait_exit(), ("0".to_owned(), true), "{signal}");
    }
    let mut terminal = Terminal::run(&admin.url(), &[]);
    terminal.wait_for_line("per-ip");
    terminal.type_keys("\u{3}");
    assert_eq!(terminal.wait_exit(), ("0".to_owned(), true));
}

#[test]
fn a_terminal_that_cannot_draw_gets_a_table() {
    let admin = FakeAdmin::start();
    let terminal = Terminal::run(&admin.url(), &[("TERM", "dumb")]);
    terminal.wait_for_line("ADMITTED/S");
    terminal.wait_for_line("per-ip");
    assert!(!terminal.output().contains('\u{1b}'));
}

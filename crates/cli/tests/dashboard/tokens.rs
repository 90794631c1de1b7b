//! Read and write access to the dashboard by token.

use serde_json::json;

use super::browser::{Browser, Viewport};
use super::fixture::{Dashboard, IS_LIVE, READ_TOKEN, TOKEN, TOKEN_REQUIRED_ERROR, enter_token};

const RULES: &str = "rules:
  - name: per-ip
    key: client.ip
    limits: [2/1m]
    ban: { after: 1 refusals in 1m, for: 1h }
";

#[test]
fn a_wrong_token_shows_nothing() {
    let dashboard = Dashboard::start(RULES);
    let browser = Browser::open(dashboard.admin, Viewport::WIDE);
    browser.go("");
    browser.wait_for_text("dialog", "Token");
    enter_token(&browser, "wrong");
    browser.wait_for_text("dialog", "Unknown token");
    assert_eq!(browser.count(".card.rule"), 0);
    browser.save_screenshot("wrong-token");
    enter_token(&browser, TOKEN);
    browser.until("the stream is live", IS_LIVE, &[]);
    browser.wait_for_text("main", "per-ip");
    // The token is stored in this tab only.
    let kept = "return [sessionStorage.getItem('sluicegate.token'), JSON.stringify(localStorage).includes(arguments[0]), \
        document.cookie]";
    assert_eq!(browser.run(kept, &[json!(TOKEN)]), json!([TOKEN, false, ""]));
    browser.assert_clean(&[TOKEN_REQUIRED_ERROR]);
}

#[test]
fn read_only_tokens_show_why_edits_are_disabled() {
    let dashboard = Dashboard::start(RULES);
    while dashboard.request("203.0.113.9", "/") == 200 {}
    let browser = Browser::open(dashboard.admin, Viewport::WIDE);
    browser.go("#/bans");
    enter_token(&browser, READ_TOKEN);
    browser.wait_for_text(".banners", "Read-only");
    browser.wait_for_text("main table", "203.0.113.9");
    let locked = "return [...document.querySelectorAll('button[data-write]')].every((it) => \
        it.getAttribute('aria-disabled') === 'true' && it.title.includes('read-only'))";
    browser.until("all buttons that write are disabled", locked, &[]);
    // A click shows the reason and sends no request.
    browser.click_text("Remove ban");
    browser.wait_for_text(".notices", "This token is read-only");
    assert_eq!(dashboard.request("203.0.113.9", "/"), 429);
    browser.save_screenshot("read-only");
    browser.assert_clean(&[TOKEN_REQUIRED_ERROR]);
}

#[test]
fn without_tokens_the_dashboard_is_local_and_read_only() {
    let dashboard = Dashboard::start_with("admin: { listen: 127.0.0.1:0 }", RULES);
    let browser = Browser::open(dashboard.admin, Viewport::WIDE);
    browser.go("");
    browser.until("the stream is live", IS_LIVE, &[]);
    browser.wait_for_text(".banners", "admin.token_file");
    browser.assert_clean(&[]);
}

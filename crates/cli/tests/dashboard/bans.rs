//! Bans are shown, removed and added; list entries are added and removed.

use serde_json::Value;

use super::browser::Viewport;
use super::fixture::{Dashboard, TOKEN_REQUIRED_ERROR};
use super::program::wait_until;

const RULES: &str = "lists:
  allow: [\"client.ip in 10.1.0.0/16\"]
rules:
  - name: per-ip
    key: client.ip
    limits: [3/1s]
    ban: { after: 1 refusals in 1m, for: 1h }
";

#[test]
fn a_ban_is_removed() {
    let dashboard = Dashboard::start(RULES);
    while dashboard.request("203.0.113.9", "/") == 200 {}
    // Refused by the ban now, not by the limit.
    assert_eq!(dashboard.request("203.0.113.9", "/"), 429);
    let rule = dashboard.api("GET", "/v1/rules/per-ip", &Value::Null).json();
    assert_eq!(rule["counts"]["banned"], 1, "{rule}");

    let browser = dashboard.open_dashboard(Viewport::WIDE);
    browser.click("nav a[data-view=bans]");
    browser.wait_for_text("main table", "203.0.113.9");
    browser.wait_for_text("main table", " min");
    browser.save_screenshot("banned");
    browser.click_text("Remove ban");
    browser.wait_for_text(".notices", "The ban of 203.0.113.9 was removed");
    browser.wait_for_text("main table", "No active bans");
    wait_until("it is admitted again", || dashboard.request("203.0.113.9", "/") == 200);
    browser.assert_clean(&[TOKEN_REQUIRED_ERROR]);
}

#[test]
fn a_ban_is_added() {
    let dashboard = Dashboard::start(RULES);
    assert_eq!(dashboard.request("203.0.113.77", "/"), 200);
    let browser = dashboard.open_dashboard(Viewport::WIDE);
    browser.go("#/bans");
    browser.click_text("Ban a key");
    browser.type_into("input[name=ban-part]", "203.0.113.77");
    browser.type_into("input[name=ban-for]", "10m");
    browser.click("form[name=ban] button");
    browser.wait_for_text(".notices", "203.0.113.77 is banned for 10");
    assert_eq!(dashboard.request("203.0.113.77", "/"), 429);
    // Invalid input gets an error and changes nothing.
    browser.type_into("input[name=ban-part]", "nowhere");
    browser.click("form[name=ban] button");
    browser.wait_for_text(".notices .error", "address");
    browser.assert_clean(&[TOKEN_REQUIRED_ERROR, "status of 422"]);
}

#[test]
fn list_entries_are_added_and_removed() {
    let dashboard = Dashboard::start(RULES);
    let browser = dashboard.open_dashboard(Viewport::WIDE);
    browser.go("#/bans");
    browser.wait_for_text("main", "client.ip in 10.1.0.0/16");
    browser.type_into("input[name=deny-condition]", "client.ip == '203.0.113.5'");
    browser.type_into("input[name=deny-for]", "1h");
    browser.click("form[name=list-deny] button");
    browser.wait_for_text(".notices", "Added");
    wait_until("it is refused", || dashboard.request("203.0.113.5", "/") != 200);
    browser.wait_for_text("main", "runtime");
    browser.save_screenshot("lists");
    // Entries of the file are removed in the file.
    let in_file =
        "[...document.querySelectorAll('td button')].find((it) => it.getAttribute('aria-disabled') === 'true')";
    assert_eq!(
        browser.run(&format!("return {in_file}.title"), &[]),
        "This entry is in the rule file; remove it there."
    );
    browser.click("section:has(form[name=list-deny]) td button");
    browser.wait_for_text(".notices", "Removed");
    wait_until("it is admitted again", || dashboard.request("203.0.113.5", "/") == 200);
    browser.assert_clean(&[TOKEN_REQUIRED_ERROR]);
}

//! From a refused key to its reason: top keys, key state, and request explanation.

use super::browser::Viewport;
use super::fixture::{Dashboard, TOKEN_REQUIRED_ERROR};

const RULES: &str = "rules:
  - name: per-ip
    match: /api/**
    key: client.ip
    limits: [2/1h]
  - name: orders
    match: POST /api/orders
    limits: [10/1h]
";

#[test]
fn a_refused_key_leads_to_its_reason_and_is_reset() {
    let dashboard = Dashboard::start(RULES);
    for _ in 0..5 {
        dashboard.request("203.0.113.9", "/api/x");
    }
    assert_eq!(dashboard.request("203.0.113.9", "/api/x"), 429);
    let browser = dashboard.open_dashboard(Viewport::WIDE);
    browser.click("nav a[data-view=keys]");
    browser.wait_for_text(".toplist.refused", "203.0.113.9");
    browser.save_screenshot("keys");

    browser.click(".toplist.refused .links a");
    browser.wait_for_text(".verdict", "Refused");
    browser.wait_for_text(".explanation [data-rule=per-ip]", "203.0.113.9");
    browser.wait_for_text(".explanation [data-rule=per-ip]", "0 of 2 remaining");
    browser.wait_for_text(".explanation", "No list matches");
    browser.click_text("1 rule does not apply");
    browser.wait_for_text(".explanation .others", "orders");
    browser.wait_for_text(".explanation .others", "the path is /api/x, not /api/orders");
    browser.save_screenshot("explain");

    // Another client is not limited.
    browser.type_into("input[name=ip]", "198.51.100.1");
    browser.click("form[name=explain] button");
    browser.wait_for_text(".verdict", "Allowed");

    browser.go("#/keys?rule=per-ip&key=203.0.113.9");
    browser.wait_for_text(".keystate", "0 remaining");
    browser.click_text("Reset key");
    browser.wait_for_text(".notices", "was reset");
    browser.wait_for_text(".keystate", "2 remaining");
    assert_eq!(dashboard.request("203.0.113.9", "/api/x"), 200);
    browser.assert_clean(&[TOKEN_REQUIRED_ERROR]);
}

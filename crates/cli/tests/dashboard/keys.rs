//! From a refused key to the reason: top keys, the state of one, and the story of a request.

use crate::browser::Looks;
use crate::place::{Place, TOKEN_ASKED};

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
fn a_refused_key_leads_to_its_reason_and_is_forgotten() {
    let place = Place::start(RULES);
    for _ in 0..5 {
        place.request("203.0.113.9", "/api/x");
    }
    assert_eq!(place.request("203.0.113.9", "/api/x"), 429);
    let browser = place.dashboard(Looks::WIDE);
    browser.click("nav a[data-view=keys]");
    browser.see(".toplist.refused", "203.0.113.9");
    browser.keep_picture("keys");

    browser.click(".toplist.refused .links a");
    browser.see(".verdict", "Refused");
    browser.see(".story [data-rule=per-ip]", "203.0.113.9");
    browser.see(".story [data-rule=per-ip]", "0 of 2 left");
    browser.see(".story", "On no list");
    browser.click_text("1 rule does not apply");
    browser.see(".story .others", "orders");
    browser.see(".story .others", "the path is /api/x, not /api/orders");
    browser.keep_picture("why");

    // Another client is not limited.
    browser.type_into("input[name=ip]", "198.51.100.1");
    browser.click_text("Explain");
    browser.see(".verdict", "Allowed");

    browser.go("#/keys?rule=per-ip&key=203.0.113.9");
    browser.see(".keystate", "0 left");
    browser.click_text("Forget this key");
    browser.see(".notices", "starts afresh");
    browser.see(".keystate", "2 left");
    assert_eq!(place.request("203.0.113.9", "/api/x"), 200);
    browser.expect_peace(&[TOKEN_ASKED]);
}

//! Text from clients is never interpreted as markup or script.

use serde_json::json;

use super::browser::Viewport;
use super::fixture::{Dashboard, TOKEN_REQUIRED_ERROR};

const RULES: &str = "rules:
  - name: per-user
    key: \"header['x-user']\"
    limits: [2/1h]
    ban: { after: 2 refusals in 1m, for: 1h }
";

const EVIL: [&str; 3] = [
    "<img src=x onerror=alert(1)>",
    "<script>alert(2)</script>",
    "\"><svg onload=alert(3)><a href=javascript:alert(4)>x</a>",
];

/// Script: true if the text created an element.
const INJECTED_ELEMENT: &str =
    "return document.querySelectorAll('main img, main script, main svg[onload], a[href^=javascript]').length";

#[test]
fn scripts_in_keys_stay_text() {
    let dashboard = Dashboard::start(RULES);
    for evil in EVIL {
        for _ in 0..6 {
            dashboard.request_with("203.0.113.9", "/", &[("x-user", evil)]);
        }
    }
    let browser = dashboard.open_dashboard(Viewport::WIDE);
    for page in ["#/keys", "#/rule?name=per-user", "#/bans"] {
        browser.go(page);
        for evil in EVIL {
            browser.wait_for_text("main", evil);
        }
        assert_eq!(browser.run(INJECTED_ELEMENT, &[]), 0, "{page}");
    }
    browser.go("#/keys");
    browser.wait_for_text(".toplist.refused", EVIL[0]);
    browser.save_screenshot("scripts");

    // Through the link to the explain page: in the form and in the explanation.
    browser.click(".toplist.refused li:first-child .links a");
    browser.wait_for_text(".verdict", "Refused");
    browser.until(
        "it is in the form",
        "const headers = document.querySelector('textarea[name=headers]').value; \
         return arguments[0].some((evil) => headers === `x-user: ${evil}`)",
        &[json!(EVIL)],
    );
    let text = browser.text(".explanation");
    assert!(EVIL.iter().any(|evil| text.contains(evil)), "{text}");
    assert_eq!(browser.run(INJECTED_ELEMENT, &[]), 0);

    // In a crafted URL, and in the server's response to it.
    let crafted = "#/rule?name=%3Cimg%20src%3Dx%20onerror%3Dalert(5)%3E";
    browser.go(crafted);
    browser.wait_for_text("main h1", "<img src=x onerror=alert(5)>");
    browser.go("#/explain?path=%2F&ip=%3Cscript%3Ealert(6)%3C%2Fscript%3E");
    browser.wait_for_text(".explanation .error-text", "<script>alert(6)</script>");
    assert_eq!(browser.run(INJECTED_ELEMENT, &[]), 0);

    // A ban of such a key is removed like any other.
    browser.go("#/bans");
    browser.wait_for_text("main table", "3");
    for left in (0..3).rev() {
        browser.click("section:has(form[name=ban]) td button");
        browser.until(
            "one less",
            "return document.querySelectorAll('section:has(form[name=ban]) td button').length === arguments[0]",
            &[json!(left)],
        );
    }
    browser.assert_clean(&[TOKEN_REQUIRED_ERROR, "status of 422"]);
}

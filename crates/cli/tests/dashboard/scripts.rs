//! What clients send is text, whatever it looks like.

use serde_json::json;

use crate::browser::Looks;
use crate::place::{Place, TOKEN_ASKED};

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

/// Whether an element was made of it.
const MADE: &str =
    "return document.querySelectorAll('main img, main script, main svg[onload], a[href^=javascript]').length";

#[test]
fn scripts_in_keys_stay_text() {
    let place = Place::start(RULES);
    for evil in EVIL {
        for _ in 0..6 {
            place.request_with("203.0.113.9", "/", &[("x-user", evil)]);
        }
    }
    let browser = place.dashboard(Looks::WIDE);
    for page in ["#/keys", "#/rule?name=per-user", "#/bans"] {
        browser.go(page);
        for evil in EVIL {
            browser.see("main", evil);
        }
        assert_eq!(browser.run(MADE, &[]), 0, "{page}");
    }
    browser.go("#/keys");
    browser.see(".toplist.refused", EVIL[0]);
    browser.keep_picture("scripts");

    // By the link beside it to the page that explains it: in the form, in the story.
    browser.click(".toplist.refused li:first-child .links a");
    browser.see(".verdict", "Refused");
    browser.until(
        "it stands in the form",
        "const headers = document.querySelector('textarea[name=headers]').value; \
         return arguments[0].some((evil) => headers === `x-user: ${evil}`)",
        &[json!(EVIL)],
    );
    let told = browser.text(".story");
    assert!(EVIL.iter().any(|evil| told.contains(evil)), "{told}");
    assert_eq!(browser.run(MADE, &[]), 0);

    // In an address that somebody was sent, and in what a server answers to it.
    let sent = "#/rule?name=%3Cimg%20src%3Dx%20onerror%3Dalert(5)%3E";
    browser.go(sent);
    browser.see("main h1", "<img src=x onerror=alert(5)>");
    browser.go("#/why?path=%2F&ip=%3Cscript%3Ealert(6)%3C%2Fscript%3E");
    browser.see(".story .trouble", "<script>alert(6)</script>");
    assert_eq!(browser.run(MADE, &[]), 0);

    // A ban of such a key is lifted like any other.
    browser.go("#/bans");
    browser.see("main table", "3");
    for left in (0..3).rev() {
        browser.click("section:has(form[name=ban]) td button");
        browser.until(
            "one less",
            "return document.querySelectorAll('section:has(form[name=ban]) td button').length === arguments[0]",
            &[json!(left)],
        );
    }
    browser.expect_peace(&[TOKEN_ASKED, "status of 422"]);
}

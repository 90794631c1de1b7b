//! Who may see the dashboard, and who may change anything by it.

use serde_json::json;

use crate::browser::{Browser, Looks};
use crate::place::{IS_LIVE, Place, READ_TOKEN, TOKEN, TOKEN_ASKED, enter};

const RULES: &str = "rules:
  - name: per-ip
    key: client.ip
    limits: [2/1m]
    ban: { after: 1 refusals in 1m, for: 1h }
";

#[test]
fn a_wrong_token_shows_nothing() {
    let place = Place::start(RULES);
    let browser = Browser::open(place.admin, Looks::WIDE);
    browser.go("");
    browser.see("dialog", "Token");
    enter(&browser, "wrong");
    browser.see("dialog", "does not know this token");
    assert_eq!(browser.count(".card.rule"), 0);
    browser.keep_picture("wrong-token");
    enter(&browser, TOKEN);
    browser.until("it is live", IS_LIVE, &[]);
    browser.see("main", "per-ip");
    // It is kept in this tab, and nowhere that outlives it.
    let kept = "return [sessionStorage.getItem('sluicegate.token'), JSON.stringify(localStorage).includes(arguments[0]), \
        document.cookie]";
    assert_eq!(browser.run(kept, &[json!(TOKEN)]), json!([TOKEN, false, ""]));
    browser.expect_peace(&[TOKEN_ASKED]);
}

#[test]
fn who_may_only_read_is_told_why() {
    let place = Place::start(RULES);
    while place.request("203.0.113.9", "/") == 200 {}
    let browser = Browser::open(place.admin, Looks::WIDE);
    browser.go("#/bans");
    enter(&browser, READ_TOKEN);
    browser.see(".banners", "Read only");
    browser.see("main table", "203.0.113.9");
    let locked = "return [...document.querySelectorAll('button[data-write]')].every((it) => \
        it.getAttribute('aria-disabled') === 'true' && it.title.includes('only read'))";
    browser.until("all that writes is locked", locked, &[]);
    // A click says so, and asks nothing of the server.
    browser.click_text("Lift");
    browser.see(".notices", "This token may only read");
    assert_eq!(place.request("203.0.113.9", "/"), 429);
    browser.keep_picture("read-only");
    browser.expect_peace(&[TOKEN_ASKED]);
}

#[test]
fn without_tokens_it_is_for_reading_on_this_machine() {
    let place = Place::start_with("admin: { listen: 127.0.0.1:0 }", RULES);
    let browser = Browser::open(place.admin, Looks::WIDE);
    browser.go("");
    browser.until("it is live", IS_LIVE, &[]);
    browser.see(".banners", "admin.token");
    browser.expect_peace(&[]);
}

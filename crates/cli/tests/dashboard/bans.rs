//! Bans are seen, lifted and made; list entries come and go.

use serde_json::Value;

use crate::browser::Looks;
use crate::place::{Place, TOKEN_ASKED};
use crate::program::until;

const RULES: &str = "lists:
  allow: [\"client.ip in 10.1.0.0/16\"]
rules:
  - name: per-ip
    key: client.ip
    limits: [3/1s]
    ban: { after: 1 refusals in 1m, for: 1h }
";

#[test]
fn a_ban_is_lifted() {
    let place = Place::start(RULES);
    while place.request("203.0.113.9", "/") == 200 {}
    // Refused for the ban by now, and not for the limit.
    assert_eq!(place.request("203.0.113.9", "/"), 429);
    let rule = place.api("GET", "/v1/rules/per-ip", &Value::Null).json();
    assert_eq!(rule["counts"]["banned"], 1, "{rule}");

    let browser = place.dashboard(Looks::WIDE);
    browser.click("nav a[data-view=bans]");
    browser.see("main table", "203.0.113.9");
    browser.see("main table", " min");
    browser.keep_picture("banned");
    browser.click_text("Lift");
    browser.see(".notices", "203.0.113.9 may come again");
    browser.see("main table", "Nobody is banned");
    until("it passes again", || place.request("203.0.113.9", "/") == 200);
    browser.expect_peace(&[TOKEN_ASKED]);
}

#[test]
fn a_ban_is_made() {
    let place = Place::start(RULES);
    assert_eq!(place.request("203.0.113.77", "/"), 200);
    let browser = place.dashboard(Looks::WIDE);
    browser.go("#/bans");
    browser.click_text("Ban a key");
    browser.type_into("input[name=ban-part]", "203.0.113.77");
    browser.type_into("input[name=ban-for]", "10m");
    browser.click("form[name=ban] button");
    browser.see(".notices", "203.0.113.77 is banned for 10");
    assert_eq!(place.request("203.0.113.77", "/"), 429);
    // Nonsense is answered, and nothing is lost by it.
    browser.type_into("input[name=ban-part]", "nobody");
    browser.click("form[name=ban] button");
    browser.see(".notices .error", "address");
    browser.expect_peace(&[TOKEN_ASKED, "status of 422"]);
}

#[test]
fn list_entries_come_and_go() {
    let place = Place::start(RULES);
    let browser = place.dashboard(Looks::WIDE);
    browser.go("#/bans");
    browser.see("main", "client.ip in 10.1.0.0/16");
    browser.type_into("input[name=deny-condition]", "client.ip == '203.0.113.5'");
    browser.type_into("input[name=deny-for]", "1h");
    browser.click("form[name=list-deny] button");
    browser.see(".notices", "Added");
    until("it is refused", || place.request("203.0.113.5", "/") != 200);
    browser.see("main", "added");
    browser.keep_picture("lists");
    // What the file says is taken out there.
    let in_file =
        "[...document.querySelectorAll('td button')].find((it) => it.getAttribute('aria-disabled') === 'true')";
    assert_eq!(browser.run(&format!("return {in_file}.title"), &[]), "It stands in the rule file: take it out there.");
    browser.click("section:has(form[name=list-deny]) td button");
    browser.see(".notices", "Removed");
    until("it passes again", || place.request("203.0.113.5", "/") == 200);
    browser.expect_peace(&[TOKEN_ASKED]);
}

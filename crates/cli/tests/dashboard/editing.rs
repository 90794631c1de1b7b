//! The rule file is changed, checked, refused, brought back, and fought over.

use std::fs;

use serde_json::{Value, json};

use crate::browser::{Browser, Looks};
use crate::place::{Place, TOKEN_ASKED, file};

const ADMIN: &str = "admin: { listen: 127.0.0.1:0, token: token.txt }";
const RULES: &str = "rules:\n  - name: per-ip\n    key: client.ip\n    limits: [1000/1h]\n";
const SOURCE: &str = "textarea[name=source]";

/// Everything that the editor holds.
fn written(browser: &Browser) -> String {
    browser.run("return document.querySelector('textarea[name=source]').value", &[]).as_str().unwrap().to_owned()
}

fn open(place: &Place) -> Browser {
    let browser = place.dashboard(Looks::WIDE);
    browser.click("nav a[data-view=file]");
    browser.until(
        "the text is there",
        "return (document.querySelector('textarea[name=source]')?.value ?? '').includes('per-ip')",
        &[],
    );
    browser
}

#[test]
fn a_changed_rule_takes_effect() {
    let place = Place::start(RULES);
    for _ in 0..3 {
        assert_eq!(place.request("203.0.113.9", "/"), 200);
    }
    let browser = open(&place);
    let stricter = written(&browser).replace("1000/1h", "1/1h");
    browser.paste_into(SOURCE, &stricter);
    browser.see(".check", "Nothing wrong with it");
    browser.click_text("Show changes");
    browser.see(".diff", "1 line removed, 1 added");
    browser.type_into("input[name=comment]", "a crawler");
    browser.keep_picture("editing");
    browser.click_text("Save and apply");
    browser.see(".notices", "is in force");
    browser.see("main table", "a crawler");
    assert_eq!(place.request("198.51.100.1", "/"), 200);
    assert_eq!(place.request("198.51.100.1", "/"), 429, "one an hour by now");
    assert!(fs::read_to_string(place.program.folder.join("rules.yaml")).unwrap().contains("[1/1h]"));

    // And back, by the history.
    browser.click("main tbody tr:last-child button");
    browser.see(".opened", "+");
    browser.click_text("Restore this version");
    browser.until(
        "the first text is back",
        "return document.querySelector('textarea[name=source]').value.includes('1000/1h')",
        &[],
    );
    assert_eq!(place.request("198.51.100.1", "/"), 200);
    browser.expect_peace(&[TOKEN_ASKED]);
}

#[test]
fn a_wrong_rule_is_shown_at_its_line_and_changes_nothing() {
    let place = Place::start(RULES);
    let browser = open(&place);
    let before = written(&browser);
    let wrong = before.replace("limits: [1000/1h]", "limts: [1/1h]");
    let line = 1 + wrong.lines().position(|line| line.contains("limts")).unwrap();
    browser.paste_into(SOURCE, &wrong);
    // Told while typing, at the line, with the remedy.
    browser.see(".faults", &format!("Line {line}, column"));
    browser.see(".faults", "limits");
    browser.until(
        "the line is marked",
        "return document.querySelector('.numbers .fault')?.textContent === arguments[0]",
        &[json!(line.to_string())],
    );
    browser.keep_picture("fault");
    browser.click_text("Save and apply");
    browser.see(".check", "the old rules go on");
    for _ in 0..3 {
        assert_eq!(place.request("203.0.113.9", "/"), 200);
    }
    assert_eq!(fs::read_to_string(place.program.folder.join("rules.yaml")).unwrap(), before);
    browser.click_text("Discard changes");
    browser.see(".check", "As saved");
    assert_eq!(written(&browser), before);
    browser.expect_peace(&[TOKEN_ASKED, "status of 422"]);
}

#[test]
fn a_wrong_file_on_disk_is_refused_and_told() {
    let place = Place::start(RULES);
    let browser = open(&place);
    fs::write(place.program.folder.join("rules.yaml"), file(ADMIN, &RULES.replace("limits", "limts"))).unwrap();
    // It may have been noticed already; either way it is told, and stays told.
    browser.click_text("Reload");
    browser.see(".banners", "was refused");
    browser.see(".banners", "limts");
    assert_eq!(place.request("203.0.113.9", "/"), 200);
    browser.keep_picture("last-error");
    fs::write(place.program.folder.join("rules.yaml"), file(ADMIN, &RULES.replace("1000", "2"))).unwrap();
    browser.click_text("Reload");
    browser.until("the trouble is over", "return !document.querySelector('.banners .bad')", &[]);
    browser.expect_peace(&[TOKEN_ASKED, "status of 422"]);
}

#[test]
fn two_who_edit_at_once_do_not_overwrite_each_other() {
    let place = Place::start(RULES);
    let browser = open(&place);
    let before = written(&browser);
    browser.paste_into(SOURCE, &before.replace("1000/1h", "2000/1h"));
    let told = place.api("GET", "/v1/source", &Value::Null).json();
    let other = json!({ "text": before.replace("1000/1h", "3000/1h"), "based_on": told["version"] });
    assert_eq!(place.api("PUT", "/v1/source", &other).status, 200);
    browser.click_text("Save and apply");
    browser.see(".conflict", "Somebody else has saved");
    browser.see(".conflict", "3000/1h");
    browser.keep_picture("conflict");
    browser.click_text("Load theirs, drop mine");
    browser.until(
        "theirs is there",
        "return document.querySelector('textarea[name=source]').value.includes('3000/1h')",
        &[],
    );
    browser.expect_peace(&[TOKEN_ASKED, "status of 409"]);
}

#[test]
fn what_was_being_written_survives_a_look_elsewhere() {
    let place = Place::start(RULES);
    let browser = open(&place);
    let mine = written(&browser).replace("1000/1h", "7/1h");
    browser.paste_into(SOURCE, &mine);
    browser.click("nav a[data-view=keys]");
    browser.see("main h1", "Keys");
    browser.click("nav a[data-view=file]");
    browser.see(".check", "Not saved yet");
    assert_eq!(written(&browser), mine);
    browser.expect_peace(&[TOKEN_ASKED]);
}

#[test]
fn what_needs_a_restart_is_told() {
    let place = Place::start(RULES);
    let browser = open(&place);
    let fewer = written(&browser).replace("gateway:\n", "gateway:\n  connections: { max: 77 }\n");
    browser.paste_into(SOURCE, &fewer);
    browser.see(".check", "Nothing wrong with it");
    browser.click_text("Save and apply");
    browser.see(".notices", "gateway");
    browser.see(".banners", "A restart is pending");
    browser.see(".banners", "gateway");
    browser.expect_peace(&[TOKEN_ASKED]);
}

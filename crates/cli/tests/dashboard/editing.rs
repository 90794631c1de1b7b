//! Rule file editing: change, validation, refusal, rollback and concurrent edits.

use std::fs;

use serde_json::{Value, json};

use super::browser::{Browser, Viewport};
use super::fixture::{Dashboard, TOKEN_REQUIRED_ERROR, rule_file};

const ADMIN: &str = "admin: { listen: 127.0.0.1:0, token_file: token.txt }";
const RULES: &str = "rules:\n  - name: per-ip\n    key: client.ip\n    limits: [1000/1h]\n";
const SOURCE: &str = "textarea[name=source]";

/// Full text of the editor.
fn editor_text(browser: &Browser) -> String {
    browser.run("return document.querySelector('textarea[name=source]').value", &[]).as_str().unwrap().to_owned()
}

fn open(dashboard: &Dashboard) -> Browser {
    let browser = dashboard.open_dashboard(Viewport::WIDE);
    browser.click("nav a[data-view=rules]");
    browser.until(
        "the text is loaded",
        "return (document.querySelector('textarea[name=source]')?.value ?? '').includes('per-ip')",
        &[],
    );
    browser
}

#[test]
fn a_changed_rule_takes_effect() {
    let dashboard = Dashboard::start(RULES);
    for _ in 0..3 {
        assert_eq!(dashboard.request("203.0.113.9", "/"), 200);
    }
    let browser = open(&dashboard);
    let stricter = editor_text(&browser).replace("1000/1h", "1/1h");
    browser.paste_into(SOURCE, &stricter);
    browser.wait_for_text(".check", "Valid. Not saved yet");
    browser.click_text("Show changes");
    browser.wait_for_text(".diff", "1 line removed, 1 added");
    browser.type_into("input[name=comment]", "crawler");
    browser.save_screenshot("editing");
    browser.click_text("Save and apply");
    browser.wait_for_text(".notices", "is active");
    browser.wait_for_text("main table", "crawler");
    assert_eq!(dashboard.request("198.51.100.1", "/"), 200);
    assert_eq!(dashboard.request("198.51.100.1", "/"), 429, "one per hour now");
    assert!(fs::read_to_string(dashboard.program.folder.join("rules.yaml")).unwrap().contains("[1/1h]"));

    // Rolls back through the history.
    browser.click("main tbody tr:last-child button");
    browser.wait_for_text(".opened", "+");
    browser.click_text("Restore this version");
    browser.until(
        "the first text is restored",
        "return document.querySelector('textarea[name=source]').value.includes('1000/1h')",
        &[],
    );
    assert_eq!(dashboard.request("198.51.100.1", "/"), 200);
    browser.assert_clean(&[TOKEN_REQUIRED_ERROR]);
}

#[test]
fn an_invalid_rule_is_marked_at_its_line_and_changes_nothing() {
    let dashboard = Dashboard::start(RULES);
    let browser = open(&dashboard);
    let before = editor_text(&browser);
    let wrong = before.replace("limits: [1000/1h]", "limts: [1/1h]");
    let line = 1 + wrong.lines().position(|line| line.contains("limts")).unwrap();
    browser.paste_into(SOURCE, &wrong);
    // Shown while typing, at the line, with the remedy.
    browser.wait_for_text(".diagnostics", &format!("Line {line}, column"));
    browser.wait_for_text(".diagnostics", "limits");
    browser.until(
        "the line is marked",
        "return document.querySelector('.numbers .error')?.textContent === arguments[0]",
        &[json!(line.to_string())],
    );
    browser.save_screenshot("invalid");
    browser.click_text("Save and apply");
    browser.wait_for_text(".check", "The previous rules stay active");
    for _ in 0..3 {
        assert_eq!(dashboard.request("203.0.113.9", "/"), 200);
    }
    assert_eq!(fs::read_to_string(dashboard.program.folder.join("rules.yaml")).unwrap(), before);
    browser.click_text("Discard changes");
    browser.wait_for_text(".check", "No changes");
    assert_eq!(editor_text(&browser), before);
    browser.assert_clean(&[TOKEN_REQUIRED_ERROR, "status of 422"]);
}

#[test]
fn an_invalid_file_on_disk_is_refused_and_reported() {
    let dashboard = Dashboard::start(RULES);
    let browser = open(&dashboard);
    fs::write(dashboard.program.folder.join("rules.yaml"), rule_file(ADMIN, &RULES.replace("limits", "limts")))
        .unwrap();
    // The change may have been noticed already; either way it is shown and stays shown.
    browser.click_text("Reload");
    browser.wait_for_text(".banners", "was rejected");
    browser.wait_for_text(".banners", "limts");
    assert_eq!(dashboard.request("203.0.113.9", "/"), 200);
    browser.save_screenshot("last-error");
    fs::write(dashboard.program.folder.join("rules.yaml"), rule_file(ADMIN, &RULES.replace("1000", "2"))).unwrap();
    browser.click_text("Reload");
    browser.until("the error is gone", "return !document.querySelector('.banners .bad')", &[]);
    browser.assert_clean(&[TOKEN_REQUIRED_ERROR, "status of 422"]);
}

#[test]
fn concurrent_edits_do_not_overwrite_each_other() {
    let dashboard = Dashboard::start(RULES);
    let browser = open(&dashboard);
    let before = editor_text(&browser);
    browser.paste_into(SOURCE, &before.replace("1000/1h", "2000/1h"));
    let source = dashboard.api("GET", "/v1/source", &Value::Null).json();
    let other = json!({ "text": before.replace("1000/1h", "3000/1h"), "based_on": source["version"] });
    assert_eq!(dashboard.api("PUT", "/v1/source", &other).status, 200);
    browser.click_text("Save and apply");
    browser.wait_for_text(".conflict", "Another user has saved");
    browser.wait_for_text(".conflict", "3000/1h");
    browser.save_screenshot("conflict");
    browser.click_text("Load that version, discard mine");
    browser.until(
        "the other version is loaded",
        "return document.querySelector('textarea[name=source]').value.includes('3000/1h')",
        &[],
    );
    browser.assert_clean(&[TOKEN_REQUIRED_ERROR, "status of 409"]);
}

#[test]
fn unsaved_edits_survive_navigation() {
    let dashboard = Dashboard::start(RULES);
    let browser = open(&dashboard);
    let mine = editor_text(&browser).replace("1000/1h", "7/1h");
    browser.paste_into(SOURCE, &mine);
    browser.click("nav a[data-view=keys]");
    browser.wait_for_text("main h1", "Keys");
    browser.click("nav a[data-view=rules]");
    browser.wait_for_text(".check", "Not saved yet");
    assert_eq!(editor_text(&browser), mine);
    browser.assert_clean(&[TOKEN_REQUIRED_ERROR]);
}

#[test]
fn settings_that_need_a_restart_are_reported() {
    let dashboard = Dashboard::start(RULES);
    let browser = open(&dashboard);
    let fewer = editor_text(&browser).replace("gateway:\n", "gateway:\n  connections: { max: 77 }\n");
    browser.paste_into(SOURCE, &fewer);
    browser.wait_for_text(".check", "Valid. Not saved yet");
    browser.click_text("Save and apply");
    browser.wait_for_text(".notices", "gateway");
    browser.wait_for_text(".banners", "Restart required");
    browser.wait_for_text(".banners", "gateway");
    browser.assert_clean(&[TOKEN_REQUIRED_ERROR]);
}

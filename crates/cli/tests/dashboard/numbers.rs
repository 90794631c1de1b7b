//! Numbers and plots follow the gateway's traffic.

use serde_json::json;

use super::browser::Viewport;
use super::fixture::{Dashboard, TOKEN_REQUIRED_ERROR};

const RULES: &str = "rules:
  - name: per-ip
    key: client.ip
    limits: [5/1h]
  - name: all
    limits: [100000/1h]
  - name: candidate
    limits: [10/1h]
    mode: shadow
";

#[test]
fn numbers_and_plots_follow_the_load() {
    let dashboard = Dashboard::start(RULES);
    let browser = dashboard.open_dashboard(Viewport::WIDE);
    browser.until("every rule has a card", "return document.querySelectorAll('.card.rule').length === 3", &[]);
    // No traffic yet: no band is drawn.
    assert_eq!(browser.run(DRAWN, &[json!("admitted")]), false);

    for index in 0..8 {
        let status = dashboard.request("203.0.113.9", "/");
        assert_eq!(status, if index < 5 { 200 } else { 429 });
    }
    for kind in ["admitted", "refused"] {
        browser.until(&format!("a band of {kind} requests"), DRAWN, &[json!(kind)]);
    }
    let before = browser.run(BAND, &[json!("admitted")]);
    browser.until(
        "the plot moves with time",
        "return document.querySelector('.total .band.admitted').getAttribute('d') !== arguments[0]",
        &[before],
    );
    // Five of the eight, by each enforced rule and by no shadow rule.
    browser.wait_for_text(".tile[data-verdict=admitted]", "10 since start");
    browser.until(
        "a rule without a key shows how full it is",
        "return document.querySelector('[data-rule=all] .bar')?.getAttribute('aria-valuenow') !== undefined",
        &[],
    );
    browser.save_screenshot("numbers");

    // A plot shows its values under the pointer.
    browser.run("document.querySelector('.total svg').focus()", &[]);
    browser.run(
        "document.querySelector('.total svg').dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowLeft' }))",
        &[],
    );
    browser.wait_for_text(".total .tip", "Admitted");

    // The page of a rule has the exact counts.
    browser.go("#/rule?name=per-ip");
    browser.wait_for_text("main h1", "per-ip");
    browser.wait_for_text("main", "203.0.113.9");
    let totals = "return [...document.querySelectorAll('main .facts .pair b')].map((value) => value.textContent).join() \
        === arguments[0]";
    browser.until("five admitted, three refused", totals, &[json!("5,3,0,0")]);

    // Decisions that a shadow rule would have made.
    browser.go("#/");
    browser.wait_for_text(".view.overview", "Would refuse");
    browser.wait_for_text(".view.overview table", "candidate");
    browser.assert_clean(&[TOKEN_REQUIRED_ERROR]);
}

/// Script: true if a band of the total plot has any extent.
const DRAWN: &str =
    "return (document.querySelector(`.total .band.${arguments[0]}`)?.getAttribute('d') ?? '').includes('L')";

const BAND: &str = "return document.querySelector(`.total .band.${arguments[0]}`).getAttribute('d')";

#[test]
fn many_rules_are_filtered_and_not_all_drawn() {
    let mut rules = String::from("rules:\n");
    for index in 0..120 {
        rules.push_str(&format!("  - {{ name: tenant-{index:03}, match: /t/{index}/**, limits: [2/1h] }}\n"));
    }
    let dashboard = Dashboard::start(&rules);
    let browser = dashboard.open_dashboard(Viewport::WIDE);
    browser.wait_for_text("main", "Showing 50 of 120 rules");
    assert_eq!(browser.count(".card.rule"), 50);
    // The refusing rule comes first, regardless of its position in the file.
    for _ in 0..5 {
        dashboard.request("203.0.113.9", "/t/117/x");
    }
    browser.until(
        "the refusing rule is first",
        "return document.querySelector('.card.rule')?.dataset.rule === 'tenant-117'",
        &[],
    );
    browser.type_into("input[name=filter]", "tenant-08");
    browser.until("ten are left", "return document.querySelectorAll('.card.rule').length === 10", &[]);
    browser.save_screenshot("many-rules");
    browser.assert_clean(&[TOKEN_REQUIRED_ERROR]);
}

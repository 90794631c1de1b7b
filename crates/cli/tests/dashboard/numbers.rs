//! Numbers and plots move with what goes through the gateway.

use serde_json::json;

use crate::browser::Looks;
use crate::place::{Place, TOKEN_ASKED};

const RULES: &str = "rules:
  - name: per-ip
    key: client.ip
    limits: [5/1h]
  - name: all
    limits: [100000/1h]
  - name: on-trial
    limits: [10/1h]
    mode: shadow
";

#[test]
fn numbers_and_plots_follow_the_load() {
    let place = Place::start(RULES);
    let browser = place.dashboard(Looks::WIDE);
    browser.until("every rule has a card", "return document.querySelectorAll('.card.rule').length === 3", &[]);
    // Until now nothing has come: no band is drawn.
    assert_eq!(browser.run(DRAWN, &[json!("passed")]), false);

    for nth in 0..8 {
        let status = place.request("203.0.113.9", "/");
        assert_eq!(status, if nth < 5 { 200 } else { 429 });
    }
    for kind in ["passed", "limited"] {
        browser.until(&format!("a band of what was {kind}"), DRAWN, &[json!(kind)]);
    }
    let before = browser.run(BAND, &[json!("passed")]);
    browser.until(
        "the plot moves with time",
        "return document.querySelector('.total .band.passed').getAttribute('d') !== arguments[0]",
        &[before],
    );
    // Five of the eight, by each of the rules that are in force, and none of those on trial.
    browser.see(".tile[data-kind=passed]", "10 since the start");
    browser.until(
        "a rule without a key shows how full it is",
        "return document.querySelector('[data-rule=all] .bar')?.getAttribute('aria-valuenow') !== undefined",
        &[],
    );
    browser.keep_picture("numbers");

    // Under the pointer a plot tells its values.
    browser.run("document.querySelector('.total svg').focus()", &[]);
    browser.run(
        "document.querySelector('.total svg').dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowLeft' }))",
        &[],
    );
    browser.see(".total .tip", "Passed");

    // A rule's own page has the exact counts.
    browser.go("#/rule?name=per-ip");
    browser.see("main h1", "per-ip");
    browser.see("main", "203.0.113.9");
    let so_far = "return [...document.querySelectorAll('main .facts .pair b')].map((value) => value.textContent).join() \
        === arguments[0]";
    browser.until("five passed, three limited", so_far, &[json!("5,3,0,0")]);

    // What a rule on trial would have done.
    browser.go("#/");
    browser.see(".view.now", "Would have refused");
    browser.see(".view.now table", "on-trial");
    browser.expect_peace(&[TOKEN_ASKED]);
}

/// Whether a band of the total plot has any extent.
const DRAWN: &str =
    "return (document.querySelector(`.total .band.${arguments[0]}`)?.getAttribute('d') ?? '').includes('L')";

const BAND: &str = "return document.querySelector(`.total .band.${arguments[0]}`).getAttribute('d')";

#[test]
fn many_rules_are_filtered_and_not_all_drawn() {
    let mut rules = String::from("rules:\n");
    for nth in 0..120 {
        rules.push_str(&format!("  - {{ name: tenant-{nth:03}, match: /t/{nth}/**, limits: [2/1h] }}\n"));
    }
    let place = Place::start(&rules);
    let browser = place.dashboard(Looks::WIDE);
    browser.see("main", "The first 50 of 120 rules");
    assert_eq!(browser.count(".card.rule"), 50);
    // The one that refuses comes first, wherever it stands in the file.
    for _ in 0..5 {
        place.request("203.0.113.9", "/t/117/x");
    }
    browser.until(
        "the one that refuses is first",
        "return document.querySelector('.card.rule')?.dataset.rule === 'tenant-117'",
        &[],
    );
    browser.type_into("input[name=filter]", "tenant-08");
    browser.until("ten are left", "return document.querySelectorAll('.card.rule').length === 10", &[]);
    browser.keep_picture("many-rules");
    browser.expect_peace(&[TOKEN_ASKED]);
}

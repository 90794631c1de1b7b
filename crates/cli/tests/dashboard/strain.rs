//! A rule that protects the process is seen at work, and a request it refuses is explained.

use serde_json::json;

use crate::browser::Looks;
use crate::place::{Place, TOKEN_ASKED};

/// Some memory is always used: the ceiling is there from the beginning.
const RULES: &str = "rules:
  - name: overload
    adaptive: { when: { memory: \"> 0%\" }, limit: 2/1h, enter_after: 0s }
  - name: places
    match: /places/**
    adaptive: auto
";

#[test]
fn states_ceilings_and_readings_are_shown_and_refusals_explained() {
    let place = Place::start(RULES);
    let browser = place.dashboard(Looks::WIDE);
    browser.see(".view.now", "Adaptive limits");
    browser.until(
        "the ceiling has come",
        "return [...document.querySelectorAll('.view.now tr')].some((row) => ['overload', 'limited', '2/1h', 'memory', '> 0%']
            .every((word) => row.textContent.includes(word)))",
        &[],
    );
    browser.until(
        "the other has its places",
        "return [...document.querySelectorAll('.view.now tr')].some((row) => row.textContent.includes('places')
            && / at once/.test(row.textContent))",
        &[],
    );
    let statuses: Vec<u16> = (0..4).map(|_| place.request("203.0.113.9", "/")).collect();
    assert!(statuses.contains(&503), "{statuses:?}");
    browser.keep_picture("strain");

    let asked = json!({ "method": "GET", "path": "/" });
    let told = place.api("POST", "/v1/explain", &asked).json();
    assert_eq!(told["verdict"], "refused", "{told}");
    let because = told["because"].as_str().unwrap();
    assert!(because.starts_with("rule 'overload' holds requests back: memory "), "{because}");

    let shown = place.api("GET", "/v1/adaptive", &json!(null)).json();
    assert_eq!(shown["rules"][0]["state"], "limited", "{shown}");
    assert_eq!(shown["rules"][0]["rate"], json!({ "count": 2.0, "window_s": 3600.0 }), "{shown}");
    assert!(shown["rules"][0]["readings"]["memory"].as_f64().is_some_and(|share| share > 0.0), "{shown}");
    assert_eq!(shown["rules"][1]["adaptive"], "2 to 10000 at once, as many as do well", "{shown}");
    assert!(shown["signals"]["load1"].as_f64().is_some(), "{shown}");

    browser.expect_peace(&[TOKEN_ASKED]);
}

//! An adaptive rule is shown at work, and its refusals are explained.

use serde_json::json;

use super::browser::Viewport;
use super::fixture::{Dashboard, TOKEN_REQUIRED_ERROR};

/// Some memory is always used: the ceiling applies from the beginning.
const RULES: &str = "rules:
  - name: overload
    adaptive: { when: { memory: \"> 0%\" }, limit: 2/1h, enter_after: 0s }
  - name: concurrency
    match: /concurrency/**
    adaptive: auto
";

#[test]
fn overload_state_ceilings_and_signals_are_shown_and_refusals_explained() {
    let dashboard = Dashboard::start(RULES);
    let browser = dashboard.open_dashboard(Viewport::WIDE);
    browser.wait_for_text(".view.overview", "Adaptive rules");
    browser.until(
        "the ceiling is active",
        "return [...document.querySelectorAll('.view.overview tr')].some((row) => ['overload', 'limited', '2/1h', 'memory', '> 0%']
            .every((word) => row.textContent.includes(word)))",
        &[],
    );
    browser.until(
        "the concurrency limit is shown",
        "return [...document.querySelectorAll('.view.overview tr')].some((row) => row.textContent.includes('concurrency')
            && /\\d+ in flight/.test(row.textContent))",
        &[],
    );
    let statuses: Vec<u16> = (0..4).map(|_| dashboard.request("203.0.113.9", "/")).collect();
    assert!(statuses.contains(&503), "{statuses:?}");
    browser.save_screenshot("overload");

    let request = json!({ "method": "GET", "path": "/" });
    let explanation = dashboard.api("POST", "/v1/explain", &request).json();
    assert_eq!(explanation["verdict"], "refused", "{explanation}");
    let reason = explanation["reason"].as_str().unwrap();
    assert!(reason.starts_with("rule 'overload': overload protection is active: memory "), "{reason}");
    assert_eq!(explanation["rules"][0]["cause"], "overload", "{explanation}");

    let adaptive = dashboard.api("GET", "/v1/adaptive", &json!(null)).json();
    assert_eq!(adaptive["rules"][0]["state"], "limited", "{adaptive}");
    assert_eq!(adaptive["rules"][0]["rate"], json!({ "count": 2.0, "window_s": 3600.0 }), "{adaptive}");
    assert!(adaptive["rules"][0]["readings"]["memory"].as_f64().is_some_and(|share| share > 0.0), "{adaptive}");
    assert_eq!(adaptive["rules"][1]["kind"], "auto", "{adaptive}");
    assert!(adaptive["rules"][1]["concurrency_limit"].as_u64().is_some(), "{adaptive}");
    let memory = json!({ "signal": "memory", "comparison": ">", "threshold": 0.0 });
    assert_eq!(adaptive["rules"][0]["conditions"], json!([memory]), "{adaptive}");
    assert!(adaptive["signals"]["load1"].as_f64().is_some(), "{adaptive}");

    browser.assert_clean(&[TOKEN_REQUIRED_ERROR]);
}

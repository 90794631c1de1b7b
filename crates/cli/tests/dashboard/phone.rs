//! On a phone no content overflows horizontally.

use serde_json::json;

use super::browser::Viewport;
use super::fixture::{Dashboard, TOKEN_REQUIRED_ERROR};

const RULES: &str = "lists:
  deny: [\"client.ip in 198.51.100.0/24 && header['user-agent'].contains('a-very-long-name-of-a-crawler')\"]
rules:
  - name: per-ip-and-tier-with-quite-a-long-name-that-does-not-fit-on-a-phone
    match: /api/v1/customers/{customer}/orders/{order}/items/**
    key: [client.ip, \"header['x-tier']\"]
    limits: [5/1h, 3/1m]
    ban: { after: 1 refusals in 1m, for: 1h }
  - { name: all, limits: [1000/1h] }
  - { name: candidate, limits: [1/1h], mode: shadow }
";

#[test]
fn nothing_is_wider_than_the_screen() {
    let dashboard = Dashboard::start(RULES);
    let long = "x".repeat(120);
    for _ in 0..6 {
        let tier = [("x-tier", long.as_str())];
        dashboard.request_with("2001:db8:1234:5678::9", "/api/v1/customers/1/orders/2/items/3", &tier);
    }
    let pages = [
        ("overview", "#/", "per-ip"),
        ("rule", "#/rule?name=per-ip-and-tier-with-quite-a-long-name-that-does-not-fit-on-a-phone", "xxxx"),
        ("keys", "#/keys", "xxxx"),
        ("bans", "#/bans", "xxxx"),
        (
            "explain",
            "#/explain?path=%2Fapi%2Fv1%2Fcustomers%2F1%2Forders%2F2%2Fitems%2F3&ip=2001:db8:1234:5678::9",
            "all",
        ),
        ("rules", "#/rules", "1"),
        ("health", "#/health", "0.1"),
    ];
    for (language, dark) in [("en", false), ("zh-CN", true)] {
        let browser = dashboard.open_dashboard(Viewport { language, dark, ..Viewport::PHONE });
        for (name, page, seen) in pages {
            browser.go(page);
            browser.wait_for_text("main", seen);
            let too_wide = "const wide = document.documentElement;
                return wide.scrollWidth <= wide.clientWidth && wide.clientWidth === arguments[0]";
            browser.until(&format!("{page} fits in {language}"), too_wide, &[json!(Viewport::PHONE.width)]);
            browser.save_screenshot(&format!("phone-{name}-{language}"));
        }
        browser.assert_clean(&[TOKEN_REQUIRED_ERROR]);
    }
}

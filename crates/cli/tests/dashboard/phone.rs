//! On a phone nothing sticks out to the side.

use serde_json::json;

use crate::browser::Looks;
use crate::place::{Place, TOKEN_ASKED};

const RULES: &str = "lists:
  deny: [\"client.ip in 198.51.100.0/24 && header['user-agent'].contains('a-very-long-name-of-a-crawler')\"]
rules:
  - name: per-ip-and-tier-with-quite-a-long-name-for-a-rule-that-somebody-gave-it
    match: /api/v1/customers/{customer}/orders/{order}/items/**
    key: [client.ip, \"header['x-tier']\"]
    limits: [5/1h, 3/1m]
    ban: { after: 1 refusals in 1m, for: 1h }
  - { name: all, limits: [1000/1h] }
  - { name: on-trial, limits: [1/1h], mode: shadow }
";

#[test]
fn nothing_is_wider_than_the_screen() {
    let place = Place::start(RULES);
    let long = "x".repeat(120);
    for _ in 0..6 {
        let tier = [("x-tier", long.as_str())];
        place.request_with("2001:db8:1234:5678::9", "/api/v1/customers/1/orders/2/items/3", &tier);
    }
    let pages = [
        ("now", "#/", "per-ip"),
        ("rule", "#/rule?name=per-ip-and-tier-with-quite-a-long-name-for-a-rule-that-somebody-gave-it", "xxxx"),
        ("keys", "#/keys", "xxxx"),
        ("bans", "#/bans", "xxxx"),
        ("why", "#/why?path=%2Fapi%2Fv1%2Fcustomers%2F1%2Forders%2F2%2Fitems%2F3&ip=2001:db8:1234:5678::9", "all"),
        ("file", "#/file", "1"),
        ("health", "#/health", "0.1"),
    ];
    for (language, dark) in [("en", false), ("zh-CN", true)] {
        let browser = place.dashboard(Looks { language, dark, ..Looks::PHONE });
        for (name, page, seen) in pages {
            browser.go(page);
            browser.see("main", seen);
            let too_wide = "const wide = document.documentElement;
                return wide.scrollWidth <= wide.clientWidth && wide.clientWidth === arguments[0]";
            browser.until(&format!("{page} fits in {language}"), too_wide, &[json!(Looks::PHONE.width)]);
            browser.keep_picture(&format!("phone-{name}-{language}"));
        }
        browser.expect_peace(&[TOKEN_ASKED]);
    }
}

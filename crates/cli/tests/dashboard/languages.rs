//! Languages (English, Chinese) and themes (light, dark).

use serde_json::json;

use super::browser::Viewport;
use super::fixture::{Dashboard, IS_LIVE, TOKEN_REQUIRED_ERROR};

const RULES: &str = "rules:\n  - { name: per-ip, key: client.ip, limits: [2/1m] }\n";

#[test]
fn both_languages_are_available() {
    let dashboard = Dashboard::start(RULES);
    let browser = dashboard.open_dashboard(Viewport { language: "zh-CN", ..Viewport::WIDE });
    // Language of the browser.
    browser.wait_for_text("nav", "决策分析");
    browser.wait_for_text(".tile[data-verdict=admitted]", "放行");
    browser.wait_for_text(".link-state", "实时");
    browser.save_screenshot("chinese");
    browser.click("[data-language=en]");
    browser.wait_for_text("nav", "Explain");
    browser.wait_for_text(".tile[data-verdict=admitted]", "Admitted");
    // The choice persists across visits.
    browser.go("?");
    browser.until("the stream is live", IS_LIVE, &[]);
    browser.wait_for_text("nav", "Explain");
    browser.click("[data-language=zh]");
    for (page, seen) in [
        ("#/keys", "请求最多"),
        ("#/bans", "没有生效中的封禁"),
        ("#/explain", "决策分析"),
        ("#/rules", "保存并生效"),
        ("#/health", "未配置存储"),
    ] {
        browser.go(page);
        browser.wait_for_text("main", seen);
    }
    assert_eq!(browser.run("return document.documentElement.lang", &[]), "zh-CN");
    browser.assert_clean(&[TOKEN_REQUIRED_ERROR]);
}

#[test]
fn every_text_exists_in_every_language() {
    let dashboard = Dashboard::start(RULES);
    let browser = dashboard.open_dashboard(Viewport::WIDE);
    let unlike = "const { tables } = await import('/assets/i18n/index.js');
        const words = (text) => [...String(text).matchAll(/\\{(\\w+)\\}/g)].map(([, word]) => word).sort().join();
        const [names, others] = [tables.en, tables.zh].map((table) => Object.keys(table));
        const lacking = [...names.filter((name) => !(name in tables.zh)), ...others.filter((name) => !(name in tables.en))];
        const torn = names.filter((name) => typeof tables.en[name] === 'string' && typeof tables.zh[name] === 'string'
            && words(tables.en[name]) !== words(tables.zh[name]));
        const empty = names.filter((name) => name !== 'gap' && (tables.en[name] === '' || tables.zh[name] === ''));
        return [lacking, torn, empty];";
    assert_eq!(browser.run(unlike, &[]), json!([[], [], []]));
    browser.assert_clean(&[TOKEN_REQUIRED_ERROR]);
}

#[test]
fn the_theme_follows_the_system_unless_it_is_chosen() {
    let dashboard = Dashboard::start(RULES);
    let browser = dashboard.open_dashboard(Viewport { dark: true, ..Viewport::WIDE });
    let ground = "return getComputedStyle(document.documentElement).backgroundColor";
    let dark = browser.run(ground, &[]);
    browser.save_screenshot("dark");
    browser.click("[data-theme-choice=light]");
    let light = browser.run(ground, &[]);
    assert_ne!(dark, light);
    browser.set_viewport(Viewport::WIDE);
    browser.click("[data-theme-choice=dark]");
    assert_eq!(browser.run(ground, &[]), dark);
    browser.click("[data-theme-choice=auto]");
    assert_eq!(browser.run(ground, &[]), light);
    browser.assert_clean(&[TOKEN_REQUIRED_ERROR]);
}

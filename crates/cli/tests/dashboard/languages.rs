//! English and Chinese, light and dark.

use serde_json::json;

use crate::browser::Looks;
use crate::place::{IS_LIVE, Place, TOKEN_ASKED};

const RULES: &str = "rules:\n  - { name: per-ip, key: client.ip, limits: [2/1m] }\n";

#[test]
fn both_languages_are_spoken() {
    let place = Place::start(RULES);
    let browser = place.dashboard(Looks { language: "zh-CN", ..Looks::WIDE });
    // As the browser is set up.
    browser.see("nav", "规则文件");
    browser.see(".tile[data-kind=passed]", "通过");
    browser.see(".link-state", "实时");
    browser.keep_picture("chinese");
    browser.click("[data-language=en]");
    browser.see("nav", "Rule file");
    browser.see(".tile[data-kind=passed]", "Passed");
    // The choice outlives the visit.
    browser.go("?");
    browser.until("it is live", IS_LIVE, &[]);
    browser.see("nav", "Rule file");
    browser.click("[data-language=zh]");
    for (page, seen) in [
        ("#/keys", "请求最多"),
        ("#/bans", "没有人被封禁"),
        ("#/why", "为何被拒绝"),
        ("#/file", "保存并生效"),
        ("#/health", "未设置存储"),
    ] {
        browser.go(page);
        browser.see("main", seen);
    }
    assert_eq!(browser.run("return document.documentElement.lang", &[]), "zh-CN");
    browser.expect_peace(&[TOKEN_ASKED]);
}

#[test]
fn every_text_is_there_in_every_language() {
    let place = Place::start(RULES);
    let browser = place.dashboard(Looks::WIDE);
    let unlike = "const { tables } = await import('/assets/i18n/index.js');
        const words = (text) => [...String(text).matchAll(/\\{(\\w+)\\}/g)].map(([, word]) => word).sort().join();
        const [names, others] = [tables.en, tables.zh].map((table) => Object.keys(table));
        const lacking = [...names.filter((name) => !(name in tables.zh)), ...others.filter((name) => !(name in tables.en))];
        const torn = names.filter((name) => typeof tables.en[name] === 'string' && typeof tables.zh[name] === 'string'
            && words(tables.en[name]) !== words(tables.zh[name]));
        const empty = names.filter((name) => name !== 'gap' && (tables.en[name] === '' || tables.zh[name] === ''));
        return [lacking, torn, empty];";
    assert_eq!(browser.run(unlike, &[]), json!([[], [], []]));
    browser.expect_peace(&[TOKEN_ASKED]);
}

#[test]
fn the_theme_follows_the_system_unless_it_is_chosen() {
    let place = Place::start(RULES);
    let browser = place.dashboard(Looks { dark: true, ..Looks::WIDE });
    let ground = "return getComputedStyle(document.documentElement).backgroundColor";
    let dark = browser.run(ground, &[]);
    browser.keep_picture("dark");
    browser.click("[data-theme-choice=light]");
    let light = browser.run(ground, &[]);
    assert_ne!(dark, light);
    browser.look(Looks::WIDE);
    browser.click("[data-theme-choice=dark]");
    assert_eq!(browser.run(ground, &[]), dark);
    browser.click("[data-theme-choice=auto]");
    assert_eq!(browser.run(ground, &[]), light);
    browser.expect_peace(&[TOKEN_ASKED]);
}

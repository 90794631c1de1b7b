//! Chinese screens contain no English text except names and notation from the rule file.

use std::thread;

use serde_json::{Value, json};
use sluicegate_testkit::servers::RedisServer;

use super::browser::{Browser, Viewport};
use super::fixture::{Dashboard, TOKEN, TOKEN_REQUIRED_ERROR, enter_token};
use super::program::wait_until;

/// Rules that exercise all texts: every algorithm, bans, queues, shadow mode, overload protection, lists, priorities,
/// directions, conditions and shared counts.
const RULES: &str = "lists:
  allow: [\"client.ip in 10.1.0.0/16\"]
  deny: [\"client.ip in 198.51.100.0/24\"]
rules:
  - { name: zz-ban, match: /a/**, key: client.ip, limits: [3/1h], ban: { after: 5, within: 1m, for: 1h } }
  - { name: zz-bucket, match: /n, limits: [{ token_bucket: 50/s, burst: 100 }] }
  - { name: zz-shadow, match: /a/**, limits: [1/1h], mode: shadow }
  - { name: zz-limit, match: GET /b, when: \"header['x-t'] != 'u'\", key: [client.ip, \"header['x-t']\"], limits: [{ fixed_window: 2/1h, align: first_use }], priority: vip }
  - { name: zz-queue, match: /c, limits: [{ token_bucket: 1/1m, burst: 1 }], on_limit: { queue: { max_wait: 2m } }, priority: background }
  - { name: zz-leaky, match: /d, limits: [{ leaky_bucket: 5/s, queue: 15 }] }
  - { name: zz-concurrency, match: /e, limits: [{ concurrency: 1 }], on_limit: { queue: { max_wait: 1s } } }
  - { name: zz-log, match: /f, key: client.ip, limits: [{ sliding_log: 10/1h }] }
  - { name: zz-interpolated, match: /o, limits: [{ interpolated_window: 900/1h }] }
  - { name: zz-cells, match: /g, limits: [{ sliding_window: 60/1m, cells: 30 }, { fixed_window: 90/1h }], cost: 5 }
  - { name: zz-bandwidth, match: /h, limits: [{ bandwidth: 2MiB/s, burst: 8MiB }] }
  - { name: zz-out, match: calls-to zz, limits: [{ warm_up: 100/s, over: 10s }] }
  - { name: zz-descriptor, direction: descriptor, key: \"descriptor['k']\", limits: [100/1m] }
  - { name: zz-ceiling, match: /i, adaptive: { when: { memory: \"> 0%\" }, limit: 2/1h, enter_after: 0s } }
  - { name: zz-auto, match: /j, adaptive: auto }
  - { name: zz-cpu, match: /k, adaptive: cpu }
  - { name: zz-cluster, match: /l, key: client.ip, limits: [400/1m], scope: cluster }
  - { name: zz-lease, match: /m, limits: [100000/1h], scope: cluster, cluster: { mode: lease } }
";

/// Names and notation that may appear in a Chinese text: product names, units, names from the rule file, and examples.
const ALLOWED: [&str; 45] = [
    "Sluicegate",
    "Redis",
    "JavaScript",
    "HTTP",
    "JSON",
    "YAML",
    "API",
    "CPU",
    "QPS",
    "Cookie",
    "KiB",
    "MiB",
    // Names of rules, attributes and targets in the rule file above.
    "zz-ban",
    "zz-bucket",
    "zz-interpolated",
    "zz-shadow",
    "zz-limit",
    "zz-queue",
    "zz-leaky",
    "zz-concurrency",
    "zz-log",
    "zz-cells",
    "zz-bandwidth",
    "zz-out",
    "zz-descriptor",
    "zz-ceiling",
    "zz-auto",
    "zz-cpu",
    "zz-cluster",
    "zz-lease",
    "client.ip",
    "header['x-t']",
    "descriptor['k']",
    "GET",
    "calls-to",
    "service",
    // Names of settings, and examples in help texts.
    "admin.token_file",
    "on_store_failure",
    "/metrics",
    "x-tier: vip",
    "session=abc",
    "account=alice",
    "path=/api",
    "redis://",
    "alice",
];

/// Script: visible texts with an English word of three letters or more, after the allowed names are removed. The rule
/// file itself and its diffs are excluded. Tooltips and accessible names count as texts.
const ENGLISH_TEXTS: &str = r"
    document.querySelectorAll('details').forEach((details) => (details.open = true));
    const allowed = arguments[0].toSorted((a, b) => b.length - a.length);
    const isEnglish = (text) => /[A-Za-z]{3}/.test(allowed.reduce((rest, name) => rest.replaceAll(name, ' '), text));
    const isRuleText = (element) => element.closest('.editor, .diff, pre, noscript, script, style, [data-language]') !== null;
    const found = new Set();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
        const element = node.parentElement;
        const isVisible = element.checkVisibility() || element.closest('option') !== null;
        if (isVisible && !isRuleText(element) && isEnglish(node.data)) found.add(node.data.trim());
    }
    for (const element of document.querySelectorAll('[title], [aria-label]')) {
        if (isRuleText(element)) continue;
        for (const name of ['title', 'aria-label']) {
            const text = element.getAttribute(name) ?? '';
            if (isEnglish(text)) found.add(`${name}: ${text}`);
        }
    }
    return [...found, document.title].filter((text) => isEnglish(text));";

struct ChineseScreens<'d> {
    browser: &'d Browser,
    allowed: Vec<String>,
    found: Vec<String>,
}

impl ChineseScreens<'_> {
    /// Scans the current screen.
    fn scan(&mut self, screen: &str) {
        let texts = self.browser.run(ENGLISH_TEXTS, &[json!(self.allowed)]);
        self.found.extend(texts.as_array().unwrap().iter().map(|text| format!("{screen}: {text}")));
    }

    /// Opens a view, waits until it shows a text, and scans it.
    fn open(&mut self, page: &str, shown: &str) {
        self.browser.go(page);
        self.browser.wait_for_text("main", shown);
        self.scan(page);
    }
}

#[test]
fn chinese_screens_have_no_english_text() {
    let redis = RedisServer::start().unwrap();
    let store = format!(
        "admin: {{ listen: 127.0.0.1:0, token_file: token.txt }}\nstore: {{ url: \"redis://127.0.0.1:{}\", timeout: 5s }}",
        redis.port()
    );
    let dashboard = Dashboard::start_with(&store, RULES);
    let client = "203.0.113.9";
    for _ in 0..12 {
        dashboard.request(client, "/a/x");
    }
    for _ in 0..4 {
        dashboard.request_with(client, "/b", &[("x-t", "q")]);
    }
    for path in ["/c", "/d", "/e", "/f", "/g", "/h", "/i", "/i", "/i", "/j", "/k", "/l", "/m"] {
        dashboard.request(client, path);
    }
    dashboard.request("10.1.0.1", "/a/x");
    dashboard.request("198.51.100.1", "/a/x");
    let deny = json!({ "condition": "client.ip == '192.0.2.7'", "for": "1h" });
    assert_eq!(dashboard.api("POST", "/v1/lists/deny", &deny).status, 201);
    // Versions: one edit, and one restore.
    let source = dashboard.api("GET", "/v1/source", &Value::Null).json();
    let text = source["text"].as_str().unwrap().replace("limits: [400/1m]", "limits: [500/1m]");
    let edit = json!({ "text": text, "based_on": source["version"] });
    assert_eq!(dashboard.api("PUT", "/v1/source", &edit).status, 200);
    assert_eq!(dashboard.api("POST", "/v1/versions/1/restore", &Value::Null).status, 200);

    let browser = Browser::open(dashboard.admin, Viewport { language: "zh-CN", ..Viewport::WIDE });
    let folder = dashboard.program.folder.join("rules.yaml").display().to_string();
    let allowed = ALLOWED.iter().map(|name| (*name).to_owned()).chain([folder]).collect();
    let mut screens = ChineseScreens { browser: &browser, allowed, found: Vec::new() };
    browser.go("");
    browser.wait_for_text("dialog", "令牌");
    screens.scan("login");
    enter_token(&browser, TOKEN);
    browser.wait_for_text(".link-state", "实时");

    // One request is queued while the screens are scanned.
    let queued = {
        let gateway = dashboard.gateway;
        thread::spawn(move || {
            drop(super::http::send_request(gateway, "GET", "/c", &[("x-forwarded-for", "203.0.113.9")], ""));
        })
    };
    screens.open("#/", "自适应限流");
    for (row, text) in [("zz-ceiling", "限流中"), ("zz-auto", "并发"), ("zz-ceiling", "内存")] {
        browser.until(
            &format!("{text} in the row of {row}"),
            "return [...document.querySelectorAll('.view.overview tr')].some((row) =>
                row.textContent.includes(arguments[0]) && row.textContent.includes(arguments[1]))",
            &[json!(row), json!(text)],
        );
    }
    screens.scan("#/");
    browser.save_screenshot("chinese-overview");
    let rules: Vec<&str> = ALLOWED.into_iter().filter(|name| name.starts_with("zz-")).collect();
    for rule in &rules {
        screens.open(&format!("#/rule?name={rule}"), "规则设置");
    }
    screens.open("#/rule?name=zz-ban", "1 分内被拒绝 5 次后封禁 1 小时");
    browser.wait_for_text("main", client);
    screens.scan("#/rule?name=zz-ban");
    screens.open("#/rule?name=zz", "没有这条规则");
    screens.open("#/keys", "拒绝最多");
    browser.wait_for_text("main .toplist", client);
    screens.open(&format!("#/keys?rule=zz-ban&key={client}"), "封禁剩余");
    screens.open("#/bans", "集群");
    browser.wait_for_text("main table", client);
    screens.scan("#/bans");
    browser.save_screenshot("chinese-bans");
    for (request, shown) in [
        (format!("path=/a/x&ip={client}"), "封禁剩余"),
        ("path=/a/x&ip=203.0.113.10".to_owned(), "影子模式"),
        (format!("path=/b&ip={client}&header=x-t:q"), "已用尽"),
        (format!("path=/b&ip={client}"), "没有适用的规则"),
        ("path=/c".to_owned(), "排队"),
        ("path=/g&cost=1000".to_owned(), "成本超过限额"),
        ("path=/i".to_owned(), "过载保护已启动"),
        ("path=/i".to_owned(), "内存"),
        ("path=/l&ip=203.0.113.9".to_owned(), "由存储计数"),
        ("path=/zz".to_owned(), "没有适用的规则"),
        ("path=/a/x&ip=10.1.0.1".to_owned(), "命中白名单"),
        ("path=/a/x&ip=198.51.100.1".to_owned(), "命中黑名单"),
        ("direction=outbound&service=zz&path=/".to_owned(), "zz-out"),
        ("direction=descriptor&descriptor=k=v".to_owned(), "zz-descriptor"),
    ] {
        // Another view in between, so that an earlier result is not taken for this one.
        browser.go("#/health");
        browser.wait_for_text("main", "进程");
        browser.go(&format!("#/explain?{request}"));
        browser.wait_for_text(".explanation", shown);
        screens.scan(&format!("#/explain?{request}"));
    }
    browser.save_screenshot("chinese-explain");
    screens.open("#/rules", "恢复版本 1");
    browser.click_text("查看");
    browser.wait_for_text(".opened", "版本 3");
    screens.scan("#/rules, version");
    browser.click("main tbody tr:last-child button");
    browser.wait_for_text(".opened", "恢复此版本");
    screens.scan("#/rules, first version");
    screens.open("#/health", "租约");
    browser.wait_for_text("main", "正常");
    screens.scan("#/health");
    browser.save_screenshot("chinese-health");

    // Without the store, cluster-wide rules are degraded.
    drop(redis);
    wait_until("the store is degraded", || {
        dashboard.request(client, "/l");
        dashboard.api("GET", "/v1/store", &Value::Null).json()["state"] == "degraded"
    });
    browser.go("#/");
    browser.wait_for_text(".banners", "存储异常，已降级");
    browser.wait_for_text("[data-rule=zz-cluster]", "已降级");
    screens.scan("#/, degraded");
    screens.open("#/rule?name=zz-cluster", "已降级");
    drop(queued);

    // The last error of the store is the message of the client library, in its own language.
    browser.go("#/health");
    browser.wait_for_text("main", "最近的错误");
    assert_eq!(screens.found, Vec::<String>::new());
    browser.assert_clean(&[TOKEN_REQUIRED_ERROR]);
}

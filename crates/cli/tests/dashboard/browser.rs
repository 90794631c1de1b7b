//! Headless browser driven over WebDriver (<https://www.w3.org/TR/webdriver2/>), with its own profile; ends on
//! drop.

use std::fmt::Debug;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http::{TEST_TIMEOUT, send_request};

/// Key of an element in WebDriver responses.
const ELEMENT_KEY: &str = "element-6066-11e4-a52e-4f735466cecf";

pub(crate) struct Browser {
    driver: Child,
    at: SocketAddr,
    session: String,
    profile: PathBuf,
    /// The only origin that it may request.
    origin: String,
}

/// Screen size and user preferences.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Viewport {
    pub(crate) language: &'static str,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) dark: bool,
}

impl Viewport {
    pub(crate) const WIDE: Self = Self { language: "en", width: 1440, height: 900, dark: false };
    pub(crate) const PHONE: Self = Self { width: 360, height: 740, ..Self::WIDE };
}

impl Browser {
    /// Opens a browser for the pages of one program.
    pub(crate) fn open(home: SocketAddr, viewport: Viewport) -> Self {
        static NEXT_ID: AtomicU32 = AtomicU32::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let profile = std::env::temp_dir().join(format!("sluicegate-browser-{}-{id}", std::process::id()));
        drop(fs::remove_dir_all(&profile));
        fs::create_dir_all(&profile).unwrap();
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .env("TMPDIR", &profile)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("chromedriver: {error}; scripts/setup test installs it"));
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.by_ref().map_while(Result::ok).find_map(|line| {
            line.split("started successfully on port ").nth(1)?.trim_end_matches('.').parse::<u16>().ok()
        });
        // Drains the driver's output, so that it never blocks.
        thread::spawn(move || lines.for_each(drop));
        let port = port.unwrap_or_else(|| panic!("chromedriver has not started"));
        let at = SocketAddr::from(([127, 0, 0, 1], port));
        let mut browser = Self { driver, at, session: String::new(), profile, origin: format!("http://{home}/") };
        let session = browser.driver_call("POST", "/session", &capabilities(&browser.profile, viewport)).unwrap();
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        browser.set_viewport(viewport);
        browser
    }

    /// Changes screen size and preferences.
    pub(crate) fn set_viewport(&self, viewport: Viewport) {
        self.set_scaled_viewport(viewport, 1);
    }

    fn set_scaled_viewport(&self, viewport: Viewport, scale: u32) {
        let Viewport { width, height, dark, .. } = viewport;
        let scheme = if dark { "dark" } else { "light" };
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600 });
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.devtools("Emulation.setEmulatedMedia", &features);
    }

    /// Opens a page of the program: `""`, `#/keys`.
    pub(crate) fn go(&self, page: &str) {
        let url = format!("{}{page}", self.origin);
        self.call("POST", "/url", &json!({ "url": url })).unwrap();
    }

    /// Runs a script, which may await; returns its result.
    pub(crate) fn run(&self, script: &str, arguments: &[Value]) -> Value {
        self.try_run(script, arguments).unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    fn try_run(&self, script: &str, arguments: &[Value]) -> Result<Value, String> {
        self.call("POST", "/execute/sync", &json!({ "script": script, "args": arguments }))
    }

    /// Visible text of an element, with narrow spaces as plain ones; empty if there is no such element.
    pub(crate) fn text(&self, css: &str) -> String {
        let script = "return (document.querySelector(arguments[0])?.innerText ?? '').replaceAll('\\u202f', ' ')";
        self.run(script, &[json!(css)]).as_str().unwrap_or_default().to_owned()
    }

    /// Number of matching elements.
    pub(crate) fn count(&self, css: &str) -> u64 {
        self.run("return document.querySelectorAll(arguments[0]).length", &[json!(css)]).as_u64().unwrap()
    }

    /// Waits until an element shows this text.
    pub(crate) fn wait_for_text(&self, css: &str, text: &str) {
        let mut seen = String::new();
        wait(&format!("{text:?} at {css}"), &mut seen, |seen| {
            *seen = self.text(css);
            seen.contains(text)
        });
    }

    /// Waits until a script returns true.
    pub(crate) fn until(&self, what: &str, script: &str, arguments: &[Value]) {
        let mut result = Value::Null;
        wait(what, &mut result, |result| {
            *result = self.run(script, arguments);
            result.as_bool() == Some(true)
        });
    }

    /// Clicks an element as soon as it is clickable.
    pub(crate) fn click(&self, css: &str) {
        self.click_element("css selector", css);
    }

    /// Clicks the button or link with this text.
    pub(crate) fn click_text(&self, text: &str) {
        let named = format!("(//button | //a | //summary)[normalize-space() = {}]", quoted(text));
        self.click_element("xpath", &named);
    }

    fn click_element(&self, using: &str, value: &str) {
        let mut message = String::new();
        wait(&format!("to click {value}"), &mut message, |message| {
            let clicked = self
                .call("POST", "/element", &json!({ "using": using, "value": value }))
                .and_then(|found| self.call("POST", &format!("/element/{}/click", id(&found)), &json!({})));
            clicked.map_err(|error| *message = error).is_ok()
        });
    }

    /// Types into a field, key by key.
    pub(crate) fn type_into(&self, css: &str, text: &str) {
        let mut message = String::new();
        wait(&format!("to type into {css}"), &mut message, |message| {
            let typed =
                self.call("POST", "/element", &json!({ "using": "css selector", "value": css })).and_then(|it| {
                    let field = format!("/element/{}", id(&it));
                    self.call("POST", &format!("{field}/clear"), &json!({}))?;
                    self.call("POST", &format!("{field}/value"), &json!({ "text": text }))
                });
            typed.map_err(|error| *message = error).is_ok()
        });
    }

    /// Replaces the content of a field, as pasting does.
    pub(crate) fn paste_into(&self, css: &str, text: &str) {
        self.until(
            "a field to paste into",
            "const field = document.querySelector(arguments[0]); field?.focus(); field?.select(); return field !== null",
            &[json!(css)],
        );
        self.devtools("Input.insertText", &json!({ "text": text }));
    }

    /// Captures the visible part of the page as PNG, with this number of pixels per CSS pixel.
    pub(crate) fn capture_viewport(&self, viewport: Viewport, scale: u32) -> Vec<u8> {
        self.set_scaled_viewport(viewport, scale);
        self.devtools("Emulation.setScrollbarsHidden", &json!({ "hidden": true }));
        // Charts are drawn again once a second.
        thread::sleep(Duration::from_millis(1_200));
        let taken = self.devtools("Page.captureScreenshot", &json!({ "format": "png" }));
        self.set_viewport(viewport);
        from_base64(taken["data"].as_str().unwrap())
    }

    /// Saves a screenshot of the page.
    pub(crate) fn save_screenshot(&self, name: &str) {
        let taken = self.devtools("Page.captureScreenshot", &json!({ "captureBeyondViewport": true }));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../tests/dashboard");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{name}.png")), from_base64(taken["data"].as_str().unwrap())).unwrap();
    }

    /// Asserts that the console is empty, that no other origin was requested, and that no window was opened.
    ///
    /// `known` lists console messages that are expected, such as an intended 401.
    pub(crate) fn assert_clean(&self, known: &[&str]) {
        let alert = self.call("GET", "/alert/text", &Value::Null);
        assert!(alert.as_ref().is_err_and(|error| error.contains("no such alert")), "a dialog is open: {alert:?}");
        let console = self.call("POST", "/se/log", &json!({ "type": "browser" })).unwrap();
        for entry in console.as_array().unwrap() {
            let (level, message) = (&entry["level"], entry["message"].as_str().unwrap());
            let is_known = known.iter().any(|known| message.contains(known));
            assert!(level == "INFO" || level == "DEBUG" || is_known, "console message: {message}");
        }
        let events = self.call("POST", "/se/log", &json!({ "type": "performance" })).unwrap();
        let mut requests = 0;
        for entry in events.as_array().unwrap() {
            let event: Value = serde_json::from_str(entry["message"].as_str().unwrap()).unwrap();
            if event["message"]["method"] != "Network.requestWillBeSent" {
                continue;
            }
            requests += 1;
            let url = event["message"]["params"]["request"]["url"].as_str().unwrap();
            let is_inner = url.starts_with("data:") || url.starts_with("chrome:") || url.starts_with("about:");
            assert!(is_inner || url.starts_with(&self.origin), "request to another origin: {url}");
        }
        assert!(requests > 5, "the browser does not log its requests");
    }

    fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.call("POST", "/goog/cdp/execute", &json!({ "cmd": command, "params": parameters })).unwrap()
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        self.driver_call(method, &format!("/session/{}{path}", self.session), body)
    }

    fn driver_call(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let response = send_request(self.at, method, path, &[("content-type", "application/json")], &body);
        let response = response.map_err(|error| format!("{method} {path}: {error}"))?;
        let mut body = response.json();
        if response.status == 200 { Ok(body["value"].take()) } else { Err(body["value"].to_string()) }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver closes the browser with the session; otherwise the browser would stay.
        drop(self.call("DELETE", "", &Value::Null));
        drop(self.driver.kill());
        drop(self.driver.wait());
        drop(fs::remove_dir_all(&self.profile));
    }
}

fn capabilities(profile: &Path, viewport: Viewport) -> Value {
    let Viewport { language, width, height, .. } = viewport;
    let arguments = [
        "--headless=new".to_owned(),
        "--no-sandbox".to_owned(),
        "--disable-gpu".to_owned(),
        "--disable-dev-shm-usage".to_owned(),
        // Disables background requests of the browser itself.
        "--no-first-run".to_owned(),
        "--disable-background-networking".to_owned(),
        "--disable-component-update".to_owned(),
        "--disable-sync".to_owned(),
        format!("--lang={language}"),
        format!("--accept-lang={language}"),
        format!("--window-size={width},{height}"),
        format!("--user-data-dir={}", profile.join("profile").display()),
    ];
    json!({ "capabilities": { "alwaysMatch": {
        "browserName": "chrome",
        "unhandledPromptBehavior": "ignore",
        "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        "goog:chromeOptions": { "args": arguments, "prefs": { "intl.accept_languages": language } },
    } } })
}

/// Retries until the condition holds; on timeout, reports the last value.
fn wait<T: Debug>(what: &str, seen: &mut T, mut holds: impl FnMut(&mut T) -> bool) {
    let start = Instant::now();
    while !holds(seen) {
        assert!(start.elapsed() < TEST_TIMEOUT, "timeout: {what}; last seen: {seen:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn id(found: &Value) -> &str {
    found[ELEMENT_KEY].as_str().unwrap_or_default()
}

/// XPath string literal; no text here has both kinds of quotes.
fn quoted(text: &str) -> String {
    if text.contains('\'') { format!("\"{text}\"") } else { format!("'{text}'") }
}

fn from_base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut buffer, mut bits) = (Vec::with_capacity(text.len() / 4 * 3), 0_u32, 0);
    for letter in text.bytes() {
        let Some(value) = ALPHABET.iter().position(|known| *known == letter) else { continue };
        buffer = buffer << 6 | u32::try_from(value).unwrap();
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(buffer >> bits & 0xff).unwrap());
        }
    }
    bytes
}

//! A browser without a window, driven over WebDriver (<https://www.w3.org/TR/webdriver2/>). It has a profile of its
//! own, and is gone with its owner.

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

use crate::wire::{GUARD, ask};

/// How an element is named in answers of the driver.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

pub(crate) struct Browser {
    driver: Child,
    at: SocketAddr,
    session: String,
    profile: PathBuf,
    /// Where the pages come from that it may ask for.
    home: String,
}

/// What kind of screen somebody has, and what they prefer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looks {
    pub(crate) language: &'static str,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) dark: bool,
}

impl Looks {
    pub(crate) const WIDE: Self = Self { language: "en", width: 1440, height: 900, dark: false };
    pub(crate) const PHONE: Self = Self { width: 360, height: 740, ..Self::WIDE };
}

impl Browser {
    /// A browser for the pages of one program.
    pub(crate) fn open(home: SocketAddr, looks: Looks) -> Self {
        static OPENED: AtomicU32 = AtomicU32::new(0);
        let nth = OPENED.fetch_add(1, Ordering::Relaxed);
        let profile = std::env::temp_dir().join(format!("sluicegate-browser-{}-{nth}", std::process::id()));
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
        // What else it says is read, so that it never waits for a reader.
        thread::spawn(move || lines.for_each(drop));
        let port = port.unwrap_or_else(|| panic!("chromedriver has not started"));
        let at = SocketAddr::from(([127, 0, 0, 1], port));
        let mut browser = Self { driver, at, session: String::new(), profile, home: format!("http://{home}/") };
        let session = browser.driver_call("POST", "/session", &capabilities(&browser.profile, looks)).unwrap();
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        browser.look(looks);
        browser
    }

    /// Changes the screen.
    pub(crate) fn look(&self, looks: Looks) {
        let Looks { width, height, dark, .. } = looks;
        let scheme = if dark { "dark" } else { "light" };
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.devtools("Emulation.setEmulatedMedia", &features);
    }

    /// Goes to a page of the program: `""`, `#/keys`.
    pub(crate) fn go(&self, page: &str) {
        let url = format!("{}{page}", self.home);
        self.call("POST", "/url", &json!({ "url": url })).unwrap();
    }

    /// Runs a script, which may await, and answers what it returns.
    pub(crate) fn run(&self, script: &str, arguments: &[Value]) -> Value {
        self.try_run(script, arguments).unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    fn try_run(&self, script: &str, arguments: &[Value]) -> Result<Value, String> {
        self.call("POST", "/execute/sync", &json!({ "script": script, "args": arguments }))
    }

    /// The text somebody sees there, with narrow spaces as plain ones; the empty one if there is no such element.
    pub(crate) fn text(&self, css: &str) -> String {
        let script = "return (document.querySelector(arguments[0])?.innerText ?? '').replaceAll('\\u202f', ' ')";
        self.run(script, &[json!(css)]).as_str().unwrap_or_default().to_owned()
    }

    /// How many such elements there are.
    pub(crate) fn count(&self, css: &str) -> u64 {
        self.run("return document.querySelectorAll(arguments[0]).length", &[json!(css)]).as_u64().unwrap()
    }

    /// Waits until something is seen there.
    pub(crate) fn see(&self, css: &str, text: &str) {
        let mut seen = String::new();
        wait(&format!("{text:?} at {css}"), &mut seen, |seen| {
            *seen = self.text(css);
            seen.contains(text)
        });
    }

    /// Waits until a script returns what is true.
    pub(crate) fn until(&self, what: &str, script: &str, arguments: &[Value]) {
        let mut said = Value::Null;
        wait(what, &mut said, |said| {
            *said = self.run(script, arguments);
            said.as_bool() == Some(true)
        });
    }

    /// Clicks like a hand would, as soon as that can be done.
    pub(crate) fn click(&self, css: &str) {
        self.press("css selector", css);
    }

    /// Clicks what has this text, a button or a link.
    pub(crate) fn click_text(&self, text: &str) {
        let named = format!("(//button | //a | //summary)[normalize-space() = {}]", quoted(text));
        self.press("xpath", &named);
    }

    fn press(&self, using: &str, value: &str) {
        let mut said = String::new();
        wait(&format!("to click {value}"), &mut said, |said| {
            let clicked = self
                .call("POST", "/element", &json!({ "using": using, "value": value }))
                .and_then(|found| self.call("POST", &format!("/element/{}/click", id(&found)), &json!({})));
            clicked.map_err(|error| *said = error).is_ok()
        });
    }

    /// Types into a field, key by key.
    pub(crate) fn type_into(&self, css: &str, text: &str) {
        let mut said = String::new();
        wait(&format!("to type into {css}"), &mut said, |said| {
            let typed =
                self.call("POST", "/element", &json!({ "using": "css selector", "value": css })).and_then(|it| {
                    let field = format!("/element/{}", id(&it));
                    self.call("POST", &format!("{field}/clear"), &json!({}))?;
                    self.call("POST", &format!("{field}/value"), &json!({ "text": text }))
                });
            typed.map_err(|error| *said = error).is_ok()
        });
    }

    /// Puts a text in place of all that a field holds, as somebody does who pastes it.
    pub(crate) fn paste_into(&self, css: &str, text: &str) {
        self.until(
            "a field to paste into",
            "const field = document.querySelector(arguments[0]); field?.focus(); field?.select(); return field !== null",
            &[json!(css)],
        );
        self.devtools("Input.insertText", &json!({ "text": text }));
    }

    /// Keeps a picture of the page.
    pub(crate) fn keep_picture(&self, name: &str) {
        let taken = self.devtools("Page.captureScreenshot", &json!({ "captureBeyondViewport": true }));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../tests/dashboard");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{name}.png")), from_base64(taken["data"].as_str().unwrap())).unwrap();
    }

    /// Everything must have gone well: nothing on the console, nothing asked of others, no window popped up.
    ///
    /// `known`: what may stand on the console all the same, such as an answer of 401 that was wanted.
    pub(crate) fn expect_peace(&self, known: &[&str]) {
        let alert = self.call("GET", "/alert/text", &Value::Null);
        assert!(alert.as_ref().is_err_and(|error| error.contains("no such alert")), "a window popped up: {alert:?}");
        let console = self.call("POST", "/se/log", &json!({ "type": "browser" })).unwrap();
        for entry in console.as_array().unwrap() {
            let (level, message) = (&entry["level"], entry["message"].as_str().unwrap());
            let is_known = known.iter().any(|known| message.contains(known));
            assert!(level == "INFO" || level == "DEBUG" || is_known, "on the console: {message}");
        }
        let events = self.call("POST", "/se/log", &json!({ "type": "performance" })).unwrap();
        let mut asked = 0;
        for entry in events.as_array().unwrap() {
            let event: Value = serde_json::from_str(entry["message"].as_str().unwrap()).unwrap();
            if event["message"]["method"] != "Network.requestWillBeSent" {
                continue;
            }
            asked += 1;
            let url = event["message"]["params"]["request"]["url"].as_str().unwrap();
            let is_inner = url.starts_with("data:") || url.starts_with("chrome:") || url.starts_with("about:");
            assert!(is_inner || url.starts_with(&self.home), "it asked another: {url}");
        }
        assert!(asked > 5, "the browser does not tell what it asks for");
    }

    fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.call("POST", "/goog/cdp/execute", &json!({ "cmd": command, "params": parameters })).unwrap()
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        self.driver_call(method, &format!("/session/{}{path}", self.session), body)
    }

    fn driver_call(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = ask(self.at, method, path, &[("content-type", "application/json")], &body);
        let answer = answer.map_err(|error| format!("{method} {path}: {error}"))?;
        let mut told = answer.json();
        if answer.status == 200 { Ok(told["value"].take()) } else { Err(told["value"].to_string()) }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends the browser with the session; without it the browser would stay.
        drop(self.call("DELETE", "", &Value::Null));
        drop(self.driver.kill());
        drop(self.driver.wait());
        drop(fs::remove_dir_all(&self.profile));
    }
}

fn capabilities(profile: &Path, looks: Looks) -> Value {
    let Looks { language, width, height, .. } = looks;
    let arguments = [
        "--headless=new".to_owned(),
        "--no-sandbox".to_owned(),
        "--disable-gpu".to_owned(),
        "--disable-dev-shm-usage".to_owned(),
        // Nothing of its own accord: only what the pages ask for.
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

/// Tries until it holds; what was seen last is told if it never does.
fn wait<T: Debug>(what: &str, seen: &mut T, mut holds: impl FnMut(&mut T) -> bool) {
    let begun = Instant::now();
    while !holds(seen) {
        assert!(begun.elapsed() < GUARD, "in vain: {what}; last seen: {seen:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn id(found: &Value) -> &str {
    found[ELEMENT].as_str().unwrap_or_default()
}

/// A text as XPath has it; none here has both kinds of quotes.
fn quoted(text: &str) -> String {
    if text.contains('\'') { format!("\"{text}\"") } else { format!("'{text}'") }
}

fn from_base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut held, mut bits) = (Vec::with_capacity(text.len() / 4 * 3), 0_u32, 0);
    for letter in text.bytes() {
        let Some(value) = ALPHABET.iter().position(|known| *known == letter) else { continue };
        held = held << 6 | u32::try_from(value).unwrap();
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits & 0xff).unwrap());
        }
    }
    bytes
}

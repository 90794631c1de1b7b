//! Test fixture: the program with a gateway, its built-in upstream and the dashboard.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use serde_json::Value;

use super::browser::{Browser, Viewport};
use super::http::{HttpResponse, send_request};
use super::program::{Program, wait_until};

/// Token with write access.
pub(crate) const TOKEN: &str = "alice-0123456789abcdef";
/// Token with read access.
pub(crate) const READ_TOKEN: &str = "guest-0123456789abcdef";

/// Text before the dashboard's address in the banner.
const ADMIN_PREFIX: &str = "dashboard at ";

pub(crate) struct Dashboard {
    pub(crate) program: Program,
    pub(crate) gateway: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl Dashboard {
    /// Starts the program with these rules. Requests name their client in `X-Forwarded-For`.
    pub(crate) fn start(rules: &str) -> Self {
        Self::start_with("admin: { listen: 127.0.0.1:0, token_file: token.txt }", rules)
    }

    pub(crate) fn start_with(admin: &str, rules: &str) -> Self {
        let program = Program::start_with(&rule_file(admin, rules), |folder: &Path| {
            let tokens = format!("# tokens\nalice {TOKEN}\nguest {READ_TOKEN} read\n");
            fs::write(folder.join("token.txt"), tokens).unwrap();
        });
        wait_until("the dashboard is served", || program.log().contains(ADMIN_PREFIX));
        let [gateway, admin] = ["listening at ", ADMIN_PREFIX].map(|prefix| address(&program.log(), prefix));
        Self { program, gateway, admin }
    }

    /// Opens the dashboard and enters the token.
    pub(crate) fn open_dashboard(&self, viewport: Viewport) -> Browser {
        let browser = Browser::open(self.admin, viewport);
        browser.go("");
        enter_token(&browser, TOKEN);
        browser.until("the stream is live", IS_LIVE, &[]);
        browser
    }

    /// Sends a request of this client; returns the status.
    pub(crate) fn request(&self, client: &str, path: &str) -> u16 {
        self.request_with(client, path, &[])
    }

    pub(crate) fn request_with(&self, client: &str, path: &str, headers: &[(&str, &str)]) -> u16 {
        let mut all = vec![("x-forwarded-for", client)];
        all.extend(headers);
        send_request(self.gateway, "GET", path, &all, "").unwrap().status
    }

    /// Calls the API directly, without the browser.
    pub(crate) fn api(&self, method: &str, path: &str, body: &Value) -> HttpResponse {
        let bearer = format!("Bearer {TOKEN}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        send_request(self.admin, method, path, &headers, &body).unwrap()
    }
}

/// Script: true if the tick stream is live.
pub(crate) const IS_LIVE: &str = "return document.querySelector('.link-state')?.dataset.state === 'live'";

/// Expected console message if the API requires a token.
pub(crate) const TOKEN_REQUIRED_ERROR: &str = "the server responded with a status of 401";

/// Enters the token.
pub(crate) fn enter_token(browser: &Browser, token: &str) {
    browser.type_into("input[name=token]", token);
    browser.click("form[name=login] button");
}

/// A complete rule file.
pub(crate) fn rule_file(admin: &str, rules: &str) -> String {
    format!(
        "gateway:\n  listen: 127.0.0.1:0\n  trusted_proxies: [127.0.0.0/8]\n  upstreams: {{ demo: builtin }}\n  \
         routes:\n    - {{ path: \"/{{*rest}}\", upstream: demo }}\nserver: {{ http: 127.0.0.1:0 }}\n{admin}\n{rules}"
    )
}

/// Address after this text in the log.
fn address(log: &str, prefix: &str) -> SocketAddr {
    let rest = log.lines().find_map(|line| line.split(prefix).nth(1)).unwrap_or_else(|| panic!("no {prefix}: {log}"));
    let address = rest.trim_start_matches("http://").split([' ', '/', ',']).next().unwrap();
    address.parse().unwrap_or_else(|_| panic!("no address in {rest}"))
}

//! The program with a gateway before its built-in upstream, and the dashboard beside it.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use serde_json::Value;

use crate::browser::{Browser, Looks};
use crate::program::{Program, until};
use crate::wire::{Answer, ask};

/// May change things.
pub(crate) const TOKEN: &str = "alice-0123456789abcdef";
/// May only look.
pub(crate) const READ_TOKEN: &str = "guest-0123456789abcdef";

/// What the program says before the dashboard's address.
const ADMIN: &str = "dashboard at ";

pub(crate) struct Place {
    pub(crate) program: Program,
    pub(crate) gateway: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl Place {
    /// Starts it with these rules. Whoever asks through the gateway says by `X-Forwarded-For` who they are.
    pub(crate) fn start(rules: &str) -> Self {
        Self::start_with("admin: { listen: 127.0.0.1:0, token: token.txt }", rules)
    }

    pub(crate) fn start_with(admin: &str, rules: &str) -> Self {
        let program = Program::start_with(&file(admin, rules), |folder: &Path| {
            let tokens = format!("# who may\nalice {TOKEN}\nguest {READ_TOKEN} read\n");
            fs::write(folder.join("token.txt"), tokens).unwrap();
        });
        until("the dashboard is served", || program.log().contains(ADMIN));
        let [gateway, admin] = ["listening at ", ADMIN].map(|before| address(&program.log(), before));
        Self { program, gateway, admin }
    }

    /// The dashboard, entered with the token.
    pub(crate) fn dashboard(&self, looks: Looks) -> Browser {
        let browser = Browser::open(self.admin, looks);
        browser.go("");
        enter(&browser, TOKEN);
        browser.until("it is live", IS_LIVE, &[]);
        browser
    }

    /// The status of the answer to a request of this client.
    pub(crate) fn request(&self, client: &str, path: &str) -> u16 {
        self.request_with(client, path, &[])
    }

    pub(crate) fn request_with(&self, client: &str, path: &str, headers: &[(&str, &str)]) -> u16 {
        let mut all = vec![("x-forwarded-for", client)];
        all.extend(headers);
        ask(self.gateway, "GET", path, &all, "").unwrap().status
    }

    /// Asks the API, not through the browser.
    pub(crate) fn api(&self, method: &str, path: &str, body: &Value) -> Answer {
        let bearer = format!("Bearer {TOKEN}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        ask(self.admin, method, path, &headers, &body).unwrap()
    }
}

/// The stream of ticks runs.
pub(crate) const IS_LIVE: &str = "return document.querySelector('.link-state')?.dataset.state === 'live'";

/// What stands on the console when the API asks for a token, which it must.
pub(crate) const TOKEN_ASKED: &str = "the server responded with a status of 401";

/// Gives the token that is asked for.
pub(crate) fn enter(browser: &Browser, token: &str) {
    browser.type_into("input[name=token]", token);
    browser.click("form[name=login] button");
}

/// A whole rule file.
pub(crate) fn file(admin: &str, rules: &str) -> String {
    format!(
        "gateway:\n  listen: 127.0.0.1:0\n  trusted_proxies: [127.0.0.0/8]\n  upstreams: {{ demo: builtin }}\n  \
         routes:\n    - {{ path: \"/{{*rest}}\", upstream: demo }}\nserver: {{ http: 127.0.0.1:0 }}\n{admin}\n{rules}"
    )
}

fn address(log: &str, before: &str) -> SocketAddr {
    let told = log.lines().find_map(|line| line.split(before).nth(1)).unwrap_or_else(|| panic!("no {before}: {log}"));
    let address = told.trim_start_matches("http://").split([' ', '/', ',']).next().unwrap();
    address.parse().unwrap_or_else(|_| panic!("no address in {told}"))
}

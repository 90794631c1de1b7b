//! Contenders with equivalent configuration, and their upstream.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::programs::client::{Client, get};
use crate::programs::program::{Program, free_port};
use crate::programs::sluicegate;
use crate::programs::temp_dir::TempDir;

/// Response body of the upstream.
const BODY: &str = "a short body, equal for every request.";
/// Memory of an nginx zone per client on 64-bit machines: 128 bytes and its share of the page table.
const ZONE_BYTES_PER_CLIENT: u64 = 132;

/// Limit per client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum BenchLimit {
    /// Never reached.
    Plenty,
    /// One request per second.
    PerSecond,
    /// One request per minute, the lowest rate of nginx.
    PerMinute,
}

impl BenchLimit {
    /// Rate and remaining options of `limit_req` in nginx.
    const fn for_nginx(self) -> (&'static str, &'static str) {
        match self {
            Self::Plenty => ("1000000r/s", "burst=1000000 nodelay"),
            Self::PerSecond => ("1r/s", ""),
            Self::PerMinute => ("1r/m", ""),
        }
    }

    /// Limit in Sluicegate: a token bucket like that of nginx, or a sliding window.
    const fn for_sluicegate(self, window: bool) -> &'static str {
        match (self, window) {
            (Self::Plenty, false) => "{ token_bucket: 1000000/s, burst: 1000000 }",
            (Self::PerSecond, false) => "{ token_bucket: 1/s, burst: 1 }",
            (Self::PerMinute, false) => "{ token_bucket: 1/m, burst: 1 }",
            (Self::Plenty, true) => "60000000/1m",
            (Self::PerSecond, true) => "1/1s",
            (Self::PerMinute, true) => "1/1m",
        }
    }
}

/// Configuration of both contenders.
#[derive(Clone, Copy)]
pub(crate) struct ContenderConfig {
    pub(crate) limit: BenchLimit,
    /// Maximum number of limited clients.
    pub(crate) clients: u32,
    /// Maximum number of connections.
    pub(crate) connections: u32,
    /// Takes the client address from `X-Forwarded-For`.
    pub(crate) by_forwarded_for: bool,
    /// Sluicegate limits by a sliding window, the notation `300/1m`, and both write an access log.
    pub(crate) window_and_log: bool,
}

impl ContenderConfig {
    /// Configuration for few clients, identified by their peer address.
    pub(crate) const fn with_few_clients(limit: BenchLimit) -> Self {
        Self { limit, clients: 10_000, connections: 1_024, by_forwarded_for: false, window_and_log: false }
    }
}

/// Starts the upstream: an nginx with a constant response.
pub(crate) fn upstream() -> Program {
    let port = free_port();
    let text = fill_template(include_str!("upstream.conf"), &[("PORT", &port.to_string()), ("BODY", BODY)]);
    Program::start("upstream", port, TempDir::with_file("nginx.conf", text), run_nginx)
}

/// Starts the peer.
pub(crate) fn nginx(config: ContenderConfig, upstream: &Program) -> Program {
    let port = free_port();
    let (rate, burst) = config.limit.for_nginx();
    let zone = u64::from(config.clients) * ZONE_BYTES_PER_CLIENT / 1024;
    let trusted =
        if config.by_forwarded_for { "set_real_ip_from 127.0.0.0/8; real_ip_header X-Forwarded-For;" } else { "" };
    let text = fill_template(
        include_str!("nginx.conf"),
        &[
            ("CONNECTIONS", &config.connections.to_string()),
            ("ZONE", &format!("{zone}k")),
            ("RATE", rate),
            ("BURST", burst),
            ("UPSTREAM", &upstream.port().to_string()),
            ("PORT", &port.to_string()),
            ("TRUSTED", trusted),
            // Buffered: Sluicegate writes its lines in batches too.
            ("ACCESS_LOG", if config.window_and_log { "access.log combined buffer=64k flush=1s" } else { "off" }),
        ],
    );
    Program::start("nginx", port, TempDir::with_file("nginx.conf", text), run_nginx)
}

/// Starts Sluicegate.
pub(crate) fn ours(config: ContenderConfig, upstream: &Program) -> Program {
    sluicegate::run(|port, dir| {
        let access_log = match config.window_and_log {
            true => format!("access_log: {{ file: {}, format: common }}", dir.join("access.log").display()),
            false => String::new(),
        };
        fill_template(
            include_str!("rules.yaml"),
            &[
                ("CONNECTIONS", &config.connections.to_string()),
                ("CLIENTS", &config.clients.to_string()),
                ("LIMIT", config.limit.for_sluicegate(config.window_and_log)),
                ("UPSTREAM", &upstream.port().to_string()),
                ("PORT", &port.to_string()),
                ("ACCESS_LOG", &access_log),
                ("TRUSTED", if config.by_forwarded_for { "127.0.0.0/8" } else { "" }),
            ],
        )
    })
}

fn run_nginx(dir: &Path) -> Command {
    // On Debian, nginx is in /usr/sbin, which is only in the PATH of root.
    let program = ["/usr/sbin/nginx", "/usr/bin/nginx"].into_iter().find(|path| fs::exists(path).unwrap_or(false));
    let mut command = Command::new(program.unwrap_or("nginx"));
    command.arg("-p").arg(dir).args(["-e", "error.log", "-c", "nginx.conf"]);
    command
}

fn fill_template(template: &str, words: &[(&str, &str)]) -> String {
    words.iter().fold(template.to_owned(), |text, (word, with)| text.replace(word, with))
}

/// Sends a request to a contender and asserts that the response is the upstream's.
pub(crate) fn assert_proxies(contender: &Program) {
    let response = Client::connect(contender.port()).request(&get("/small"));
    let is_upstream = response.status == 200 && response.body == BODY.as_bytes();
    assert!(is_upstream, "{}: {response:?}\n{}", contender.name(), contender.output());
}

/// Sends a request to Sluicegate and asserts that the response has rate limit headers.
pub(crate) fn assert_sends_quota_headers(ours: &Program) {
    let response = Client::connect(ours.port()).request(&get("/small"));
    let head = response.head.to_ascii_lowercase();
    assert!(head.contains("\r\nratelimit:") && head.contains("\r\nratelimit-policy:"), "{response:?}");
}

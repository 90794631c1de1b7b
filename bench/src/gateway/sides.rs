//! Both sides and what is behind them, set up alike.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::programs::client::{Client, get};
use crate::programs::folder::Folder;
use crate::programs::program::{Program, free_port};
use crate::programs::sluicegate;

/// What the upstream answers.
const BODY: &str = "a small answer, the same for everybody";
/// What nginx needs for a client on 64-bit machines (128 bytes), and for where its pages are.
const ZONE_BYTES_PER_CLIENT: u64 = 132;

/// What each client may do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// More than anybody asks for.
    Plenty,
    /// One request a second.
    PerSecond,
    /// One request a minute: nginx knows nothing slower.
    PerMinute,
}

impl Limit {
    /// The rate and the rest of `limit_req`, as nginx has them.
    const fn of_nginx(self) -> (&'static str, &'static str) {
        match self {
            Self::Plenty => ("1000000r/s", "burst=1000000 nodelay"),
            Self::PerSecond => ("1r/s", ""),
            Self::PerMinute => ("1r/m", ""),
        }
    }

    /// The rate and the burst, as we have them.
    const fn ours(self) -> (&'static str, &'static str) {
        match self {
            Self::Plenty => ("1000000/s", "1000000"),
            Self::PerSecond => ("1/s", "1"),
            Self::PerMinute => ("1/m", "1"),
        }
    }
}

/// What both sides are told.
#[derive(Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) limit: Limit,
    /// Room for so many clients that are limited.
    pub(crate) clients: u32,
    /// Room for so many connections.
    pub(crate) connections: u32,
    /// Whether clients are those whom `X-Forwarded-For` names.
    pub(crate) named: bool,
}

impl Setting {
    /// For a few clients, which are who they are.
    pub(crate) const fn few(limit: Limit) -> Self {
        Self { limit, clients: 10_000, connections: 1_024, named: false }
    }
}

/// The upstream: an nginx that answers by itself.
pub(crate) fn upstream() -> Program {
    let port = free_port();
    let text = filled(include_str!("upstream.conf"), &[("PORT", &port.to_string()), ("BODY", BODY)]);
    Program::start("the upstream", port, Folder::with("nginx.conf", text), run_nginx)
}

/// Their side.
pub(crate) fn nginx(setting: Setting, upstream: &Program) -> Program {
    let port = free_port();
    let (rate, burst) = setting.limit.of_nginx();
    let zone = u64::from(setting.clients) * ZONE_BYTES_PER_CLIENT / 1024;
    let trusted = if setting.named { "set_real_ip_from 127.0.0.0/8; real_ip_header X-Forwarded-For;" } else { "" };
    let text = filled(
        include_str!("nginx.conf"),
        &[
            ("CONNECTIONS", &setting.connections.to_string()),
            ("ZONE", &format!("{zone}k")),
            ("RATE", rate),
            ("BURST", burst),
            ("UPSTREAM", &upstream.port().to_string()),
            ("PORT", &port.to_string()),
            ("TRUSTED", trusted),
        ],
    );
    Program::start("nginx", port, Folder::with("nginx.conf", text), run_nginx)
}

/// Our side.
pub(crate) fn ours(setting: Setting, upstream: &Program) -> Program {
    let (rate, burst) = setting.limit.ours();
    sluicegate::run(|port| {
        filled(
            include_str!("rules.yaml"),
            &[
                ("CONNECTIONS", &setting.connections.to_string()),
                ("CLIENTS", &setting.clients.to_string()),
                ("RATE", rate),
                ("BURST", burst),
                ("UPSTREAM", &upstream.port().to_string()),
                ("PORT", &port.to_string()),
                ("TRUSTED", if setting.named { "127.0.0.0/8" } else { "" }),
            ],
        )
    })
}

fn run_nginx(folder: &Path) -> Command {
    // Debian keeps it where only root's path leads.
    let program = ["/usr/sbin/nginx", "/usr/bin/nginx"].into_iter().find(|path| fs::exists(path).unwrap_or(false));
    let mut command = Command::new(program.unwrap_or("nginx"));
    command.arg("-p").arg(folder).args(["-e", "error.log", "-c", "nginx.conf"]);
    command
}

fn filled(template: &str, words: &[(&str, &str)]) -> String {
    words.iter().fold(template.to_owned(), |text, (word, with)| text.replace(word, with))
}

/// Asks a side for the upstream's answer, and proves that it is the upstream's.
pub(crate) fn prove_it_proxies(side: &Program) {
    let answer = Client::connect(side.port()).ask(&get("/small"));
    assert!(answer.status == 200 && answer.body == BODY.as_bytes(), "{}: {answer:?}\n{}", side.name(), side.said());
}

/// Asks our side again, and proves that it tells what is left.
pub(crate) fn prove_it_tells(ours: &Program) {
    let answer = Client::connect(ours.port()).ask(&get("/small"));
    let head = answer.head.to_ascii_lowercase();
    assert!(head.contains("\r\nratelimit:") && head.contains("\r\nratelimit-policy:"), "{answer:?}");
}

//! A gateway from a rule file, programs behind it, and clients before it, all over real sockets.
#![allow(dead_code, unreachable_pub, reason = "not every test needs everything")]

pub mod certificate;
pub mod file;
pub mod frames;
pub mod nginx;
pub mod raw;
pub mod recorder;
pub mod scripted;
pub mod upstream;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use sluicegate_config::settings::Settings;
use sluicegate_engine::Sluice;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_gateway::{Gateway, Running};
use sluicegate_listen::{Process, Report, Stop};

/// Guards against hanging; nothing is ever measured by it.
pub const GUARD: Duration = Duration::from_secs(60);

/// A gateway that serves; dropping it stops it.
pub struct Served {
    pub at: SocketAddr,
    pub all: Vec<SocketAddr>,
    running: Option<Running>,
}

impl Served {
    /// As this rule file says; it listens where the file says, which should be port 0.
    pub fn of(yaml: &str) -> Self {
        Self::with_clock(yaml, ClockHandle::system())
    }

    /// The same, by another clock.
    pub fn with_clock(yaml: &str, clock: impl Into<ClockHandle>) -> Self {
        Self::within(Path::new("."), yaml, clock)
    }

    /// The same, with files in this folder.
    pub fn within(base: &Path, yaml: &str, clock: impl Into<ClockHandle>) -> Self {
        let settings = match sluicegate_config::parse("rules.yaml", yaml) {
            Ok(loaded) => loaded.settings,
            Err(report) => panic!("{report}"),
        };
        let rules = Sluice::builder().rules(settings.rules.clone()).lists(settings.lists.conditions());
        Self::enforcing(base, &settings, rules.clock(clock).build().unwrap())
    }

    /// As the settings say, by these rules.
    pub fn enforcing(base: &Path, settings: &Settings, sluice: Sluice) -> Self {
        let gateway = settings.gateway.clone().unwrap();
        let opened = Gateway::open(settings, &gateway, sluice, base, &mut Process::alone()).unwrap();
        let running = opened.start(|line| eprintln!("gateway: {line}")).unwrap();
        let all = running.addresses().to_vec();
        Self { at: all[0], all, running: Some(running) }
    }

    pub fn running(&self) -> &Running {
        self.running.as_ref().unwrap()
    }

    /// Stops it gracefully.
    pub fn stop(mut self) -> Report {
        self.running.take().unwrap().stop(Stop::Close)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            // A test that failed must not wait for the connections it left open.
            if !std::thread::panicking() {
                running.stop(Stop::Close);
            }
        }
    }
}

/// The rule file of a gateway on a free port before these servers, with further sections.
pub fn before(servers: &[SocketAddr], rest: &str) -> String {
    let urls: Vec<String> = servers.iter().map(|server| format!("\"http://{server}\"")).collect();
    format!(
        "gateway:\n  listen: 127.0.0.1:0\n  threads: 2\n  upstreams: {{ shop: {{ servers: [{}] }} }}\n  routes: [{{ path: \"/{{*rest}}\", upstream: shop }}]\n{rest}\n",
        urls.join(", ")
    )
}

/// Waits for something that must come true.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed() < GUARD, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

//! Test fixtures: a gateway from a rule file, upstreams and clients, over real sockets.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

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
use sluicegate_gateway::{Gateway, GatewayHandle};
use sluicegate_net::{DrainReport, Process, Shutdown};

/// Protects against hanging tests; never used as a measurement.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A running gateway; stops on drop.
pub struct TestGateway {
    pub at: SocketAddr,
    pub all: Vec<SocketAddr>,
    running: Option<GatewayHandle>,
}

impl TestGateway {
    /// Starts a gateway from this rule file; its listener should use port 0.
    pub fn from_yaml(yaml: &str) -> Self {
        Self::with_clock(yaml, ClockHandle::system())
    }

    /// The same with another clock.
    pub fn with_clock(yaml: &str, clock: impl Into<ClockHandle>) -> Self {
        Self::in_dir(Path::new("."), yaml, clock)
    }

    /// The same with files in this folder.
    pub fn in_dir(base: &Path, yaml: &str, clock: impl Into<ClockHandle>) -> Self {
        let settings = match sluicegate_config::parse("rules.yaml", yaml) {
            Ok(loaded) => loaded.settings,
            Err(report) => panic!("{report}"),
        };
        let rules = Sluice::builder().rules(settings.rules.clone()).lists(settings.lists.conditions());
        Self::with_sluice(base, &settings, rules.clock(clock).build().unwrap())
    }

    /// Starts a gateway with these settings and rules.
    pub fn with_sluice(base: &Path, settings: &Settings, sluice: Sluice) -> Self {
        let gateway = settings.gateway.clone().unwrap();
        let opened = Gateway::open(settings, &gateway, sluice, base, &mut Process::standalone()).unwrap();
        let running = opened.start(|line| eprintln!("gateway: {line}")).unwrap();
        let all = running.addresses().to_vec();
        Self { at: all[0], all, running: Some(running) }
    }

    pub fn running(&self) -> &GatewayHandle {
        self.running.as_ref().unwrap()
    }

    /// Stops it gracefully.
    pub fn stop(mut self) -> DrainReport {
        self.running.take().unwrap().stop(Shutdown::Close)
    }
}

impl Drop for TestGateway {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            // A failed test must not wait for its open connections.
            if !std::thread::panicking() {
                running.stop(Shutdown::Close);
            }
        }
    }
}

/// Rule file of a gateway on a free port in front of these servers, with further sections.
pub fn proxy_yaml(servers: &[SocketAddr], rest: &str) -> String {
    let urls: Vec<String> = servers.iter().map(|server| format!("\"http://{server}\"")).collect();
    format!(
        "gateway:\n  listen: 127.0.0.1:0\n  threads: 2\n  upstreams: {{ shop: {{ servers: [{}] }} }}\n  routes: [{{ path: \"/{{*rest}}\", upstream: shop }}]\n{rest}\n",
        urls.join(", ")
    )
}

/// Waits until the condition holds.
pub fn wait_until(label: &str, mut holds: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !holds() {
        assert!(start.elapsed() < TEST_TIMEOUT, "timed out: {label}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

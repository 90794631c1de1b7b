//! Real Caddy process with a test configuration.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use super::endpoint::TestEndpoint;
use super::temp_dir::TempDir;
use super::wait_until;

/// Running Caddy, stopped on drop.
pub struct Caddy {
    address: SocketAddr,
    process: Child,
    _temp_dir: TempDir,
}

impl Caddy {
    /// Starts Caddy with this site. The site must use port 8000, which is replaced with a free port.
    pub async fn start(site: &str) -> Self {
        let dir = TempDir::new();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(site.starts_with(":8000 {"), "{site}");
        let site = site.replacen(":8000", &format!(":{}", address.port()), 1);
        let config = format!("{{\n\tadmin off\n\tauto_https off\n\tdefault_bind 127.0.0.1\n}}\n{site}");
        let file = dir.write("Caddyfile", &config);
        let mut command = Command::new("caddy");
        command.args(["run", "--adapter", "caddyfile", "--config"]).arg(&file);
        // Keep Caddy's data in the temporary directory.
        command.env("HOME", dir.path()).env("XDG_DATA_HOME", dir.path()).env("XDG_CONFIG_HOME", dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = command.spawn().expect("cannot run caddy; `scripts/setup test` installs it");
        wait_until("Caddy listens", async || {
            assert!(process.try_wait().unwrap().is_none(), "Caddy stopped");
            TcpStream::connect(address).is_ok()
        })
        .await;
        Self { address, process, _temp_dir: dir }
    }

    pub fn endpoint(&self) -> TestEndpoint {
        TestEndpoint::Tcp(self.address)
    }
}

impl Drop for Caddy {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

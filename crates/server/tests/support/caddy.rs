//! The real Caddy, with a configuration of the test's own.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use super::folder::Folder;
use super::place::Place;
use super::until;

/// A running Caddy; dropping it stops it.
pub struct Caddy {
    at: SocketAddr,
    process: Child,
    _folder: Folder,
}

impl Caddy {
    /// Starts one with this site, which is to be at port 8000; another one is chosen.
    pub async fn with(site: &str) -> Self {
        let folder = Folder::new();
        let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(site.starts_with(":8000 {"), "{site}");
        let site = site.replacen(":8000", &format!(":{}", at.port()), 1);
        let whole = format!("{{\n\tadmin off\n\tauto_https off\n\tdefault_bind 127.0.0.1\n}}\n{site}");
        let file = folder.write("Caddyfile", &whole);
        let mut command = Command::new("caddy");
        command.args(["run", "--adapter", "caddyfile", "--config"]).arg(&file);
        // What it keeps, it keeps with the test.
        command.env("HOME", folder.path()).env("XDG_DATA_HOME", folder.path()).env("XDG_CONFIG_HOME", folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = command.spawn().expect("caddy runs; `scripts/setup test` installs it");
        until("Caddy listens", async || {
            assert!(process.try_wait().unwrap().is_none(), "Caddy stopped");
            TcpStream::connect(at).is_ok()
        })
        .await;
        Self { at, process, _folder: folder }
    }

    pub fn place(&self) -> Place {
        Place::Tcp(self.at)
    }
}

impl Drop for Caddy {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

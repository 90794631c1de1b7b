//! Real nginx process with a test configuration.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use super::endpoint::TestEndpoint;
use super::temp_dir::TempDir;
use super::wait_until;

/// Running nginx, stopped on drop.
pub struct Nginx {
    address: SocketAddr,
    process: Child,
    _temp_dir: TempDir,
}

impl Nginx {
    /// Starts nginx with these directives in its `server` block.
    pub async fn start(server: &str) -> Self {
        let dir = TempDir::new();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let here = dir.path().display();
        let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {here}/{name};\n"))
            .concat();
        let config = format!(
            "daemon off;\nmaster_process off;\npid {here}/pid;\nerror_log {here}/error.log;\n\
             events {{ worker_connections 256; }}\n\
             http {{\naccess_log off;\n{temp}server {{ listen {address};\n{server}\n}}\n}}\n"
        );
        let file = dir.write("nginx.conf", &config);
        let known = std::path::Path::new("/usr/sbin/nginx");
        let mut command = Command::new(if known.exists() { known } else { "nginx".as_ref() });
        command.arg("-p").arg(dir.path()).arg("-c").arg(&file).stdin(Stdio::null()).stderr(Stdio::null());
        let mut process = command.spawn().expect("cannot run nginx; `scripts/setup test` installs it");
        wait_until("nginx listens", async || {
            assert!(process.try_wait().unwrap().is_none(), "nginx stopped");
            TcpStream::connect(address).is_ok()
        })
        .await;
        Self { address, process, _temp_dir: dir }
    }

    pub fn endpoint(&self) -> TestEndpoint {
        TestEndpoint::Tcp(self.address)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

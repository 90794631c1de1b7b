//! The real nginx, with a configuration of the test's own.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use super::folder::Folder;
use super::place::Place;
use super::until;

/// A running nginx; dropping it stops it.
pub struct Nginx {
    at: SocketAddr,
    process: Child,
    _folder: Folder,
}

impl Nginx {
    /// Starts one with these directives of `server`.
    pub async fn with(server: &str) -> Self {
        let folder = Folder::new();
        let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let here = folder.path().display();
        let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {here}/{name};\n"))
            .concat();
        let whole = format!(
            "daemon off;\nmaster_process off;\npid {here}/pid;\nerror_log {here}/error.log;\n\
             events {{ worker_connections 256; }}\n\
             http {{\naccess_log off;\n{temp}server {{ listen {at};\n{server}\n}}\n}}\n"
        );
        let file = folder.write("nginx.conf", &whole);
        let known = std::path::Path::new("/usr/sbin/nginx");
        let mut command = Command::new(if known.exists() { known } else { "nginx".as_ref() });
        command.arg("-p").arg(folder.path()).arg("-c").arg(&file).stdin(Stdio::null()).stderr(Stdio::null());
        let mut process = command.spawn().expect("nginx runs; `scripts/setup test` installs it");
        until("nginx listens", async || {
            assert!(process.try_wait().unwrap().is_none(), "nginx stopped");
            TcpStream::connect(at).is_ok()
        })
        .await;
        Self { at, process, _folder: folder }
    }

    pub fn place(&self) -> Place {
        Place::Tcp(self.at)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

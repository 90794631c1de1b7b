//! The real nginx with a test configuration.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::wait_until;

/// A running nginx; stops on drop.
pub struct Nginx {
    pub at: SocketAddr,
    /// Its configuration, from `http` on.
    pub text: String,
    process: Child,
    folder: PathBuf,
}

impl Nginx {
    /// Starts nginx with these `http` directives; `LISTEN` stands for its address.
    pub fn with(http: &str) -> Self {
        static NEXT_ID: AtomicUsize = AtomicUsize::new(0);
        let index = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("sluicegate-nginx-{}-{index}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let text = format!("http {{\n{}\n}}\n", http.replace("LISTEN", &at.to_string()));
        let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {}/{name};\n", folder.display()))
            .concat();
        let main = format!(
            "daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log {folder}/error.log;\n\
             events {{ worker_connections 256; }}\n",
            folder = folder.display()
        );
        let whole = main + &text.replacen("http {", &format!("http {{\naccess_log off;\n{temp}"), 1);
        let file = folder.join("nginx.conf");
        std::fs::write(&file, whole).unwrap();
        let mut command =
            Command::new(if std::path::Path::new("/usr/sbin/nginx").exists() { "/usr/sbin/nginx" } else { "nginx" });
        command.arg("-p").arg(&folder).arg("-c").arg(&file).stdin(Stdio::null()).stderr(Stdio::null());
        let mut process = command.spawn().expect("nginx runs; `scripts/setup test` installs it");
        wait_until("nginx listens", || {
            assert!(process.try_wait().unwrap().is_none(), "nginx stopped");
            TcpStream::connect(at).is_ok()
        });
        Self { at, text, process, folder }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

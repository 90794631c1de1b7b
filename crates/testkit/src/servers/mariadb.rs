//! MariaDB server.
//!
//! A script that comes with MariaDB has to initialize the data directory first. Server and script read the
//! machine's configuration by default; `--no-defaults` prevents that.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use super::process::{ServerProcess, StartError, free_ports, with_retries};
use super::temp_dir::TempDir;

/// Not on every user's `PATH` in Debian.
const PROGRAM: &str = "/usr/sbin/mariadbd";
const INSTALL: &str = "mariadb-install-db";
/// Database created at startup.
const DATABASE: &str = "shop";
const USER: &str = "shop";
const PASSWORD: &str = "loopback-only";

/// MariaDB server for one test, with one empty database and a user that owns it.
#[derive(Debug)]
pub struct MariaDb {
    // Field order: the server stops before its directory is removed.
    server: ServerProcess,
    temp_dir: TempDir,
    port: u16,
}

impl MariaDb {
    /// Starts a server and waits until it responds. This takes a second or two.
    pub fn start() -> Result<Self, StartError> {
        with_retries(Self::try_start)
    }

    fn try_start() -> Result<Self, StartError> {
        let temp_dir = TempDir::new("mariadb")?;
        let [port] = free_ports()?;
        let home = temp_dir.path();
        init_data_dir(home)?;
        fs::write(home.join("init.sql"), init_sql())?;
        let log = home.join("log");
        let mut server = ServerProcess::start(PROGRAM, &mut server(home, port), &log)?;
        // The server sends the first packet: three bytes of length (it varies and is below 256), the packet number,
        // the protocol version.
        let greetings: Vec<[u8; 5]> = (0..=u8::MAX).map(|length| [length, 0, 0, 0, 10]).collect();
        let greetings: Vec<&[u8]> = greetings.iter().map(|greeting| &greeting[..]).collect();
        server.wait_for_any(port, b"", &greetings, &log)?;
        Ok(Self { server, temp_dir, port })
    }

    /// Listening port on 127.0.0.1.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// `mysql://user:password@127.0.0.1:port/database`.
    pub fn url(&self) -> String {
        format!("mysql://{USER}:{PASSWORD}@127.0.0.1:{}/{DATABASE}", self.port)
    }

    /// Process id.
    pub fn process_id(&self) -> u32 {
        self.server.id()
    }

    /// Home directory of the server.
    pub fn home_dir(&self) -> &Path {
        self.temp_dir.path()
    }
}

fn init_data_dir(home: &Path) -> Result<(), StartError> {
    let mut command = Command::new(INSTALL);
    command.args(["--no-defaults", "--skip-test-db", "--auth-root-authentication-method=socket"]);
    command.arg(format!("--datadir={}", home.join("data").display()));
    command.args(root_user_flag(home));
    let result = command.output().map_err(|error| StartError::Spawn { program: INSTALL, error })?;
    if result.status.success() {
        return Ok(());
    }
    let output = [result.stdout, result.stderr].concat();
    let output = String::from_utf8_lossy(&output).into_owned();
    Err(StartError::Exited { program: INSTALL, status: result.status, output })
}

/// SQL that the server runs before it accepts connections.
fn init_sql() -> String {
    format!(
        "CREATE DATABASE {DATABASE};\nCREATE USER '{USER}'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n\
         GRANT ALL ON {DATABASE}.* TO '{USER}'@'127.0.0.1';\n"
    )
}

fn server(home: &Path, port: u16) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-name-resolve", "--skip-log-bin"])
        // Small buffers: many servers may run at once.
        .args(["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M", "--performance-schema=OFF"])
        .arg(format!("--port={port}"))
        .arg(format!("--datadir={}", home.join("data").display()))
        .arg(format!("--socket={}", home.join("socket").display()))
        .arg(format!("--pid-file={}", home.join("pid").display()))
        .arg(format!("--init-file={}", home.join("init.sql").display()))
        .args(root_user_flag(home));
    command
}

/// MariaDB runs as root only with an explicit `--user=root`.
fn root_user_flag(home: &Path) -> Option<&'static str> {
    fs::metadata(home).is_ok_and(|metadata| metadata.uid() == 0).then_some("--user=root")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn instances_are_isolated_and_clean_up() {
        let [one, other] = [MariaDb::start().unwrap(), MariaDb::start().unwrap()];
        assert_ne!(one.port(), other.port());
        let (process, home_dir) = (format!("/proc/{}", one.process_id()), one.home_dir().to_owned());
        assert!(Path::new(&process).exists() && home_dir.exists());
        drop(one);
        assert!(!Path::new(&process).exists() && !home_dir.exists());
        assert!(other.url().ends_with(&format!("@127.0.0.1:{}/{DATABASE}", other.port())));
    }
}

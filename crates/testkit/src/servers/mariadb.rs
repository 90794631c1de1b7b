//! MariaDB.
//!
//! Its data folder has to be made before it can run, by a script that comes with it. Both read the machine's own
//! settings unless told not to; here neither does.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use super::folder::Folder;
use super::process::{Process, StartError, free_ports, with_retries};

/// In Debian it is not on everybody's path.
const PROGRAM: &str = "/usr/sbin/mariadbd";
const INSTALL: &str = "mariadb-install-db";
/// The database that is there from the start.
const DATABASE: &str = "shop";
const USER: &str = "shop";
const PASSWORD: &str = "loopback-only";

/// A MariaDB server of a test's own, with one empty database and one user who owns it.
#[derive(Debug)]
pub struct MariaDb {
    // Stopped first, removed then.
    server: Process,
    folder: Folder,
    port: u16,
}

impl MariaDb {
    /// Starts one and waits until it answers. That takes a second or two.
    pub fn start() -> Result<Self, StartError> {
        with_retries(Self::try_start)
    }

    fn try_start() -> Result<Self, StartError> {
        let folder = Folder::new("mariadb")?;
        let [port] = free_ports()?;
        let home = folder.path();
        make_data(home)?;
        fs::write(home.join("init.sql"), first_statements())?;
        let log = home.join("log");
        let mut server = Process::start(PROGRAM, &mut server(home, port), &log)?;
        // The server speaks first: the length of its greeting in three bytes, which varies and is less than 256; the
        // packet's number; the protocol's version.
        let greetings: Vec<[u8; 5]> = (0..=u8::MAX).map(|length| [length, 0, 0, 0, 10]).collect();
        let greetings: Vec<&[u8]> = greetings.iter().map(|greeting| &greeting[..]).collect();
        server.wait_for_any(port, b"", &greetings, &log)?;
        Ok(Self { server, folder, port })
    }

    /// Where it listens, on 127.0.0.1.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// `mysql://user:password@127.0.0.1:port/database`.
    pub fn url(&self) -> String {
        format!("mysql://{USER}:{PASSWORD}@127.0.0.1:{}/{DATABASE}", self.port)
    }

    /// The id of its process.
    pub fn process_id(&self) -> u32 {
        self.server.id()
    }

    /// The folder it has for its home.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

fn make_data(home: &Path) -> Result<(), StartError> {
    let mut command = Command::new(INSTALL);
    command.args(["--no-defaults", "--skip-test-db", "--auth-root-authentication-method=socket"]);
    command.arg(format!("--datadir={}", home.join("data").display()));
    command.args(as_root(home));
    let made = command.output().map_err(|error| StartError::Run { program: INSTALL, error })?;
    if made.status.success() {
        return Ok(());
    }
    let output = [made.stdout, made.stderr].concat();
    let output = String::from_utf8_lossy(&output).into_owned();
    Err(StartError::Stopped { program: INSTALL, status: made.status, output })
}

/// What the server does before it lets anybody in.
fn first_statements() -> String {
    format!(
        "CREATE DATABASE {DATABASE};\nCREATE USER '{USER}'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n\
         GRANT ALL ON {DATABASE}.* TO '{USER}'@'127.0.0.1';\n"
    )
}

fn server(home: &Path, port: u16) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-name-resolve", "--skip-log-bin"])
        // A small one: many may run at once.
        .args(["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M", "--performance-schema=OFF"])
        .arg(format!("--port={port}"))
        .arg(format!("--datadir={}", home.join("data").display()))
        .arg(format!("--socket={}", home.join("socket").display()))
        .arg(format!("--pid-file={}", home.join("pid").display()))
        .arg(format!("--init-file={}", home.join("init.sql").display()))
        .args(as_root(home));
    command
}

/// Root has to say that it means it.
fn as_root(home: &Path) -> Option<&'static str> {
    fs::metadata(home).is_ok_and(|folder| folder.uid() == 0).then_some("--user=root")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn every_one_is_its_own_and_leaves_nothing_behind() {
        let [one, other] = [MariaDb::start().unwrap(), MariaDb::start().unwrap()];
        assert_ne!(one.port(), other.port());
        let (process, folder) = (format!("/proc/{}", one.process_id()), one.folder().to_owned());
        assert!(Path::new(&process).exists() && folder.exists());
        drop(one);
        assert!(!Path::new(&process).exists() && !folder.exists());
        assert!(other.url().ends_with(&format!("@127.0.0.1:{}/{DATABASE}", other.port())));
    }
}

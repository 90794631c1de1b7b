//! Redis.

use std::process::Command;

use super::folder::Folder;
use super::process::{Process, StartError, free_ports, with_retries};

const PROGRAM: &str = "redis-server";

/// A Redis server of a test's own, empty and without persistence.
#[derive(Debug)]
pub struct RedisServer {
    // Stopped first, removed then.
    process: Process,
    _folder: Folder,
    port: u16,
}

impl RedisServer {
    /// Starts one and waits until it answers.
    pub fn start() -> Result<Self, StartError> {
        Self::start_with(&[])
    }

    /// Starts one with more of its options, each as on its command line: `&["--maxmemory", "10mb"]`.
    pub fn start_with(options: &[&str]) -> Result<Self, StartError> {
        with_retries(|| Self::try_start(options))
    }

    fn try_start(options: &[&str]) -> Result<Self, StartError> {
        let folder = Folder::new("redis")?;
        let [port] = free_ports()?;
        let log = folder.path().join("log");
        let mut command = Command::new(PROGRAM);
        command
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--port", &port.to_string()])
            .arg("--dir")
            .arg(folder.path())
            .args(options);
        let mut process = Process::start(PROGRAM, &mut command, &log)?;
        process.wait_for(port, b"PING\r\n", b"+PONG", &log)?;
        Ok(Self { process, _folder: folder, port })
    }

    /// Where it listens, on 127.0.0.1.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// `redis://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The id of its process.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }
}

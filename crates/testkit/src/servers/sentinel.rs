//! A primary, its replica, and a sentinel that watches them.

use std::fs;
use std::io;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::folder::Folder;
use super::process::{Process, StartError, free_ports, with_retries};
use super::redis::{ANSWERS, PROGRAM, RedisServer};
use super::redis_cli;

/// How long the three may take to know each other. Only a guard against hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// A primary, its replica, and a sentinel that makes the replica primary when the primary is gone for half a
/// second.
#[derive(Debug)]
pub struct SentinelGroup {
    sentinel: Process,
    _folder: Folder,
    port: u16,
    servers: [RedisServer; 2],
}

impl SentinelGroup {
    /// What the sentinel calls the primary.
    pub const NAME: &str = "main";

    /// Starts all three and waits until the sentinel knows the others.
    pub fn start() -> Result<Self, StartError> {
        let primary = RedisServer::start()?;
        let port = primary.port().to_string();
        let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &port, "--repl-diskless-sync-delay", "0"])?;
        let (sentinel, folder, port) = with_retries(|| sentinel(primary.port()))?;
        let group = Self { sentinel, _folder: folder, port, servers: [primary, replica] };
        group.wait_until_known()?;
        Ok(group)
    }

    fn wait_until_known(&self) -> io::Result<()> {
        let begun = Instant::now();
        loop {
            let known = redis_cli::run(self.port, &["SENTINEL", "replicas", Self::NAME])?;
            let linked = self.servers[1].command(&["INFO", "replication"])?;
            let port = self.servers[1].port().to_string();
            if known.lines().any(|line| line == port) && linked.contains("master_link_status:up") {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                return Err(io::Error::other(format!("the sentinel does not know the replica: {known}")));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// `127.0.0.1:port` of the sentinel.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The server that is the primary at first.
    pub const fn first_primary(&mut self) -> &mut RedisServer {
        &mut self.servers[0]
    }

    /// The server that is a replica at first.
    pub const fn first_replica(&mut self) -> &mut RedisServer {
        &mut self.servers[1]
    }

    /// Makes the sentinel swap primary and replica though nothing is wrong.
    pub fn fail_over(&self) -> io::Result<()> {
        redis_cli::expect_ok(self.port, &["SENTINEL", "failover", Self::NAME])
    }

    /// The id of the sentinel's process.
    pub fn process_id(&self) -> u32 {
        self.sentinel.id()
    }
}

fn sentinel(primary: u16) -> Result<(Process, Folder, u16), StartError> {
    let folder = Folder::new("sentinel")?;
    let [port] = free_ports()?;
    let (file, log) = (folder.path().join("sentinel.conf"), folder.path().join("log"));
    let name = SentinelGroup::NAME;
    let text = format!(
        "bind 127.0.0.1\nport {port}\ndir {}\n\
         sentinel monitor {name} 127.0.0.1 {primary} 1\n\
         sentinel down-after-milliseconds {name} 500\n\
         sentinel failover-timeout {name} 3000\n",
        folder.path().display()
    );
    fs::write(&file, text)?;
    let mut command = Command::new(PROGRAM);
    command.arg(&file).arg("--sentinel");
    let mut process = Process::start(PROGRAM, &mut command, &log)?;
    process.wait_for_any(port, b"PING\r\n", ANSWERS, &log)?;
    Ok((process, folder, port))
}

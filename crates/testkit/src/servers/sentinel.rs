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
        // A primary that expects more replicas waits before it sends the first its data.
        let at_once = ["--repl-diskless-sync-delay", "0"];
        let primary = RedisServer::start_with(&at_once)?;
        let port = primary.port().to_string();
        let replica = RedisServer::start_with(&[&at_once[..], &["--replicaof", "127.0.0.1", &port]].concat())?;
        // A sentinel asks for replicas when it starts, and then only every ten seconds.
        wait_for("the replica", || Ok(primary.command(&["INFO", "replication"])?.contains("state=online")))?;
        let (sentinel, folder, port) = with_retries(|| sentinel(primary.port()))?;
        let group = Self { sentinel, _folder: folder, port, servers: [primary, replica] };
        // Only a replica that it has heard from can be made primary.
        wait_for("the sentinel", || {
            let known = redis_cli::run(group.port, &["SENTINEL", "replicas", Self::NAME])?;
            Ok(known.contains("master-link-status\nok"))
        })?;
        Ok(group)
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

fn wait_for(whom: &str, is_there: impl Fn() -> io::Result<bool>) -> io::Result<()> {
    let begun = Instant::now();
    while !is_there()? {
        if begun.elapsed() > PATIENCE {
            return Err(io::Error::other(format!("waited for {whom} in vain")));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
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

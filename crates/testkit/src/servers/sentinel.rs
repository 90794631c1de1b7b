//! Redis Sentinel group: a primary, a replica and a sentinel.

use std::fs;
use std::io;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::process::{ServerProcess, StartError, free_ports, with_retries};
use super::redis::{PING_REPLIES, PROGRAM, RedisServer};
use super::redis_cli;
use super::temp_dir::TempDir;

/// Time limit for the three to discover each other. Only prevents a hang.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// A primary, its replica, and a sentinel that promotes the replica if the primary is down for half a second.
#[derive(Debug)]
pub struct SentinelGroup {
    sentinel: ServerProcess,
    _temp_dir: TempDir,
    port: u16,
    servers: [RedisServer; 2],
}

impl SentinelGroup {
    /// Name of the monitored primary.
    pub const NAME: &str = "main";

    /// Starts all three and waits until the sentinel knows the others.
    pub fn start() -> Result<Self, StartError> {
        // By default a primary delays the first sync to wait for more replicas.
        let no_sync_delay = ["--repl-diskless-sync-delay", "0"];
        let primary = RedisServer::start_with(&no_sync_delay)?;
        let port = primary.port().to_string();
        let replica = RedisServer::start_with(&[&no_sync_delay[..], &["--replicaof", "127.0.0.1", &port]].concat())?;
        // A sentinel discovers replicas at startup, and afterwards only every ten seconds.
        wait_until("the replica", || Ok(primary.command(&["INFO", "replication"])?.contains("state=online")))?;
        let (sentinel, temp_dir, port) = with_retries(|| start_sentinel(primary.port()))?;
        let group = Self { sentinel, _temp_dir: temp_dir, port, servers: [primary, replica] };
        // Only a replica that has reported to the sentinel can be promoted.
        wait_until("the sentinel", || {
            let known = redis_cli::run(group.port, &["SENTINEL", "replicas", Self::NAME])?;
            Ok(known.contains("master-link-status\nok"))
        })?;
        Ok(group)
    }

    /// `127.0.0.1:port` of the sentinel.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Server that is the initial primary.
    pub const fn first_primary(&mut self) -> &mut RedisServer {
        &mut self.servers[0]
    }

    /// Server that is the initial replica.
    pub const fn first_replica(&mut self) -> &mut RedisServer {
        &mut self.servers[1]
    }

    /// Makes the sentinel fail over although the primary is healthy.
    pub fn fail_over(&self) -> io::Result<()> {
        redis_cli::expect_ok(self.port, &["SENTINEL", "failover", Self::NAME])
    }

    /// Process id of the sentinel.
    pub fn process_id(&self) -> u32 {
        self.sentinel.id()
    }
}

fn wait_until(what: &str, is_ready: impl Fn() -> io::Result<bool>) -> io::Result<()> {
    let start = Instant::now();
    while !is_ready()? {
        if start.elapsed() > READY_TIMEOUT {
            return Err(io::Error::other(format!("timed out waiting for {what}")));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn start_sentinel(primary: u16) -> Result<(ServerProcess, TempDir, u16), StartError> {
    let temp_dir = TempDir::new("sentinel")?;
    let [port] = free_ports()?;
    let (file, log) = (temp_dir.path().join("sentinel.conf"), temp_dir.path().join("log"));
    let name = SentinelGroup::NAME;
    let text = format!(
        "bind 127.0.0.1\nport {port}\ndir {}\n\
         sentinel monitor {name} 127.0.0.1 {primary} 1\n\
         sentinel down-after-milliseconds {name} 500\n\
         sentinel failover-timeout {name} 3000\n",
        temp_dir.path().display()
    );
    fs::write(&file, text)?;
    let mut command = Command::new(PROGRAM);
    command.arg(&file).arg("--sentinel");
    let mut process = ServerProcess::start(PROGRAM, &mut command, &log)?;
    process.wait_for_any(port, b"PING\r\n", PING_REPLIES, &log)?;
    Ok((process, temp_dir, port))
}

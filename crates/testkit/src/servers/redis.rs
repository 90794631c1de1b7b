//! Redis server.

use std::io;
use std::path::PathBuf;
use std::process::Command;

use super::certificates::Certificates;
use super::process::{ServerProcess, StartError, free_ports, with_retries};
use super::redis_cli;
use super::temp_dir::TempDir;

pub(super) const PROGRAM: &str = "redis-server";
/// Prefixes of a reply to `PING` from a running server, also without authentication or while it loads data.
pub(super) const PING_REPLIES: &[&[u8]] = &[b"+PONG", b"-NOAU", b"-LOAD"];

/// Redis server for one test, empty and without persistence.
#[derive(Debug)]
pub struct RedisServer {
    /// `None` after [`kill`](RedisServer::kill). Field order: the process stops before its directory is removed.
    process: Option<ServerProcess>,
    temp_dir: TempDir,
    port: u16,
    tls: Option<(u16, Certificates)>,
    options: Vec<String>,
}

impl RedisServer {
    /// Starts a server and waits until it responds.
    pub fn start() -> Result<Self, StartError> {
        Self::start_with(&[])
    }

    /// Starts a server with extra command-line options: `&["--maxmemory", "10mb"]`.
    pub fn start_with(options: &[&str]) -> Result<Self, StartError> {
        with_retries(|| Self::try_start(options, false))
    }

    /// Starts a server that also listens for TLS, with its own certificate for `127.0.0.1` and `localhost`.
    pub fn start_with_tls(options: &[&str]) -> Result<Self, StartError> {
        with_retries(|| Self::try_start(options, true))
    }

    fn try_start(options: &[&str], tls: bool) -> Result<Self, StartError> {
        let temp_dir = TempDir::new("redis")?;
        let [port, tls_port] = free_ports()?;
        let tls = if tls { Some((tls_port, Certificates::generate(temp_dir.path())?)) } else { None };
        let options = options.iter().map(ToString::to_string).collect();
        let mut server = Self { process: None, temp_dir, port, tls, options };
        server.run()?;
        Ok(server)
    }

    fn run(&mut self) -> Result<(), StartError> {
        let log = self.temp_dir.path().join("log");
        let mut command = Command::new(PROGRAM);
        command
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--port", &self.port.to_string()])
            .arg("--dir")
            .arg(self.temp_dir.path());
        if let Some((port, certificates)) = &self.tls {
            command.args(["--tls-port", &port.to_string(), "--tls-auth-clients", "no"]);
            command.arg("--tls-cert-file").arg(&certificates.certificate);
            command.arg("--tls-key-file").arg(&certificates.key);
            command.arg("--tls-ca-cert-file").arg(&certificates.ca);
        }
        command.args(&self.options);
        let mut process = ServerProcess::start(PROGRAM, &mut command, &log)?;
        process.wait_for_any(self.port, b"PING\r\n", PING_REPLIES, &log)?;
        self.process = Some(process);
        Ok(())
    }

    /// Kills the process to simulate a crash. The port stays reserved for a restart.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Restarts the server on the same port, killing it first if it runs.
    pub fn restart(&mut self) -> Result<(), StartError> {
        self.kill();
        self.run()
    }

    /// Suspends the process (`SIGSTOP`); connections stay open.
    pub fn pause(&self) -> io::Result<()> {
        self.process.as_ref().map_or(Ok(()), |process| process.signal("STOP"))
    }

    /// Resumes a suspended process (`SIGCONT`).
    pub fn resume(&self) -> io::Result<()> {
        self.process.as_ref().map_or(Ok(()), |process| process.signal("CONT"))
    }

    /// Runs a command with `redis-cli` and returns its output.
    pub fn command(&self, args: &[&str]) -> io::Result<String> {
        redis_cli::run(self.port, args)
    }

    /// Listening port on 127.0.0.1.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// `redis://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// TLS port on 127.0.0.1, and the path of the CA certificate to trust.
    pub fn tls(&self) -> Option<(u16, PathBuf)> {
        self.tls.as_ref().map(|(port, certificates)| (*port, certificates.ca.clone()))
    }

    /// Process id. Zero after [`kill`](Self::kill).
    pub fn process_id(&self) -> u32 {
        self.process.as_ref().map_or(0, ServerProcess::id)
    }
}

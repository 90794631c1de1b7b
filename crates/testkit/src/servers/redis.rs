//! Redis.

use std::io;
use std::path::PathBuf;
use std::process::Command;

use super::certificates::Certificates;
use super::folder::Folder;
use super::process::{Process, StartError, free_ports, with_retries};
use super::redis_cli;

pub(super) const PROGRAM: &str = "redis-server";
/// What a server says that runs: also to those who may not ask, and while it reads its data.
pub(super) const ANSWERS: &[&[u8]] = &[b"+PONG", b"-NOAU", b"-LOAD"];

/// A Redis server of a test's own, empty and without persistence.
#[derive(Debug)]
pub struct RedisServer {
    /// Absent while it is killed. Stopped first, removed then.
    process: Option<Process>,
    folder: Folder,
    port: u16,
    tls: Option<(u16, Certificates)>,
    options: Vec<String>,
}

impl RedisServer {
    /// Starts one and waits until it answers.
    pub fn start() -> Result<Self, StartError> {
        Self::start_with(&[])
    }

    /// Starts one with more of its options, each as on its command line: `&["--maxmemory", "10mb"]`.
    pub fn start_with(options: &[&str]) -> Result<Self, StartError> {
        with_retries(|| Self::try_start(options, false))
    }

    /// Starts one that also listens for TLS, with a certificate of its own for `127.0.0.1` and `localhost`.
    pub fn start_with_tls(options: &[&str]) -> Result<Self, StartError> {
        with_retries(|| Self::try_start(options, true))
    }

    fn try_start(options: &[&str], tls: bool) -> Result<Self, StartError> {
        let folder = Folder::new("redis")?;
        let [port, tls_port] = free_ports()?;
        let tls = if tls { Some((tls_port, Certificates::make(folder.path())?)) } else { None };
        let options = options.iter().map(ToString::to_string).collect();
        let mut server = Self { process: None, folder, port, tls, options };
        server.run()?;
        Ok(server)
    }

    fn run(&mut self) -> Result<(), StartError> {
        let log = self.folder.path().join("log");
        let mut command = Command::new(PROGRAM);
        command
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--port", &self.port.to_string()])
            .arg("--dir")
            .arg(self.folder.path());
        if let Some((port, certificates)) = &self.tls {
            command.args(["--tls-port", &port.to_string(), "--tls-auth-clients", "no"]);
            command.arg("--tls-cert-file").arg(&certificates.certificate);
            command.arg("--tls-key-file").arg(&certificates.key);
            command.arg("--tls-ca-cert-file").arg(&certificates.authority);
        }
        command.args(&self.options);
        let mut process = Process::start(PROGRAM, &mut command, &log)?;
        process.wait_for_any(self.port, b"PING\r\n", ANSWERS, &log)?;
        self.process = Some(process);
        Ok(())
    }

    /// Kills it as a crash would. Its port stays its own.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts it again where it was, killing it first if it runs.
    pub fn restart(&mut self) -> Result<(), StartError> {
        self.kill();
        self.run()
    }

    /// Stops it from doing anything; connections stay open.
    pub fn pause(&self) -> io::Result<()> {
        self.process.as_ref().map_or(Ok(()), |process| process.signal("STOP"))
    }

    /// Lets it go on where it was stopped.
    pub fn resume(&self) -> io::Result<()> {
        self.process.as_ref().map_or(Ok(()), |process| process.signal("CONT"))
    }

    /// Runs a command on it with `redis-cli`, and says what that wrote.
    pub fn command(&self, words: &[&str]) -> io::Result<String> {
        redis_cli::run(self.port, words)
    }

    /// Where it listens, on 127.0.0.1.
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

    /// Where it listens for TLS, on 127.0.0.1, and the file with the certificate to trust.
    pub fn tls(&self) -> Option<(u16, PathBuf)> {
        self.tls.as_ref().map(|(port, certificates)| (*port, certificates.authority.clone()))
    }

    /// The id of its process. Zero while it is killed.
    pub fn process_id(&self) -> u32 {
        self.process.as_ref().map_or(0, Process::id)
    }
}

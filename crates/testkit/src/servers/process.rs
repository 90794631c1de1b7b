//! Server process: start, readiness probe, and stop by process id.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Time limit for a server to respond. Only prevents a hang: machines can be busy.
const START_TIMEOUT: Duration = Duration::from_secs(240);
/// Interval between readiness probes.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Error while starting a server.
#[derive(Debug)]
pub enum StartError {
    /// The program could not be executed.
    Spawn {
        /// Program name.
        program: &'static str,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The program exited before it responded.
    Exited {
        /// Program name.
        program: &'static str,
        /// Exit status.
        status: ExitStatus,
        /// Output of the program.
        output: String,
    },
    /// The program runs but does not respond.
    Unresponsive {
        /// Program name.
        program: &'static str,
        /// Output of the program.
        output: String,
    },
    /// A port or file could not be allocated.
    Io(io::Error),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Spawn { program, error } => {
                write!(f, "cannot run {program}: {error}; `scripts/setup test` installs it")
            }
            Self::Exited { program, status, output } => write!(f, "{program} exited ({status}): {output}"),
            Self::Unresponsive { program, output } => write!(f, "{program} runs but does not respond: {output}"),
            Self::Io(error) => write!(f, "cannot allocate a port or file for a server: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Running program, killed on drop.
#[derive(Debug)]
pub(super) struct ServerProcess {
    program: &'static str,
    child: Child,
}

impl ServerProcess {
    /// Starts `command` with its output redirected to `log`.
    pub(super) fn start(program: &'static str, command: &mut Command, log: &Path) -> Result<Self, StartError> {
        let log = File::create(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .map_err(|error| StartError::Spawn { program, error })?;
        Ok(Self { program, child })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, named without `SIG`.
    pub(super) fn signal(&self, name: &str) -> io::Result<()> {
        let status = Command::new("kill").args(["-s", name, &self.id().to_string()]).status()?;
        if status.success() { Ok(()) } else { Err(io::Error::other(format!("kill -s {name}: {status}"))) }
    }

    /// Waits until the server at `port` replies to `hello` with bytes that begin with `reply`.
    pub(super) fn wait_for(&mut self, port: u16, hello: &[u8], reply: &[u8], log: &Path) -> Result<(), StartError> {
        self.wait_for_any(port, hello, &[reply], log)
    }

    /// Waits until the server at `port` replies to `hello` with bytes that begin with one of `replies`, all of
    /// equal length.
    pub(super) fn wait_for_any(
        &mut self,
        port: u16,
        hello: &[u8],
        replies: &[&[u8]],
        log: &Path,
    ) -> Result<(), StartError> {
        let program = self.program;
        let output = || std::fs::read_to_string(log).unwrap_or_default();
        let started = Instant::now();
        while !responds(port, hello, replies) {
            if let Some(status) = self.child.try_wait()? {
                return Err(StartError::Exited { program, status, output: output() });
            }
            if started.elapsed() > START_TIMEOUT {
                return Err(StartError::Unresponsive { program, output: output() });
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The process may have exited already; after the wait none is left in either case.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn responds(port: u16, hello: &[u8], replies: &[&[u8]]) -> bool {
    let probe = || -> io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), START_TIMEOUT)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(hello)?;
        let mut got = vec![0; replies.first().map_or(0, |reply| reply.len())];
        stream.read_exact(&mut got)?;
        Ok(replies.contains(&&got[..]))
    };
    probe().unwrap_or(false)
}

/// Distinct free loopback ports.
pub(super) fn free_ports<const N: usize>() -> io::Result<[u16; N]> {
    let mut listeners = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        listeners.push(listener);
    }
    Ok(ports)
}

/// Starts a server and retries once if it exits: another program may have taken its port.
pub(super) fn with_retries<T>(start: impl Fn() -> Result<T, StartError>) -> Result<T, StartError> {
    match start() {
        Err(StartError::Exited { .. }) => start(),
        other => other,
    }
}

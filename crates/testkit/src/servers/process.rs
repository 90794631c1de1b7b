//! A server's process: started, waited for until it answers, stopped by its own id.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a server may take to answer. Only a guard against hanging: machines can be busy.
const PATIENCE: Duration = Duration::from_secs(240);
/// How often it is asked.
const EVERY: Duration = Duration::from_millis(20);

/// Why a server did not start.
#[derive(Debug)]
pub enum StartError {
    /// Its program could not be run.
    Run {
        /// The program.
        program: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// It stopped before it answered.
    Stopped {
        /// The program.
        program: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// What it wrote.
        output: String,
    },
    /// It runs but does not answer.
    Silent {
        /// The program.
        program: &'static str,
        /// What it wrote.
        output: String,
    },
    /// A port or a file could not be had.
    Io(io::Error),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Run { program, error } => {
                write!(f, "{program} cannot be run: {error}; `scripts/setup test` installs it")
            }
            Self::Stopped { program, status, output } => write!(f, "{program} stopped ({status}): {output}"),
            Self::Silent { program, output } => write!(f, "{program} runs but does not answer: {output}"),
            Self::Io(error) => write!(f, "no port or file for a server: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A running program. Dropping it stops it.
#[derive(Debug)]
pub(super) struct Process {
    program: &'static str,
    child: Child,
}

impl Process {
    /// Runs `command`; what it writes goes to `log`.
    pub(super) fn start(program: &'static str, command: &mut Command, log: &Path) -> Result<Self, StartError> {
        let log = File::create(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .map_err(|error| StartError::Run { program, error })?;
        Ok(Self { program, child })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to it, by its name without `SIG`.
    pub(super) fn signal(&self, name: &str) -> io::Result<()> {
        let status = Command::new("kill").args(["-s", name, &self.id().to_string()]).status()?;
        if status.success() { Ok(()) } else { Err(io::Error::other(format!("kill -s {name}: {status}"))) }
    }

    /// Waits until the server at `port` answers `hello` with something that begins with `reply`.
    pub(super) fn wait_for(&mut self, port: u16, hello: &[u8], reply: &[u8], log: &Path) -> Result<(), StartError> {
        self.wait_for_any(port, hello, &[reply], log)
    }

    /// Waits until the server at `port` answers `hello` with something that begins with one of `replies`, which
    /// are equally long.
    pub(super) fn wait_for_any(
        &mut self,
        port: u16,
        hello: &[u8],
        replies: &[&[u8]],
        log: &Path,
    ) -> Result<(), StartError> {
        let program = self.program;
        let output = || std::fs::read_to_string(log).unwrap_or_default();
        let begun = Instant::now();
        while !answers(port, hello, replies) {
            if let Some(status) = self.child.try_wait()? {
                return Err(StartError::Stopped { program, status, output: output() });
            }
            if begun.elapsed() > PATIENCE {
                return Err(StartError::Silent { program, output: output() });
            }
            thread::sleep(EVERY);
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself; either way nothing of it is left after the wait.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn answers(port: u16, hello: &[u8], replies: &[&[u8]]) -> bool {
    let ask = || -> io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), PATIENCE)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(hello)?;
        let mut got = vec![0; replies.first().map_or(0, |reply| reply.len())];
        stream.read_exact(&mut got)?;
        Ok(replies.contains(&&got[..]))
    };
    ask().unwrap_or(false)
}

/// Ports of loopback that nobody uses, all different.
pub(super) fn free_ports<const N: usize>() -> io::Result<[u16; N]> {
    let mut held = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

/// Starts a server, again if it stopped: another program may have taken its port in between.
pub(super) fn with_retries<T>(start: impl Fn() -> Result<T, StartError>) -> Result<T, StartError> {
    match start() {
        Err(StartError::Stopped { .. }) => start(),
        other => other,
    }
}

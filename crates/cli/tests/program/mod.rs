//! The built program with a decision server, for black-box tests.

#![allow(dead_code, unreachable_pub, reason = "not every test needs everything")]

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Guards against hanging tests; no measurement uses it.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Password of servers that require one.
pub const SECRET: &str = "open-sesame-0123456789abcdef";

pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < TEST_TIMEOUT, "timeout: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The running program; killed on drop.
pub struct Program {
    pub folder: PathBuf,
    child: Child,
}

impl Program {
    /// Starts the program with this rule file. The file `secret` next to it contains the [`SECRET`].
    pub fn start(rules: &str) -> Self {
        Self::start_with(rules, |_| ())
    }

    /// Starts the program with this rule file and the files that `prepare` writes.
    pub fn start_with(rules: &str, prepare: impl FnOnce(&Path)) -> Self {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let (id, index) = (std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(format!("sluicegate-clients-{id}-{index}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("secret"), SECRET).unwrap();
        fs::write(folder.join("rules.yaml"), rules).unwrap();
        prepare(&folder);
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
        command.arg("run").arg(folder.join("rules.yaml")).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(File::create(folder.join("log")).unwrap()).spawn().unwrap();
        let mut program = Self { folder, child };
        wait_until("it listens", || {
            assert!(program.is_running(), "it ended: {}", program.log());
            is_serving(&program.log())
        });
        program
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Log output so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap()
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Address of a protocol: `RESP`, `HTTP` or `RLS`.
    pub fn address(&self, protocol: &str) -> SocketAddr {
        let log = self.log();
        let service = match protocol {
            "RLS" => "Envoy rate limit service at ".to_owned(),
            _ => format!("{protocol} decision server at "),
        };
        let rest = log.split(&service).nth(1).unwrap_or_else(|| panic!("{log}"));
        rest.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Resident memory in KiB.
    pub fn memory_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// True if the log contains the banner of the decision server.
fn is_serving(log: &str) -> bool {
    log.contains(" decision server at ") || log.contains("Envoy rate limit service at ")
}

/// Creates an authority, `ca.pem`, and a certificate for loopback, `server.pem` with `server.key`.
pub fn make_certificates(folder: &Path) {
    fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:FALSE\n").unwrap();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    for words in [
        format!("req -x509 -days 2 -subj /CN=Tests -keyout ca.key -out ca.pem {key}"),
        format!("req -subj /CN=localhost -keyout server.key -out server.csr {key}"),
        "x509 -req -days 2 -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names -out server.pem"
            .to_owned(),
    ] {
        run_command(Command::new("openssl").args(words.split_whitespace()).current_dir(folder));
    }
}

/// Output of a command, which must succeed.
pub fn run_command(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success(), "{command:?}\n{out}\n{err}");
    out.into_owned()
}

/// Path of a client installed by `scripts/install-clients`.
pub fn installed_client(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tests/clients").join(name);
    assert!(path.exists(), "{} is missing: run scripts/install-clients", path.display());
    path
}

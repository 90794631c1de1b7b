//! Simulated reader session: runs the commands of a page in a temporary directory with separate ports.
//!
//! Ports in commands and example files are replaced by free ones. Long-running commands (`sluicegate run`,
//! `nginx`, `envoy`, `prometheus`, `python3`) run in the background until the session ends or the page says
//! Ctrl-C: a page that forgets to stop a program cannot start the next one on its ports.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::normalize::{ids, stable_lines};
use super::page::{PageStep, root};

/// Ports that pages use.
const DOCUMENTED_PORTS: [u16; 11] = [8080, 8081, 8082, 6380, 9900, 8000, 9001, 9002, 9003, 10000, 8001];

/// Ports at which a page expects programs of the reader.
const READER_PORTS: [u16; 3] = [9001, 9002, 9003];

const NGINX_DIRS: &str = "access_log off; client_body_temp_path body; proxy_temp_path proxy; \
    fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;";

/// Guards against hanging tests; no measurement uses it.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Session {
    folder: PathBuf,
    ports: Vec<(u16, u16)>,
    /// Background programs.
    background: Vec<BackgroundProgram>,
    /// Number of programs started so far.
    started: u32,
    /// Ids shown in the page, with the actual ones.
    ids: Vec<(String, String)>,
}

struct BackgroundProgram {
    child: Child,
    command: String,
    log: PathBuf,
}

impl BackgroundProgram {
    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    fn stop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.background.iter_mut().for_each(BackgroundProgram::stop);
        drop(fs::remove_dir_all(&self.folder));
    }
}

impl Session {
    pub(crate) fn begin() -> Self {
        static NEXT_ID: AtomicU32 = AtomicU32::new(0);
        let (id, index) = (std::process::id(), NEXT_ID.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(format!("sluicegate-pages-{id}-{index}"));
        let ports = DOCUMENTED_PORTS.map(|named| (named, free_port()));
        let session = Self { folder, ports: ports.to_vec(), background: Vec::new(), started: 0, ids: Vec::new() };
        session.copy(&root().join("examples"), &session.folder.join("examples"));
        session
    }

    /// Working directory.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs commands that must succeed.
    pub(crate) fn run_all(&self, commands: &str) {
        self.run(&format!("set -e\n{commands}"));
    }

    /// Repeats a command until it prints the expected output.
    pub(crate) fn wait_for_output(&self, command: &str, wanted: &str) {
        let begun = Instant::now();
        loop {
            let output = self.run(command);
            if output == wanted {
                return;
            }
            let logs: Vec<String> = self.background.iter().map(BackgroundProgram::log).collect();
            assert!(begun.elapsed() < TEST_TIMEOUT, "the last output is {output}, not {wanted}\n{}", logs.join("\n"));
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Log of the last started program.
    pub(crate) fn log(&self) -> String {
        self.to_documented_ports(&self.background.last().unwrap().log())
    }

    /// Waits until the log contains these words.
    pub(crate) fn wait_for_log(&self, words: &str) {
        let begun = Instant::now();
        while !self.log().contains(words) {
            assert!(begun.elapsed() < TEST_TIMEOUT, "the log never contains {words}:\n{}", self.log());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Copies the examples, with the ports of this session.
    fn copy(&self, from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
            let (path, copy) = (entry.path(), to.join(entry.file_name()));
            if path.is_dir() {
                self.copy(&path, &copy);
            } else if let Ok(text) = fs::read_to_string(&path) {
                // Keeps nginx's files in the directory.
                let text = text.replace("http {\n", &format!("http {{\n{NGINX_DIRS}\n"));
                fs::write(copy, self.to_session_ports(&text)).unwrap();
            }
        }
    }

    /// Replaces documented ports by the ports of this session.
    fn to_session_ports(&self, text: &str) -> String {
        self.ports.iter().fold(text.to_owned(), |text, (named, free)| {
            ["127.0.0.1:", "localhost:", "-p ", "port=", "port_value: ", "127.0.0.1 "]
                .iter()
                .fold(text, |text, before| text.replace(&format!("{before}{named}"), &format!("{before}{free}")))
        })
    }

    /// Replaces the ports of this session by documented ports.
    fn to_documented_ports(&self, text: &str) -> String {
        self.ports
            .iter()
            .fold(text.to_owned(), |text, (named, free)| text.replace(&format!(":{free}"), &format!(":{named}")))
    }

    /// Starts the reader's programs, which respond `hello`.
    pub(crate) fn start_reader_programs(&mut self) {
        let addresses = READER_PORTS.map(|port| format!("127.0.0.1:{port}")).join(", ");
        let rules = format!(
            "gateway: {{ listen: [{addresses}], routes: [{{ path: \"/{{*rest}}\", respond: {{ body: \"hello\\n\" }} }}] }}\n"
        );
        fs::write(self.folder.join("theirs.yaml"), self.to_session_ports(&rules)).unwrap();
        self.start("sluicegate run theirs.yaml");
    }

    /// Runs the commands of a step and compares their output.
    pub(crate) fn run_step(&mut self, step: &PageStep) {
        for (name, text) in &step.files {
            let path = self.folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, self.to_session_ports(text)).unwrap();
        }
        if step.stops {
            self.background.iter_mut().filter(|it| it.is_page_program()).for_each(BackgroundProgram::stop);
            self.background.retain_mut(|it| it.child.try_wait().unwrap().is_none());
        }
        let (background, foreground): (Vec<&String>, Vec<&String>) =
            step.commands.iter().partition(|it| is_long_running(it));
        for command in &background {
            self.start(command);
        }
        let run = |session: &Self| foreground.iter().map(|command| session.run(command)).collect::<String>();
        let mut output = run(self);
        for shown in &step.outputs {
            let begun = Instant::now();
            loop {
                let actual = if foreground.is_empty() { self.background.last().unwrap().log() } else { output.clone() };
                let actual = self.to_documented_ports(&actual);
                if matches_documented(&actual, &shown.text, foreground.is_empty()) {
                    self.ids.extend(ids(&shown.text).into_iter().zip(ids(&actual)));
                    break;
                }
                let timed_out = begun.elapsed() > TEST_TIMEOUT;
                assert!(!timed_out, "line {}: the last output is\n{actual}\nnot\n{}", shown.line, shown.text);
                if !foreground.is_empty() {
                    output = run(self);
                }
                thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// Starts a long-running command and waits until it is ready.
    fn start(&mut self, command: &str) {
        let typed = match command {
            // The built-in file, with other ports.
            "sluicegate run" | "make run" => "sluicegate run examples/rules/first-run.yaml".to_owned(),
            other if other.starts_with("nginx") => {
                format!("{other} -p \"$PWD\" -e nginx.log -g 'daemon off; master_process off; pid nginx.pid;'")
            }
            other if other.starts_with("envoy") => format!("{other} --disable-hot-restart --concurrency 1"),
            other => other.to_owned(),
        };
        self.started += 1;
        let log = self.folder.join(format!("log-{}", self.started));
        let [out, err] = [0; 2].map(|_| File::options().create(true).append(true).open(&log).unwrap());
        let mut shell = self.shell(&format!("exec {}", self.to_session_ports(&typed)));
        let child = shell.stdout(out).stderr(err).spawn().unwrap();
        self.background.push(BackgroundProgram { child, command: command.to_owned(), log });
        let port = match command.split_whitespace().next() {
            Some("nginx") => Some(8000),
            Some("envoy") => Some(10000),
            Some("prometheus") => Some(8001),
            Some("python3") => Some(9001),
            _ => None,
        };
        let port = port.map(|named| self.ports.iter().find(|(it, _)| *it == named).unwrap().1);
        let begun = Instant::now();
        loop {
            let program = self.background.last_mut().unwrap();
            let log = program.log();
            assert!(program.child.try_wait().unwrap().is_none(), "{command} ended:\n{log}");
            let ready = match port {
                Some(port) => TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok(),
                None => ["listening at", "decision server at", "rate limit service at", "dashboard at"]
                    .iter()
                    .any(|word| log.contains(word)),
            };
            if ready {
                return;
            }
            assert!(begun.elapsed() < TEST_TIMEOUT, "{command} is not ready:\n{log}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Output of a command, which must succeed.
    pub(crate) fn run(&self, command: &str) -> String {
        // Without a terminal, redis-cli omits type annotations that pages show.
        let typed = self.to_session_ports(command).replace("redis-cli -p", "redis-cli --no-raw -p");
        let typed = self.ids.iter().fold(typed, |typed, (shown, came)| typed.replace(shown, came));
        let output = self.shell(&typed).output().unwrap();
        let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert!(output.status.success(), "{typed}\n{out}\n{err}");
        out.into_owned()
    }

    fn shell(&self, line: &str) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_sluicegate")).parent().unwrap();
        let envoy = root().join("target/tests/envoy-1.40.0/bin");
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{}:{path}:/usr/sbin", program.display(), envoy.display());
        let mut shell = Command::new("bash");
        shell.args(["-c", line]).env("PATH", path).env("NO_COLOR", "1").current_dir(&self.folder).stdin(Stdio::null());
        shell
    }
}

impl BackgroundProgram {
    /// True for a program of the page, false for one of the reader.
    fn is_page_program(&self) -> bool {
        (self.command == "make run" || self.command.starts_with("sluicegate run"))
            && !self.command.ends_with("theirs.yaml")
    }
}

/// A free port below the kernel's ephemeral range, so that no outgoing connection takes it before a command
/// listens there.
fn free_port() -> u16 {
    static NEXT_PORT: AtomicU32 = AtomicU32::new(0);
    loop {
        let index = std::process::id().wrapping_mul(61).wrapping_add(NEXT_PORT.fetch_add(1, Ordering::Relaxed));
        let port = 11_000 + u16::try_from(index % 21_000).unwrap();
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

/// True if a command runs until it is stopped.
fn is_long_running(command: &str) -> bool {
    ["sluicegate run", "make run", "nginx ", "envoy ", "prometheus ", "python3 -m http.server"]
        .iter()
        .any(|begin| command.starts_with(begin))
}

/// True if the output matches the page. A log may contain more than is shown; other output may not.
pub(crate) fn matches_documented(actual: &str, shown: &str, is_log: bool) -> bool {
    let (actual, shown) = (stable_lines(actual), stable_lines(shown));
    if is_log { shown.iter().all(|line| actual.iter().any(|it| it.contains(line.as_str()))) } else { actual == shown }
}

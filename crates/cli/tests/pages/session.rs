//! A reader at the terminal: types what a page shows, in a folder of its own, at ports of its own.
//!
//! The ports that pages name are exchanged for free ones, in the commands and in the examples' files. What goes on
//! until it is stopped (`sluicegate run`, `nginx`, `envoy`, `prometheus`, `python3`) runs beside the rest and is gone with the
//! session, or where the page says Ctrl-C: who is not told to stop one program cannot start the next at its ports.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::alike::{ids, lasting};
use crate::page::{Step, root};

/// The ports that pages name.
const NAMED: [u16; 11] = [8080, 8081, 8082, 6380, 9900, 8000, 9001, 9002, 9003, 10000, 8001];

/// Of them, those at which a page expects a program of its reader's.
const THEIRS: [u16; 3] = [9001, 9002, 9003];

const NGINX_FOLDERS: &str = "access_log off; client_body_temp_path body; proxy_temp_path proxy; \
    fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;";

/// Guards against hanging; nothing is measured by it.
const GUARD: Duration = Duration::from_secs(60);

pub(crate) struct Session {
    folder: PathBuf,
    ports: Vec<(u16, u16)>,
    /// What was started and goes on.
    beside: Vec<Beside>,
    /// How many were.
    started: u32,
    /// Ids that the page shows, and those that came instead.
    ids: Vec<(String, String)>,
}

struct Beside {
    child: Child,
    command: String,
    log: PathBuf,
}

impl Beside {
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
        self.beside.iter_mut().for_each(Beside::stop);
        drop(fs::remove_dir_all(&self.folder));
    }
}

impl Session {
    pub(crate) fn begin() -> Self {
        static BEGUN: AtomicU32 = AtomicU32::new(0);
        let (id, nth) = (std::process::id(), BEGUN.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(format!("sluicegate-pages-{id}-{nth}"));
        let ports = NAMED.map(|named| (named, free_port()));
        let session = Self { folder, ports: ports.to_vec(), beside: Vec::new(), started: 0, ids: Vec::new() };
        session.copy(&root().join("examples"), &session.folder.join("examples"));
        session
    }

    /// Where everything is typed.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs commands that must all succeed.
    pub(crate) fn run_all(&self, commands: &str) {
        self.run(&format!("set -e\n{commands}"));
    }

    /// Asks until it is answered so.
    pub(crate) fn until_answered(&self, command: &str, wanted: &str) {
        let begun = Instant::now();
        loop {
            let answer = self.run(command);
            if answer == wanted {
                return;
            }
            let logs: Vec<String> = self.beside.iter().map(Beside::log).collect();
            assert!(begun.elapsed() < GUARD, "in the end it is {answer}, not {wanted}\n{}", logs.join("\n"));
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// What the program that was started last has said.
    pub(crate) fn log(&self) -> String {
        self.back(&self.beside.last().unwrap().log())
    }

    /// Waits until it says so.
    pub(crate) fn until_logged(&self, words: &str) {
        let begun = Instant::now();
        while !self.log().contains(words) {
            assert!(begun.elapsed() < GUARD, "it never says {words}:\n{}", self.log());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The folder of examples, at this session's ports.
    fn copy(&self, from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
            let (path, copy) = (entry.path(), to.join(entry.file_name()));
            if path.is_dir() {
                self.copy(&path, &copy);
            } else if let Ok(text) = fs::read_to_string(&path) {
                // What nginx writes stays in the folder.
                let text = text.replace("http {\n", &format!("http {{\n{NGINX_FOLDERS}\n"));
                fs::write(copy, self.moved(&text)).unwrap();
            }
        }
    }

    /// The same text at this session's ports.
    fn moved(&self, text: &str) -> String {
        self.ports.iter().fold(text.to_owned(), |text, (named, free)| {
            ["127.0.0.1:", "localhost:", "-p ", "port=", "port_value: ", "127.0.0.1 "]
                .iter()
                .fold(text, |text, before| text.replace(&format!("{before}{named}"), &format!("{before}{free}")))
        })
    }

    /// An answer as if it had come from the ports that pages name.
    fn back(&self, text: &str) -> String {
        self.ports
            .iter()
            .fold(text.to_owned(), |text, (named, free)| text.replace(&format!(":{free}"), &format!(":{named}")))
    }

    /// Programs of the reader's, which answer `hello`.
    pub(crate) fn start_programs(&mut self) {
        let places = THEIRS.map(|port| format!("127.0.0.1:{port}")).join(", ");
        let rules = format!(
            "gateway: {{ listen: [{places}], routes: [{{ path: \"/{{*rest}}\", answer: {{ body: \"hello\\n\" }} }}] }}\n"
        );
        fs::write(self.folder.join("theirs.yaml"), self.moved(&rules)).unwrap();
        self.start("sluicegate run theirs.yaml");
    }

    /// Types what a step shows, and compares the answers.
    pub(crate) fn follow(&mut self, step: &Step) {
        for (name, text) in &step.files {
            let path = self.folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, self.moved(text)).unwrap();
        }
        if step.stops {
            self.beside.iter_mut().filter(|it| it.serves_a_page()).for_each(Beside::stop);
            self.beside.retain_mut(|it| it.child.try_wait().unwrap().is_none());
        }
        let (beside, asked): (Vec<&String>, Vec<&String>) = step.commands.iter().partition(|it| goes_on(it));
        for command in &beside {
            self.start(command);
        }
        let ask = |session: &Self| asked.iter().map(|command| session.run(command)).collect::<String>();
        let mut answer = ask(self);
        for shown in &step.answers {
            let begun = Instant::now();
            loop {
                let told = if asked.is_empty() { self.beside.last().unwrap().log() } else { answer.clone() };
                let told = self.back(&told);
                if is_as_shown(&told, &shown.text, asked.is_empty()) {
                    self.ids.extend(ids(&shown.text).into_iter().zip(ids(&told)));
                    break;
                }
                let late = begun.elapsed() > GUARD;
                assert!(!late, "line {}: in the end it is\n{told}\nand never\n{}", shown.line, shown.text);
                if !asked.is_empty() {
                    answer = ask(self);
                }
                thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// A command that goes on, as a reader starts it: it is ready when this is done.
    fn start(&mut self, command: &str) {
        let typed = match command {
            // The file that it has built in, at other ports.
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
        let mut shell = self.shell(&format!("exec {}", self.moved(&typed)));
        let child = shell.stdout(out).stderr(err).spawn().unwrap();
        self.beside.push(Beside { child, command: command.to_owned(), log });
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
            let program = self.beside.last_mut().unwrap();
            let log = program.log();
            assert!(program.child.try_wait().unwrap().is_none(), "{command} ended:\n{log}");
            let ready = match port {
                Some(port) => TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok(),
                None => ["listening at", "decisions by", "dashboard at"].iter().any(|word| log.contains(word)),
            };
            if ready {
                return;
            }
            assert!(begun.elapsed() < GUARD, "{command} is not ready:\n{log}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// What a command answers. It must succeed.
    pub(crate) fn run(&self, command: &str) -> String {
        // Without a terminal, redis-cli leaves out what pages show of its answers.
        let typed = self.moved(command).replace("redis-cli -p", "redis-cli --no-raw -p");
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

impl Beside {
    /// Whether it is what a page runs, and not a program of its reader's.
    fn serves_a_page(&self) -> bool {
        (self.command == "make run" || self.command.starts_with("sluicegate run"))
            && !self.command.ends_with("theirs.yaml")
    }
}

/// A port at which nobody listens. It is below those that the kernel gives to connections, so that no connection has it
/// by the time a command listens there, which may be some commands later.
fn free_port() -> u16 {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    loop {
        let nth = std::process::id().wrapping_mul(61).wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed));
        let port = 11_000 + u16::try_from(nth % 21_000).unwrap();
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

/// Whether a command goes on until it is stopped.
fn goes_on(command: &str) -> bool {
    ["sluicegate run", "make run", "nginx ", "envoy ", "prometheus ", "python3 -m http.server"]
        .iter()
        .any(|begin| command.starts_with(begin))
}

/// A log may say more than is shown of it; an answer may not.
pub(crate) fn is_as_shown(told: &str, shown: &str, is_log: bool) -> bool {
    let (told, shown) = (lasting(told), lasting(shown));
    if is_log { shown.iter().all(|line| told.iter().any(|it| it.contains(line.as_str()))) } else { told == shown }
}

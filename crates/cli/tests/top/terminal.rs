//! The program in a pseudo-terminal: reads its screen and types keys.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::wait_until;

/// Screen lines from the terminal output. Only changes are sent, with their position; all other sequences are
/// styles.
fn screen_lines(sent: &str) -> Vec<String> {
    let mut lines = vec![vec![' '; 80]; 24];
    let (mut row, mut column) = (0, 0);
    let mut rest = sent.chars();
    while let Some(character) = rest.next() {
        match character {
            '\u{1b}' => {
                // ESC [ numbers letter, or ESC and one character.
                if rest.next() != Some('[') {
                    continue;
                }
                let mut numbers = String::new();
                let end = rest.by_ref().find(|end| {
                    numbers.push(*end);
                    end.is_ascii_alphabetic()
                });
                if end == Some('H') {
                    let position = |text: Option<&str>| text.and_then(|text| text.parse().ok()).unwrap_or(1) - 1;
                    let mut parts = numbers[..numbers.len() - 1].split(';');
                    (row, column) = (position(parts.next()), position(parts.next()));
                } else if end == Some('J') {
                    lines = vec![vec![' '; 80]; 24];
                }
            }
            '\r' => column = 0,
            '\n' => row += 1,
            other => {
                if let Some(cell) = lines.get_mut(row).and_then(|line: &mut Vec<char>| line.get_mut(column)) {
                    *cell = other;
                }
                column += 1;
            }
        }
    }
    lines.into_iter().map(|line| line.into_iter().collect()).collect()
}

/// Temporary directory, removed on drop.
pub(crate) struct TerminalDir {
    pub(crate) path: PathBuf,
}

pub(crate) fn new_dir() -> TerminalDir {
    static NEXT_ID: AtomicU32 = AtomicU32::new(0);
    let index = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("sluicegate-top-{}-{index}", std::process::id()));
    fs::create_dir_all(&path).unwrap();
    TerminalDir { path }
}

impl Drop for TerminalDir {
    fn drop(&mut self) {
        // The system cleans up a directory that cannot be removed here.
        drop(fs::remove_dir_all(&self.path));
    }
}

pub(crate) struct Terminal {
    folder: TerminalDir,
    child: Child,
    keys: ChildStdin,
}

impl Terminal {
    /// Runs `sluicegate top` with these arguments on a screen of 80 columns and 24 lines.
    pub(crate) fn run(words: &str, variables: &[(&str, &str)]) -> Self {
        let folder = new_dir();
        let (program, folder_path) = (env!("CARGO_BIN_EXE_sluicegate"), folder.path.display());
        let inside = format!(
            "stty rows 24 cols 80; stty -g > '{folder_path}/before'; echo $$ > '{folder_path}/id'; '{program}' top {words}; \
             echo $? > '{folder_path}/code'; stty -g > '{folder_path}/after'"
        );
        let mut command = Command::new("script");
        command
            .args(["-q", "-e", "-f", "-c", &inside, "/dev/null"])
            .env("TERM", "xterm-256color")
            .env("SHELL", "/bin/sh");
        command.env_remove("SLUICEGATE_TOKEN").env_remove("NO_COLOR").envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(File::create(folder.path.join("screen")).unwrap()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let keys = child.stdin.take().unwrap();
        Self { folder, child, keys }
    }

    /// Everything sent to the screen so far.
    pub(crate) fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.path.join("screen")).unwrap()).into_owned()
    }

    /// Waits until a line of the screen contains this text.
    pub(crate) fn wait_for_line(&self, text: &str) {
        wait_until(text, || screen_lines(&self.output()).iter().any(|line| line.contains(text)));
    }

    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Sends a signal to the program.
    pub(crate) fn signal(&self, name: &str) {
        let shell = fs::read_to_string(self.folder.path.join("id")).unwrap();
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", shell.trim())).unwrap();
        let program = children.split_whitespace().next().unwrap().to_owned();
        assert!(Command::new("kill").args(["-s", name, &program]).status().unwrap().success());
    }

    /// Waits for the program's exit. Returns its exit code, and true if the terminal was restored.
    pub(crate) fn wait_exit(&mut self) -> (String, bool) {
        let mut status: Option<ExitStatus> = None;
        wait_until("it ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let read = |name: &str| fs::read_to_string(self.folder.path.join(name)).unwrap();
        let sent = self.output();
        let left = sent.rfind("\u{1b}[?1049l");
        let is_as_before = left > sent.rfind("\u{1b}[?1049h") && read("before") == read("after");
        (read("code").trim().to_owned(), is_as_before)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

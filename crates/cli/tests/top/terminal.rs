//! The program in a terminal of its own: what it draws is read, keys are typed.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::until;

/// The lines of a screen that was sent this. Only what has changed is sent, with where it belongs: all other
/// commands are about how it looks.
fn drawn(sent: &str) -> Vec<String> {
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
                    let place = |text: Option<&str>| text.and_then(|text| text.parse().ok()).unwrap_or(1) - 1;
                    let mut parts = numbers[..numbers.len() - 1].split(';');
                    (row, column) = (place(parts.next()), place(parts.next()));
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

/// A folder that is gone with its owner.
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
}

pub(crate) fn folder() -> Folder {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let nth = MADE.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("sluicegate-top-{}-{nth}", std::process::id()));
    fs::create_dir_all(&path).unwrap();
    Folder { path }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to the system.
        drop(fs::remove_dir_all(&self.path));
    }
}

pub(crate) struct Terminal {
    folder: Folder,
    child: Child,
    keys: ChildStdin,
}

impl Terminal {
    /// Runs `sluicegate top` with these words on a screen of 80 columns and 24 lines.
    pub(crate) fn run(words: &str, variables: &[(&str, &str)]) -> Self {
        let folder = folder();
        let (program, place) = (env!("CARGO_BIN_EXE_sluicegate"), folder.path.display());
        let inside = format!(
            "stty rows 24 cols 80; stty -g > '{place}/before'; echo $$ > '{place}/id'; '{program}' top {words}; \
             echo $? > '{place}/code'; stty -g > '{place}/after'"
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

    /// Everything that was sent to the screen.
    pub(crate) fn sent(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.path.join("screen")).unwrap()).into_owned()
    }

    /// Waits until the screen has this in one of its lines.
    pub(crate) fn shows(&self, text: &str) {
        until(text, || drawn(&self.sent()).iter().any(|line| line.contains(text)));
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

    /// Waits for the program's end. Its exit code, and whether the terminal is as it was.
    pub(crate) fn ended(&mut self) -> (String, bool) {
        let mut status: Option<ExitStatus> = None;
        until("it ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let read = |name: &str| fs::read_to_string(self.folder.path.join(name)).unwrap();
        let sent = self.sent();
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

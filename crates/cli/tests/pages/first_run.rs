//! The first thing that a newcomer does, without a file and without other ports: `make run`, and what the README and the
//! start page say about it.
//!
//! The other pages are typed with the same file at other ports. Here the program is run as it is, in a network of the
//! test's own where its ports are free.

use std::process::Stdio;

use sluicegate_testkit::network;

use crate::alike::lasting;
use crate::page::{Block, blocks, read, root};

/// As `make run` runs it, but for the build; its words on `$LOG`.
const BEGIN: &str = r#"
cargo() { [[ "$*" == "run --release --locked -p sluicegate-cli -- run" ]] && exec "$PROGRAM" "${@:7}"; }
# The tests may be run by make, which this one is no part of.
unset MAKEFLAGS MFLAGS MAKELEVEL
run=$(make --file "$ROOT/Makefile" --dry-run --old-file=setup CARGO=cargo run)
(eval "$run") 2>"$LOG" &
for _ in {1..3000}; do
    grep --quiet '^dashboard at' "$LOG" && break
    sleep 0.02
done
"#;

/// The answers to these commands, and what the program said before them. `None` where there is no network to be had.
fn asked(name: &str, commands: &str) -> Option<(String, String)> {
    let mut shell = network::shell()?;
    let log = std::env::temp_dir().join(format!("sluicegate-first-run-{name}-{}", std::process::id()));
    let script = format!("{BEGIN}\n{commands}");
    shell.args(["-c", &script]).env("LOG", &log).env("PROGRAM", env!("CARGO_BIN_EXE_sluicegate"));
    let output = shell.env("ROOT", root()).env("NO_COLOR", "1").stdin(Stdio::null()).output().unwrap();
    let said = std::fs::read_to_string(&log).unwrap();
    drop(std::fs::remove_file(&log));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}\n{said}");
    Some((said, String::from_utf8(output.stdout).unwrap()))
}

/// The first block of this kind whose text begins so.
fn shown(page: &str, kind: &str, begin: &str) -> Block {
    let found = blocks(&read(page)).into_iter().find(|block| block.kind == kind && block.text.starts_with(begin));
    found.unwrap_or_else(|| panic!("{page} shows no {kind} that begins with {begin}"))
}

/// Five pass and the sixth is refused, in the words of the README.
#[test]
fn the_first_answers_are_those_of_the_readme() {
    for page in ["README.md", "README.zh-CN.md"] {
        let command = shown(page, "sh", "curl -i http://127.0.0.1:8080/").text;
        let mark = "-- next --";
        let six = format!("for _ in {{1..6}}; do {}; echo '{mark}'; done", command.trim());
        let Some((_, told)) = asked(&page.replace('.', "-"), &six) else { return };
        let answers: Vec<&str> = told.split(mark).map(str::trim_start).collect();
        assert_eq!(answers.len(), 7, "{told}");
        let first = shown(page, "http", "HTTP/1.1 200 OK").text;
        assert_eq!(lasting(answers[0]), lasting(&first), "{page}");
        assert!(answers[..5].iter().all(|answer| answer.starts_with("HTTP/1.1 200 OK")), "{told}");
        let refused = shown(page, "http", "HTTP/1.1 429").text;
        assert_eq!(lasting(answers[5]), lasting(&refused), "{page}");
    }
}

/// What it prints is shown whole, line by line.
#[test]
fn the_first_words_are_those_of_the_start_page() {
    for page in ["docs/start.md", "docs/zh/start.md"] {
        let Some((said, _)) = asked(&page.replace('/', "-"), "true") else { return };
        assert_eq!(said, shown(page, "text", "listening at").text, "{page}");
    }
}

/// Without a terminal `top` prints one table, with or without `--once`. With one it draws, which is tested in `top`.
#[test]
fn top_finds_what_runs_without_being_told_where() {
    let typed = shown("docs/top.md", "sh", "sluicegate top  ").text;
    let script = format!(
        "cd \"$(mktemp -d)\"\nsluicegate() {{ \"$PROGRAM\" \"$@\"; }}\nset -e\n{typed}cat now.txt\nrm -r \"$PWD\""
    );
    let Some((_, told)) = asked("top", &script) else { return };
    let rows: Vec<&str> = told.lines().filter(|line| line.contains("per-ip")).collect();
    assert_eq!(rows.len(), 2, "a table each: {told}");
}

/// Most shells begin with 1,024 open files, and ten thousand connections take more. What the machine allows is taken.
#[test]
fn a_shell_with_few_open_files_will_do() {
    let Some(mut shell) = network::shell() else { return };
    let script = "ulimit -S -n 1024\ngrep --quiet '^dashboard at' < <(\"$PROGRAM\" run 2>&1)";
    let status = shell.args(["-c", script]).env("PROGRAM", env!("CARGO_BIN_EXE_sluicegate")).status().unwrap();
    assert!(status.success());
    // Where the machine does not allow it, the remedy is told.
    let script = "ulimit -n 1024\n\"$PROGRAM\" run";
    let output =
        network::shell().unwrap().args(["-c", script]).env("PROGRAM", env!("CARGO_BIN_EXE_sluicegate")).output();
    let told = String::from_utf8(output.unwrap().stderr).unwrap();
    let remedy =
        "10000 connections and 500 in line need 10820 files, but this process may open 1024: raise that (ulimit -n)";
    assert!(told.contains(remedy), "{told}");
}

/// Whoever has something at port 8080 is told, and what to do.
#[test]
fn a_port_that_is_taken_is_named_with_the_remedy() {
    let Some(mut shell) = network::shell() else { return };
    let script = "python3 -c 'import socket, time; it = socket.create_server((\"127.0.0.1\", 8080)); time.sleep(600)' &\n\
        until (exec 3<>/dev/tcp/127.0.0.1/8080) 2>/dev/null; do sleep 0.02; done\n\
        \"$PROGRAM\" run";
    let output = shell.args(["-c", script]).env("PROGRAM", env!("CARGO_BIN_EXE_sluicegate")).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    let remedy = "cannot listen at 127.0.0.1:8080: somebody else does; stop that program, or choose another port";
    assert!(told.contains(remedy), "{told}");
}

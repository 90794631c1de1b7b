//! First run of a newcomer: `make run` without a file, and the statements of the README and the start page about
//! it.
//!
//! Other pages use the same file at other ports. Here the program runs unchanged, in a network namespace with
//! free ports.

use std::process::Stdio;

use sluicegate_testkit::netns;

use super::normalize::stable_lines;
use super::page::{Block, blocks, read, root};

/// Starts the program like `make run`, without the build; logs to `$LOG`.
const START_SCRIPT: &str = r#"
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

/// Output of these commands, and the program's log before them. `None` if network namespaces are not available.
fn run_commands(name: &str, commands: &str) -> Option<(String, String)> {
    let mut shell = netns::shell()?;
    let log = std::env::temp_dir().join(format!("sluicegate-first-run-{name}-{}", std::process::id()));
    let script = format!("{START_SCRIPT}\n{commands}");
    shell.args(["-c", &script]).env("LOG", &log).env("PROGRAM", env!("CARGO_BIN_EXE_sluicegate"));
    let output = shell.env("ROOT", root()).env("NO_COLOR", "1").stdin(Stdio::null()).output().unwrap();
    let log_text = std::fs::read_to_string(&log).unwrap();
    drop(std::fs::remove_file(&log));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\n{log_text}");
    Some((log_text, String::from_utf8(output.stdout).unwrap()))
}

/// The first block of this kind that begins with this text.
fn block(page: &str, kind: &str, begin: &str) -> Block {
    let found = blocks(&read(page)).into_iter().find(|block| block.kind == kind && block.text.starts_with(begin));
    found.unwrap_or_else(|| panic!("{page} shows no {kind} that begins with {begin}"))
}

/// Five requests pass and the sixth is refused, as shown in the README.
#[test]
fn readme_first_responses_are_accurate() {
    for page in ["README.md", "README.zh-CN.md"] {
        let command = block(page, "sh", "curl -i http://127.0.0.1:8080/").text;
        let mark = "-- next --";
        let six = format!("for _ in {{1..6}}; do {}; echo '{mark}'; done", command.trim());
        let Some((_, actual)) = run_commands(&page.replace('.', "-"), &six) else { return };
        let outputs: Vec<&str> = actual.split(mark).map(str::trim_start).collect();
        assert_eq!(outputs.len(), 7, "{actual}");
        let first = block(page, "http", "HTTP/1.1 200 OK").text;
        assert_eq!(stable_lines(outputs[0]), stable_lines(&first), "{page}");
        assert!(outputs[..5].iter().all(|output| output.starts_with("HTTP/1.1 200 OK")), "{actual}");
        let refused = block(page, "http", "HTTP/1.1 429").text;
        assert_eq!(stable_lines(outputs[5]), stable_lines(&refused), "{page}");
    }
}

/// The page shows the whole banner.
#[test]
fn start_page_banner_is_accurate() {
    for page in ["docs/start.md", "docs/zh/start.md"] {
        let Some((log_text, _)) = run_commands(&page.replace('/', "-"), "true") else { return };
        assert_eq!(log_text, block(page, "text", "listening at").text, "{page}");
    }
}

/// Without a terminal `top` prints one table, with or without `--once`. The tests in `top` cover the screen.
#[test]
fn top_finds_the_default_process() {
    let typed = block("docs/top.md", "sh", "sluicegate top  ").text;
    let script = format!(
        "cd \"$(mktemp -d)\"\nsluicegate() {{ \"$PROGRAM\" \"$@\"; }}\nset -e\n{typed}cat now.txt\nrm -r \"$PWD\""
    );
    let Some((_, actual)) = run_commands("top", &script) else { return };
    let rows: Vec<&str> = actual.lines().filter(|line| line.contains("per-ip")).collect();
    assert_eq!(rows.len(), 2, "a table each: {actual}");
}

/// Most shells start with 1,024 open files, too few for ten thousand connections. The program raises the limit
/// itself.
#[test]
fn the_open_file_limit_is_raised() {
    let Some(mut shell) = netns::shell() else { return };
    let script = "ulimit -S -n 1024\ngrep --quiet '^dashboard at' < <(\"$PROGRAM\" run 2>&1)";
    let status = shell.args(["-c", script]).env("PROGRAM", env!("CARGO_BIN_EXE_sluicegate")).status().unwrap();
    assert!(status.success());
    // If the hard limit is too low, the remedy is logged.
    let script = "ulimit -n 1024\n\"$PROGRAM\" run";
    let output = netns::shell().unwrap().args(["-c", script]).env("PROGRAM", env!("CARGO_BIN_EXE_sluicegate")).output();
    let actual = String::from_utf8(output.unwrap().stderr).unwrap();
    let remedy = "this process is 1024: raise it (ulimit -n) or lower the settings";
    assert!(actual.contains(remedy), "{actual}");
}

/// If port 8080 is in use, the error names it and the remedy.
#[test]
fn a_port_in_use_is_reported_with_the_remedy() {
    let Some(mut shell) = netns::shell() else { return };
    let script = "python3 -c 'import socket, time; it = socket.create_server((\"127.0.0.1\", 8080)); time.sleep(600)' &\n\
        until (exec 3<>/dev/tcp/127.0.0.1/8080) 2>/dev/null; do sleep 0.02; done\n\
        \"$PROGRAM\" run";
    let output = shell.args(["-c", script]).env("PROGRAM", env!("CARGO_BIN_EXE_sluicegate")).output().unwrap();
    let actual = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{actual}");
    let remedy =
        "cannot listen at 127.0.0.1:8080: address already in use; stop the other program, or choose another port";
    assert!(actual.contains(remedy), "{actual}");
}

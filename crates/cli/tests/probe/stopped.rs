//! Whoever has seen enough gets what is known.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::server::Server;
use crate::witness::undisturbed;
use crate::{probe, until};

/// Runs it until so many steps are told, sends a signal, and answers the exit code and what was told.
fn stopped_after(steps: usize, name: &str) -> (Option<i32>, String) {
    let server = Server::with_places(100, Duration::from_millis(5), 1_000);
    let words = ["--from", "30", "--grow", "1.05", "--step", "400ms", "--p99", "2s"];
    let mut command = probe(&words);
    command.arg(server.url()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    if steps == 0 {
        until("it has begun", || server.requests() > 3);
    }
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    for _ in 0..steps {
        let line = lines.next().unwrap().unwrap();
        assert!(line.starts_with("offered "), "{line}");
    }
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let mut told = String::new();
    child.stdout.take().unwrap().read_to_string(&mut told).unwrap();
    (child.wait().unwrap().code(), told)
}

#[test]
fn an_interrupt_ends_with_what_is_known() {
    undisturbed(|| {
        let (code, told) = stopped_after(2, "INT");
        assert_eq!(code, Some(0), "{told}");
        assert!(told.contains("Peak: at least ") && told.contains("interrupted") && told.contains("rules:"), "{told}");
    });
}

#[test]
fn an_interrupt_before_anything_is_known_says_so() {
    undisturbed(|| {
        let (code, told) = stopped_after(0, "TERM");
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains("No peak") && told.contains("interrupted before anything"), "{told}");
    });
}

#[test]
fn the_time_is_kept() {
    undisturbed(|| {
        let server = Server::with_places(100, Duration::from_millis(5), 1_000);
        let words = ["--from", "30", "--grow", "1.05", "--step", "400ms", "--max-time", "1s", "--p99", "2s"];
        let output = crate::run(&[&words[..], &[&server.url()]].concat());
        let told = crate::out(&output);
        assert!(output.status.success() && told.contains("time was up"), "{told}");
    });
}

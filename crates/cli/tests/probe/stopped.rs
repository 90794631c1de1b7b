//! Whoever has seen enough gets what is known.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

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

/// Answers so many requests, each on a connection of its own, and then nobody any more.
fn hanging_after(answers: usize) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let came = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&came);
    thread::spawn(move || {
        let mut kept = Vec::new();
        for (nth, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            counted.fetch_add(1, Ordering::Relaxed);
            kept.push(stream);
            if nth < answers {
                let mut stream = kept.pop().unwrap();
                drop(stream.read(&mut [0; 4096]));
                drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"));
            }
        }
    });
    (url, came)
}

#[test]
fn the_time_is_kept_by_whoever_does_not_answer() {
    let (url, _) = hanging_after(1);
    let begun = Instant::now();
    let words = ["--from", "30", "--step", "400ms", "--max-time", "2s", "--timeout", "60s", "--p99", "50s", &url];
    let told = crate::out(&crate::run(&words));
    assert!(begun.elapsed() < Duration::from_secs(30), "{told}");
    assert!(told.contains("No peak"), "{told}");
}

#[test]
fn an_interrupt_is_heard_while_nobody_answers() {
    let (url, came) = hanging_after(0);
    let mut command = probe(&["--timeout", "60s", "--p99", "50s", &url]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    until("it has knocked", || came.load(Ordering::Relaxed) > 0);
    let begun = Instant::now();
    let sent = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let mut told = String::new();
    child.stdout.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{told}");
    assert!(begun.elapsed() < Duration::from_secs(30) && told.contains("interrupted before anything"), "{told}");
}

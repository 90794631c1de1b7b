//! Interrupts and time limits: the test ends with the results so far.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::server::ScriptedServer;
use super::stall_monitor::retry_on_stall;
use super::{probe, wait_until};

/// Runs the test until this many steps are shown, sends a signal; returns exit code and output.
fn run_and_interrupt(steps: usize, name: &str) -> (Option<i32>, String) {
    let server = ScriptedServer::with_capacity(100, Duration::from_millis(5), 1_000);
    let words = ["--from", "30", "--grow", "1.05", "--step", "400ms", "--p99", "2s"];
    let mut command = probe(&words);
    command.arg(server.url()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    if steps == 0 {
        wait_until("it has start", || server.requests() > 3);
    }
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    for _ in 0..steps {
        let line = lines.next().unwrap().unwrap();
        assert!(line.starts_with("offered "), "{line}");
    }
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let mut output = String::new();
    child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    (child.wait().unwrap().code(), output)
}

#[test]
fn an_interrupt_reports_the_steps_so_far() {
    retry_on_stall(|| {
        let (code, output) = run_and_interrupt(2, "INT");
        assert_eq!(code, Some(0), "{output}");
        assert!(
            output.contains("Peak: at least ") && output.contains("interrupted") && output.contains("rules:"),
            "{output}"
        );
    });
}

#[test]
fn an_interrupt_before_the_first_step_is_reported() {
    retry_on_stall(|| {
        let (code, output) = run_and_interrupt(0, "TERM");
        assert_eq!(code, Some(1), "{output}");
        assert!(output.contains("No peak") && output.contains("interrupted before a rate failed"), "{output}");
    });
}

#[test]
fn max_time_is_respected() {
    retry_on_stall(|| {
        let server = ScriptedServer::with_capacity(100, Duration::from_millis(5), 1_000);
        let words = ["--from", "30", "--grow", "1.05", "--step", "400ms", "--max-time", "1s", "--p99", "2s"];
        let output = super::run(&[&words[..], &[&server.url()]].concat());
        let text = super::out(&output);
        assert!(output.status.success() && text.contains("reached --max-time"), "{text}");
    });
}

/// A server that responds to this many requests, each on a new connection, and then never again.
fn server_hanging_after(responses: usize) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    thread::spawn(move || {
        let mut open_streams = Vec::new();
        for (index, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            counted.fetch_add(1, Ordering::Relaxed);
            open_streams.push(stream);
            if index < responses {
                let mut stream = open_streams.pop().unwrap();
                drop(stream.read(&mut [0; 4096]));
                drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"));
            }
        }
    });
    (url, connections)
}

#[test]
fn max_time_is_respected_with_a_silent_server() {
    let (url, _) = server_hanging_after(1);
    let start = Instant::now();
    let words = ["--from", "30", "--step", "400ms", "--max-time", "2s", "--timeout", "60s", "--p99", "50s", &url];
    let output = super::out(&super::run(&words));
    assert!(start.elapsed() < Duration::from_secs(30), "{output}");
    assert!(output.contains("No peak"), "{output}");
}

#[test]
fn an_interrupt_works_with_a_silent_server() {
    let (url, connections) = server_hanging_after(0);
    let mut command = probe(&["--timeout", "60s", "--p99", "50s", &url]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("it has connected", || connections.load(Ordering::Relaxed) > 0);
    let start = Instant::now();
    let sent = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let mut output = String::new();
    child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{output}");
    assert!(
        start.elapsed() < Duration::from_secs(30) && output.contains("interrupted before a rate failed"),
        "{output}"
    );
}

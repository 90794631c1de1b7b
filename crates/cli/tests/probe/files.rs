//! Output files, and the progress display on a terminal.

use std::fs::{self, File};
use std::process::{Command, Stdio};

use super::server::ScriptedServer;
use super::stall_monitor::retry_on_stall;
use super::{OutputDir, err, out, run};

const SHORT_RUN: [&str; 8] = ["--from", "20", "--to", "20", "--step", "500ms", "--p99", "2s"];

#[test]
fn every_output_format_is_written() {
    retry_on_stall(|| {
        let server = ScriptedServer::start(|now| (now, 200));
        let folder = OutputDir::new();
        let [svg, html, json, rule] = ["a.svg", "a.html", "a.json", "a.yaml"].map(|name| folder.file(name));
        let files = ["--svg", &svg, "--html", &html, "--json", &json, "--rule", &rule, "--format", "json"];
        let url = format!("http://{}/?a=%3Cscript%3E&b='x'", server.address);
        let output = run(&[&SHORT_RUN[..], &files, &[&url]].concat());
        assert!(output.status.success(), "{}", err(&output));
        let [svg, html, json, rule] = [svg, html, json, rule].map(|file| fs::read_to_string(file).unwrap());
        assert_eq!(json, out(&output), "both are the same document");
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
        assert!(html.starts_with("<!doctype html>") && html.contains("&amp;b=&#39;x&#39;"), "{html}");
        assert!(rule.contains("limits: [16/s]"), "{rule}");
    });
}

#[test]
fn an_unwritable_file_is_reported_before_measuring() {
    retry_on_stall(|| {
        let server = ScriptedServer::start(|now| (now, 200));
        let folder = OutputDir::new();
        let taken = folder.path().to_str().unwrap();
        let output = run(&[&SHORT_RUN[..], &["--svg", taken, &server.url()]].concat());
        assert_eq!(output.status.code(), Some(1));
        assert!(err(&output).contains("cannot write ") && out(&output).contains("Peak: "), "{}", err(&output));
    });
}

#[test]
fn progress_is_drawn_on_a_terminal_and_cleared() {
    retry_on_stall(|| {
        let server = ScriptedServer::start(|now| (now, 200));
        let folder = OutputDir::new();
        let words = SHORT_RUN.join(" ");
        let inside = format!(
            "stty rows 40 cols 100; '{}' probe {words} --max-late 60ms '{}'; echo code $?",
            env!("CARGO_BIN_EXE_sluicegate"),
            server.url()
        );
        let mut command = Command::new("script");
        command
            .args(["-q", "-e", "-f", "-c", &inside, "/dev/null"])
            .env("TERM", "xterm-256color")
            .env("SHELL", "/bin/sh");
        command.stdin(Stdio::null()).stdout(File::create(folder.file("screen")).unwrap()).stderr(Stdio::null());
        assert!(command.status().unwrap().success());
        let sent = fs::read_to_string(folder.file("screen")).unwrap();
        assert!(sent.contains(" 20/s, increasing; at most 2:59 remaining") && sent.contains('░'), "{sent}");
        let (_, after) = sent.rsplit_once("\r\u{1b}[J").unwrap_or_else(|| panic!("{sent}"));
        assert!(after.contains("Peak: at least 20/s") && after.contains("code 0"), "{sent}");
        assert!(!after.contains('░'), "what was drawn is taken away: {sent}");
    });
}

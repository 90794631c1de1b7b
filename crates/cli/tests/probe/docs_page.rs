//! Runs the commands of `docs/probe.md` and compares their output, with numbers masked.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::page::{blocks, commands, read};
use super::server::ScriptedServer;
use super::stall_monitor::retry_on_stall;
use super::{OutputDir, err, out};

const PAGE: &str = "docs/probe.md";

/// Sentences of a report: without steps and plots, with all numbers masked.
fn masked_report(report: &str) -> Vec<String> {
    let is_drawn =
        |line: &str| line.contains(['│', '└']) || line.trim_start().starts_with(|it: char| it.is_ascii_digit());
    let lines = report.trim().lines().filter(|line| !is_drawn(line));
    let masked = |word: &str| {
        let end = word.len() - word.trim_end_matches([',', '.', ';', ':', ']', '}', ')']).len();
        let (word, end) = word.split_at(word.len() - end);
        let is_figure = word.trim_start_matches('[').starts_with(|it: char| it.is_ascii_digit());
        if is_figure { format!("N{end}") } else { format!("{word}{end}") }
    };
    // The failure above the peak differs from run to run.
    let lines = lines.filter(|line| !line.starts_with("At "));
    lines.map(|line| line.split_whitespace().map(masked).collect::<Vec<_>>().join(" ")).collect()
}

/// The service handles four requests in parallel, 20 ms each. The steps are a third as long as on the page.
#[test]
fn documented_probe_output_is_accurate() {
    let blocks = blocks(&read(PAGE));
    let block_text =
        |kind: &str| blocks.iter().find(|block| block.kind == kind && !block.is_run()).unwrap().text.clone();
    let (typed, shown) = (commands(&block_text("sh")), block_text("text"));
    let [probe, check] = &typed[..] else { panic!("{typed:?}") };
    retry_on_stall(|| {
        let server = ScriptedServer::with_capacity(4, Duration::from_millis(20), 10_000);
        let folder = OutputDir::new();
        let type_in = |command: &str| {
            let program = Path::new(env!("CARGO_BIN_EXE_sluicegate")).parent().unwrap();
            let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
            let mut shell = Command::new("bash");
            shell.args(["-c", command]).env("PATH", path).current_dir(folder.path()).stdin(Stdio::null());
            let output = shell.output().unwrap();
            assert!(output.status.success(), "{command}\n{}{}", out(&output), err(&output));
            out(&output)
        };
        let address = server.address.to_string();
        let report =
            type_in(&probe.replace("127.0.0.1:8001", &address).replace("--step 3s", "--step 1s --max-late 60ms"));
        assert_eq!(masked_report(&report.replace(&address, "127.0.0.1:8001")), masked_report(&shown), "{report}");
        for (name, begin) in [("peak.svg", "<svg "), ("peak.html", "<!doctype html>"), ("peak.json", "{")] {
            assert!(std::fs::read_to_string(folder.file(name)).unwrap().starts_with(begin), "{name}");
        }
        type_in(check);
    });
}

//! What `docs/probe.md` tells to type is typed, and what it shows is what comes, but for the figures.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::page::{blocks, commands, read};
use crate::server::Server;
use crate::witness::undisturbed;
use crate::{Folder, err, out};

const PAGE: &str = "docs/probe.md";

/// What a report says in words: without the steps and the plots, and with every figure alike.
fn words(report: &str) -> Vec<String> {
    let is_drawn =
        |line: &str| line.contains(['│', '└']) || line.trim_start().starts_with(|it: char| it.is_ascii_digit());
    let lines = report.trim().lines().filter(|line| !is_drawn(line));
    let alike = |word: &str| {
        let end = word.len() - word.trim_end_matches([',', '.', ';', ':', ']', '}', ')']).len();
        let (word, end) = word.split_at(word.len() - end);
        let is_figure = word.trim_start_matches('[').starts_with(|it: char| it.is_ascii_digit());
        if is_figure { format!("N{end}") } else { format!("{word}{end}") }
    };
    // How the rate above the peak failed is another story each time.
    let lines = lines.filter(|line| !line.starts_with("At "));
    lines.map(|line| line.split_whitespace().map(alike).collect::<Vec<_>>().join(" ")).collect()
}

/// This service does four requests at a time and takes 20 ms for each. The steps are a third as long as on the page.
#[test]
fn the_page_is_answered_as_it_shows() {
    let blocks = blocks(&read(PAGE));
    let held = |kind: &str| blocks.iter().find(|block| block.kind == kind && !block.is_run()).unwrap().text.clone();
    let (typed, shown) = (commands(&held("sh")), held("text"));
    let [probe, check] = &typed[..] else { panic!("{typed:?}") };
    undisturbed(|| {
        let server = Server::with_places(4, Duration::from_millis(20), 10_000);
        let folder = Folder::new();
        let type_in = |command: &str| {
            let program = Path::new(env!("CARGO_BIN_EXE_sluicegate")).parent().unwrap();
            let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
            let mut shell = Command::new("bash");
            shell.args(["-c", command]).env("PATH", path).current_dir(folder.path()).stdin(Stdio::null());
            let output = shell.output().unwrap();
            assert!(output.status.success(), "{command}\n{}{}", out(&output), err(&output));
            out(&output)
        };
        let place = server.address.to_string();
        let report =
            type_in(&probe.replace("127.0.0.1:8001", &place).replace("--step 3s", "--step 1s --max-late 60ms"));
        assert_eq!(words(&report.replace(&place, "127.0.0.1:8001")), words(&shown), "{report}");
        for (name, begin) in [("peak.svg", "<svg "), ("peak.html", "<!doctype html>"), ("peak.json", "{")] {
            assert!(std::fs::read_to_string(folder.file(name)).unwrap().starts_with(begin), "{name}");
        }
        type_in(check);
    });
}

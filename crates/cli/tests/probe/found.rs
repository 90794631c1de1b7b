//! The peak is found, and what stands in the way of finding it is told.

use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::server::Server;
use crate::witness::undisturbed;
use crate::{Folder, document, err, out, probe, run};

/// Twenty at a time, a tenth of a second each: 200/s.
#[test]
fn the_peak_of_a_server_is_found_and_its_rule_is_taken() {
    undisturbed(|| {
        let server = Server::with_places(20, Duration::from_millis(100), 200);
        let folder = Folder::new();
        let (rule, json) = (folder.file("rule.yaml"), folder.file("all.json"));
        let words = ["--from", "110", "--to", "2000", "--step", "1s", "--rule", &rule, "--json", &json];
        let output = probe(&words).arg(server.url()).output().unwrap();
        let (told, lines) = (out(&output), err(&output));
        assert!(output.status.success(), "{told}{lines}");
        let all: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
        let peak = all["peak"]["rate"].as_f64().unwrap();
        assert_eq!(all["ended"], "found", "{told}");
        assert!((150.0..=220.0).contains(&peak), "{told}");
        assert!(told.contains("Peak: ") && told.contains("good answers/s against offered/s"), "{told}");
        let steps = all["steps"].as_array().unwrap().len();
        assert_eq!(lines.lines().count(), steps, "a line for each step: {lines}");
        is_taken(&rule, peak, &told);
        let (connections, requests) = (server.seen.connections.load(Ordering::Relaxed), server.requests());
        assert!(connections * 3 < requests, "connections are kept: {connections} for {requests}");
    });
}

/// The rule is the one that was told, a fifth below the peak, and there is nothing to say against it.
fn is_taken(rule: &str, peak: f64, told: &str) {
    let written = std::fs::read_to_string(rule).unwrap();
    assert!(told.ends_with(&written) && written.contains("match: \"GET /api/orders\""), "{told}");
    assert!(written.contains(&format!("limits: [{:.0}/s]", (peak * 0.8 + 1e-6).floor())), "{peak}: {written}");
    let check = Command::new(env!("CARGO_BIN_EXE_sluicegate")).args(["check", "--deny-warnings", rule]).output();
    assert!(check.unwrap().status.success());
}

#[test]
fn a_limit_that_stands_there_is_told() {
    undisturbed(|| {
        let begun = Instant::now();
        let mut passed = 0.0;
        let server = Server::start(move |now| {
            let allowed = (now - begun).as_secs_f64() * 60.0;
            // What was not used is lost, but for a little.
            passed = f64::max(passed, allowed - 10.0);
            if passed + 1.0 > allowed {
                return (now, 429);
            }
            passed += 1.0;
            (now, 200)
        });
        let words = ["--from", "30", "--grow", "2.5", "--step", "1s", "--p99", "600ms", "--max-time", "5s"];
        let output = run(&[&words[..], &[&server.url()]].concat());
        let told = out(&output);
        assert!(output.status.success(), "{told}{}", err(&output));
        let limit = told.split("A limit of about ").nth(1).and_then(|rest| rest.split("/s is already in force").next());
        let limit: f64 = limit.unwrap_or_else(|| panic!("{told}")).parse().unwrap();
        assert!((45.0..=80.0).contains(&limit), "{told}");
    });
}

/// Half of every second nobody is answered. A client that waits for its answers before it asks again would hardly
/// notice: it asks once in that time. Here everything that was due meanwhile has waited.
#[test]
fn a_server_that_stands_still_is_noticed() {
    undisturbed(|| {
        let begun = Instant::now();
        let server = Server::start(move |now| {
            let part = (now - begun).as_millis() as u64 % 1_000;
            (now + Duration::from_millis(500_u64.saturating_sub(part)), 200)
        });
        let words = ["--from", "50", "--to", "50", "--step", "3s", "--p99", "2s", "--format", "json"];
        let all = document(&run(&[&words[..], &[&server.url()]].concat()));
        let step = &all["steps"][0];
        assert!(step["p99_ms"].as_f64().unwrap() > 400.0, "{all:#}");
        let first = server.seen.first.lock().clone().unwrap();
        assert!(first.starts_with("GET /api/orders?draft=1 HTTP/1.1\r\n"), "{first}");
    });
}

#[test]
fn a_server_that_fails_has_no_peak() {
    undisturbed(|| {
        let server = Server::start(|now| (now, 500));
        let output = run(&["--step", "500ms", "--from", "20", &server.url()]);
        let told = out(&output);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("More than half of the requests failed") && told.contains("server errors"), "{told}");
        assert!(!told.contains("rules:"), "nothing is proposed: {told}");
        assert!(server.requests() < 30, "it is left alone: {}", server.requests());
    });
}

#[test]
fn redirects_are_answers_and_the_request_is_as_it_was_asked_for() {
    undisturbed(|| {
        let server = Server::start(|now| (now, 302));
        let words = ["-H", "X-Tier: vip", "-H", "user-agent: me", "--data", "{\"n\":1}", "--host", "shop.example"];
        let short = ["--step", "500ms", "--from", "20", "--to", "20", "--p99", "2s"];
        let output = run(&[&words[..], &short, &[&server.url()]].concat());
        let told = out(&output);
        assert!(told.contains("Most answers had status 302"), "{told}{}", err(&output));
        let first = server.seen.first.lock().clone().unwrap();
        for part in
            ["POST /api/orders?draft=1 ", "\r\nhost: shop.example\r\n", "\r\nx-tier: vip\r\n", "\r\n\r\n{\"n\":1}"]
        {
            assert!(first.contains(part), "{part}: {first}");
        }
        assert_eq!(
            first.matches("user-agent").count(),
            1,
            "what is given takes the place of what would be sent: {first}"
        );
    });
}

/// After the first it answers nobody.
#[test]
fn no_more_than_allowed_are_under_way() {
    undisturbed(|| {
        let mut is_first = true;
        let server = Server::start(move |now| {
            let wait = if std::mem::take(&mut is_first) { 0 } else { 3_600 };
            (now + Duration::from_secs(wait), 200)
        });
        let words = ["--max-in-flight", "5", "--from", "100", "--step", "1s", "--timeout", "400ms", "--format", "json"];
        let output = run(&[&words[..], &[&server.url()]].concat());
        let all = document(&output);
        assert_eq!((all["ended"].as_str(), output.status.code()), (Some("distress"), Some(1)), "{all:#}");
        let failures = &all["steps"][0]["failures"];
        assert!(failures["held_back"].as_u64().unwrap() > 20, "{all:#}");
        assert!(failures["timed_out"].as_u64().unwrap() > 0, "{all:#}");
        // The server may hear of who has given up only when it looks.
        assert!(server.requests() < 30, "{}", server.requests());
    });
}

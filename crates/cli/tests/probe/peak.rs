//! The peak is found, or the reason that prevents it is reported.

use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::server::ScriptedServer;
use super::stall_monitor::retry_on_stall;
use super::{OutputDir, document, err, out, probe, run};

/// Twenty in parallel, 100 ms each: 200/s.
#[test]
fn peak_is_found_and_its_rule_passes_check() {
    retry_on_stall(|| {
        let server = ScriptedServer::with_capacity(20, Duration::from_millis(100), 200);
        let folder = OutputDir::new();
        let (rule, json) = (folder.file("rule.yaml"), folder.file("all.json"));
        let words = ["--from", "110", "--to", "2000", "--step", "1s", "--rule", &rule, "--json", &json];
        let output = probe(&words).arg(server.url()).output().unwrap();
        let (output_text, lines) = (out(&output), err(&output));
        assert!(output.status.success(), "{output_text}{lines}");
        let all: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
        let peak = all["peak"]["rate"].as_f64().unwrap();
        assert_eq!(all["ended"], "found", "{output_text}");
        assert!((150.0..=220.0).contains(&peak), "{output_text}");
        assert!(
            output_text.contains("Peak: ") && output_text.contains("good responses/s vs offered/s"),
            "{output_text}"
        );
        let steps = all["steps"].as_array().unwrap().len();
        assert_eq!(lines.lines().count(), steps, "a line for each step: {lines}");
        assert_rule_accepted(&rule, peak, &output_text);
        let (connections, requests) = (server.seen.connections.load(Ordering::Relaxed), server.requests());
        assert!(connections * 3 < requests, "connections are reused: {connections} for {requests}");
    });
}

/// The rule is the reported one, a fifth below the peak, and has no warnings.
fn assert_rule_accepted(rule: &str, peak: f64, report: &str) {
    let written = std::fs::read_to_string(rule).unwrap();
    assert!(report.ends_with(&written) && written.contains("match: \"GET /api/orders\""), "{report}");
    assert!(written.contains(&format!("limits: [{:.0}/s]", (peak * 0.8 + 1e-6).floor())), "{peak}: {written}");
    let check = Command::new(env!("CARGO_BIN_EXE_sluicegate")).args(["check", "--deny-warnings", rule]).output();
    assert!(check.unwrap().status.success());
}

#[test]
fn an_existing_limit_is_reported() {
    retry_on_stall(|| {
        let start = Instant::now();
        let mut passed = 0.0;
        let server = ScriptedServer::start(move |now| {
            let allowed = (now - start).as_secs_f64() * 60.0;
            // Unused quota is lost, except for a small burst.
            passed = f64::max(passed, allowed - 10.0);
            if passed + 1.0 > allowed {
                return (now, 429);
            }
            passed += 1.0;
            (now, 200)
        });
        let words = ["--from", "30", "--grow", "2.5", "--step", "1s", "--p99", "600ms", "--max-time", "5s"];
        let output = run(&[&words[..], &[&server.url()]].concat());
        let output_text = out(&output);
        assert!(output.status.success(), "{output_text}{}", err(&output));
        let limit =
            output_text.split("A limit of about ").nth(1).and_then(|rest| rest.split("/s is already in force").next());
        let limit: f64 = limit.unwrap_or_else(|| panic!("{output_text}")).parse().unwrap();
        assert!((45.0..=80.0).contains(&limit), "{output_text}");
    });
}

/// The server stalls for half of every second. A closed-loop client would hardly notice, since it sends once in
/// that time. Here every request due meanwhile has waited.
#[test]
fn a_stalling_server_is_detected() {
    retry_on_stall(|| {
        let start = Instant::now();
        let server = ScriptedServer::start(move |now| {
            let part = (now - start).as_millis() as u64 % 1_000;
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
    retry_on_stall(|| {
        let server = ScriptedServer::start(|now| (now, 500));
        let output = run(&["--step", "500ms", "--from", "20", &server.url()]);
        let output_text = out(&output);
        assert_eq!(output.status.code(), Some(1), "{output_text}");
        assert!(
            output_text.contains("More than half of the requests failed") && output_text.contains("server errors"),
            "{output_text}"
        );
        assert!(!output_text.contains("rules:"), "nothing is proposed: {output_text}");
        assert!(server.requests() < 30, "it is left alone: {}", server.requests());
    });
}

#[test]
fn redirects_count_as_responses_and_the_request_is_sent_as_given() {
    retry_on_stall(|| {
        let server = ScriptedServer::start(|now| (now, 302));
        let words = ["-H", "X-Tier: vip", "-H", "user-agent: me", "--data", "{\"n\":1}", "--host", "shop.example"];
        let short = ["--step", "500ms", "--from", "20", "--to", "20", "--p99", "2s"];
        let output = run(&[&words[..], &short, &[&server.url()]].concat());
        let output_text = out(&output);
        assert!(output_text.contains("Most responses had status 302"), "{output_text}{}", err(&output));
        let first = server.seen.first.lock().clone().unwrap();
        for part in
            ["POST /api/orders?draft=1 ", "\r\nhost: shop.example\r\n", "\r\nx-tier: vip\r\n", "\r\n\r\n{\"n\":1}"]
        {
            assert!(first.contains(part), "{part}: {first}");
        }
        assert_eq!(first.matches("user-agent").count(), 1, "user headers replace the default headers: {first}");
    });
}

/// The server never responds after the first request.
#[test]
fn in_flight_requests_are_bounded() {
    retry_on_stall(|| {
        let mut is_first = true;
        let server = ScriptedServer::start(move |now| {
            let wait = if std::mem::take(&mut is_first) { 0 } else { 3_600 };
            (now + Duration::from_secs(wait), 200)
        });
        let words = ["--max-in-flight", "5", "--from", "100", "--step", "1s", "--timeout", "400ms", "--format", "json"];
        let output = run(&[&words[..], &[&server.url()]].concat());
        let all = document(&output);
        assert_eq!((all["ended"].as_str(), output.status.code()), (Some("distress"), Some(1)), "{all:#}");
        let failures = &all["steps"][0]["failures"];
        assert!(failures["not_sent"].as_u64().unwrap() > 20, "{all:#}");
        assert!(failures["timed_out"].as_u64().unwrap() > 0, "{all:#}");
        // The server notices closed connections only when it reads.
        assert!(server.requests() < 30, "{}", server.requests());
    });
}

//! Decisions by the rules of the rule file.

use std::time::Duration;

use sluicegate_engine::Sluice;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::overload::{GateLimits, OverloadNotice, VariableRate};
use sluicegate_engine::rule::{Adaptive, Attribute, CpuGuard, Lists, Rule};

use super::{RespServer, bucket, command};

/// The reply to a decision by a rule.
fn decision_reply(numbers: [i64; 6], rule: &str) -> String {
    let numbers: String = numbers.iter().map(|number| format!(":{number}\r\n")).collect();
    format!("*8\r\n{numbers}${}\r\n{rule}\r\n:0\r\n", rule.len())
}

#[tokio::test]
async fn a_named_rule_decides() {
    let server = RespServer::new();
    let mut client = server.connect();
    let alice = "SLUICE.CHECK per-account account alice";
    client.line(alice, decision_reply([1, 2, 1, -1, 30_000, 0], "per-account")).await;
    client.line("SLUICE.PEEK per-account account alice", decision_reply([1, 2, 1, -1, 30_000, 0], "per-account")).await;
    client
        .line("sluice.check per-account cost 0 account alice", decision_reply([1, 2, 1, -1, 30_000, 0], "per-account"))
        .await;
    client.line(alice, decision_reply([1, 2, 0, -1, 60_000, 0], "per-account")).await;
    client.line(alice, decision_reply([0, 2, 0, 30_000, 60_000, 0], "per-account")).await;
    client
        .line("SLUICE.CHECK per-account COST 3 account bob", decision_reply([0, 2, 2, -1, 0, 0], "per-account"))
        .await;
    client
        .line("SLUICE.CHECK per-account COST 2 account bob", decision_reply([1, 2, 0, -1, 60_000, 0], "per-account"))
        .await;
    server.clock.advance(Duration::from_secs(30));
    client.line(alice, decision_reply([1, 2, 0, -1, 60_000, 0], "per-account")).await;
    client
        .line("SLUICE.CHECK per-ip client.ip ::ffff:10.0.0.1", decision_reply([1, 10, 9, -1, 100, 0], "per-ip"))
        .await;
    client.line("SLUICE.CHECK per-ip client.ip 10.0.0.1", decision_reply([1, 10, 8, -1, 200, 0], "per-ip")).await;
}

#[tokio::test]
async fn invalid_checks_are_errors_and_consume_nothing() {
    let server = RespServer::new();
    let mut client = server.connect();
    for (line, error) in [
        ("SLUICE.CHECK", "-ERR wrong number of arguments for 'sluice.check' command\r\n"),
        ("SLUICE.CHECK nope", "-ERR no such rule 'nope'\r\n"),
        // Admitting these would silently skip the limit after a typing error.
        (
            "SLUICE.CHECK per-account",
            "-ERR rule 'per-account' is keyed by account, which is missing from the command\r\n",
        ),
        (
            "SLUICE.PEEK per-account",
            "-ERR rule 'per-account' is keyed by account, which is missing from the command\r\n",
        ),
        (
            "SLUICE.CHECK per-account account \"\"",
            "-ERR the value of account is empty: omit the attribute or set a value\r\n",
        ),
        ("SLUICE.CHECK per-account account", "-ERR attribute 'account' has no value: use NAME VALUE pairs\r\n"),
        ("SLUICE.CHECK per-account COST", "-ERR invalid cost '': use a whole number, 0 or more\r\n"),
        ("SLUICE.CHECK per-account COST -1 account a", "-ERR invalid cost '-1': use a whole number, 0 or more\r\n"),
        ("SLUICE.CHECK per-account COST 1.5 account a", "-ERR invalid cost '1.5': use a whole number, 0 or more\r\n"),
        ("SLUICE.CHECK per-account account a account b", "-ERR duplicate attribute account\r\n"),
        ("SLUICE.CHECK per-account client_ip x", "-ERR unknown attribute 'client_ip': did you mean client.ip?\r\n"),
        ("SLUICE.CHECK per-ip client.ip 10.0.0.256", "-ERR invalid IP address '10.0.0.256' for client.ip\r\n"),
        (
            "SLUICE.CHECK per-ip \"param['id']\" 7",
            "-ERR param['id'] cannot be set by the caller: rules capture it from the path\r\n",
        ),
    ] {
        client.line(line, error).await;
    }
    for words in
        [[b"SLUICE.CHECK".as_slice(), b"\xff", b"account", b"a"], [b"SLUICE.CHECK", b"per-account", b"\xff", b"a"]]
    {
        client.send(command(&words)).await;
        client.expect("-ERR ").await;
        let mut byte = [0];
        while byte != *b"\n" {
            tokio::io::AsyncReadExt::read_exact(&mut client.io, &mut byte).await.unwrap();
        }
    }
    client.line("SLUICE.PEEK per-account account a", decision_reply([1, 2, 2, -1, 0, 0], "per-account")).await;
}

#[tokio::test]
async fn every_attribute_reaches_the_rule() {
    let clock = ManualClock::new();
    let mut rule = Rule::new("all", [bucket("1/1m", 1)]);
    let names =
        ["service", "method", "host", "path", "header['x-tier']", "query['q']", "cookie['c']", "descriptor['d']"];
    rule.key = names.iter().map(|name| name.parse::<Attribute>().unwrap().into()).collect();
    let server =
        RespServer::with_sluice(Sluice::builder().rule(rule).clock(clock.clone()).build().unwrap(), None, clock);
    let mut client = server.connect();
    let attributes: String = names.iter().enumerate().map(|(index, name)| format!(" \"{name}\" v{index}")).collect();
    client.line(&format!("SLUICE.CHECK all{attributes}"), decision_reply([1, 1, 0, -1, 60_000, 0], "all")).await;
    client.line(&format!("SLUICE.CHECK all{attributes}"), decision_reply([0, 1, 0, 60_000, 60_000, 0], "all")).await;
}

#[tokio::test]
async fn lists_and_leaky_buckets_report_their_decision() {
    let clock = ManualClock::new();
    let denied = Lists { allow: Vec::new(), deny: vec!["account == 'mallory'".parse().unwrap()] };
    let rate = sluicegate_engine::Rate::per_second(2).unwrap();
    let rule = Rule::new("paced", [sluicegate_engine::Limit::leaky_bucket(rate, 4).unwrap()]);
    let sluice = Sluice::builder().rule(rule).lists(denied).clock(clock.clone()).build().unwrap();
    let server = RespServer::with_sluice(sluice, None, clock);
    let mut client = server.connect();
    client
        .line("SLUICE.CHECK paced account mallory", "*8\r\n:0\r\n:-1\r\n:-1\r\n:-1\r\n:0\r\n:0\r\n$-1\r\n:0\r\n")
        .await;
    client.send("SLUICE.CHECK paced\r\nSLUICE.CHECK paced\r\nQUIT\r\n").await;
    let text = String::from_utf8(client.read_to_end().await).unwrap();
    let second = text.split("*8\r\n").nth(2).unwrap();
    // Admitted after half a second.
    assert!(second.starts_with(":1\r\n") && second.contains(":500\r\n$5\r\npaced\r\n:0\r\n"), "{text}");
}

#[tokio::test]
async fn an_overload_refusal_has_a_ninth_element() {
    let clock = ManualClock::new();
    let guard = Rule { adaptive: Some(Adaptive::Cpu(CpuGuard::default())), ..Rule::new("guard", []) };
    let sluice = Sluice::builder().rule(guard).clock(clock.clone()).build().unwrap();
    let gate = sluice.gates().remove(0).1;
    gate.set_limits(GateLimits {
        rate: Some(VariableRate { count: 1.0, window: Duration::from_secs(1) }),
        ..GateLimits::OPEN
    });
    let server = RespServer::with_sluice(sluice, None, clock);
    let mut client = server.connect();
    let refusal = "1020\r\n:1000\r\n:0\r\n$5\r\nguard\r\n:0\r\n";
    client.line("SLUICE.CHECK guard", "*8\r\n:1\r\n:-1\r\n:-1\r\n:-1\r\n:0\r\n:0\r\n$-1\r\n:0\r\n").await;
    client.line("SLUICE.CHECK guard", format!("*8\r\n:0\r\n:1\r\n:0\r\n:{refusal}")).await;
    let reason = "cpu 97% > 85%: at most 1 per 1s".to_owned();
    gate.set_notice(OverloadNotice { state: "limited", reason, readings: Vec::new() });
    let reason_element = "$31\r\ncpu 97% > 85%: at most 1 per 1s\r\n";
    client.line("SLUICE.CHECK guard", format!("*9\r\n:0\r\n:1\r\n:0\r\n:{refusal}{reason_element}")).await;
}

//! Decisions by the rules of the rule file.

use std::time::Duration;

use sluicegate_engine::Sluice;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::gate::{Height, Notice, Orders};
use sluicegate_engine::rule::{Adaptive, Attribute, CpuGuard, Lists, Rule};

use super::{Server, bucket, command};

/// What is told of a decision by a rule.
fn told(numbers: [i64; 6], rule: &str) -> String {
    let numbers: String = numbers.iter().map(|number| format!(":{number}\r\n")).collect();
    format!("*8\r\n{numbers}${}\r\n{rule}\r\n:0\r\n", rule.len())
}

#[tokio::test]
async fn a_named_rule_decides() {
    let server = Server::new();
    let mut client = server.connect();
    let alice = "SLUICE.CHECK per-account account alice";
    client.line(alice, told([1, 2, 1, -1, 30_000, 0], "per-account")).await;
    client.line("SLUICE.PEEK per-account account alice", told([1, 2, 1, -1, 30_000, 0], "per-account")).await;
    client.line("sluice.check per-account cost 0 account alice", told([1, 2, 1, -1, 30_000, 0], "per-account")).await;
    client.line(alice, told([1, 2, 0, -1, 60_000, 0], "per-account")).await;
    client.line(alice, told([0, 2, 0, 30_000, 60_000, 0], "per-account")).await;
    client.line("SLUICE.CHECK per-account COST 3 account bob", told([0, 2, 2, -1, 0, 0], "per-account")).await;
    client.line("SLUICE.CHECK per-account COST 2 account bob", told([1, 2, 0, -1, 60_000, 0], "per-account")).await;
    server.clock.advance(Duration::from_secs(30));
    client.line(alice, told([1, 2, 0, -1, 60_000, 0], "per-account")).await;
    client.line("SLUICE.CHECK per-ip client.ip ::ffff:10.0.0.1", told([1, 10, 9, -1, 100, 0], "per-ip")).await;
    client.line("SLUICE.CHECK per-ip client.ip 10.0.0.1", told([1, 10, 8, -1, 200, 0], "per-ip")).await;
}

#[tokio::test]
async fn what_cannot_be_asked_is_said_and_takes_nothing() {
    let server = Server::new();
    let mut client = server.connect();
    for (line, error) in [
        ("SLUICE.CHECK", "-ERR wrong number of arguments for 'sluice.check' command\r\n"),
        ("SLUICE.CHECK nope", "-ERR no such rule 'nope'\r\n"),
        // To let these pass would be to forget the limit for a slip of the pen.
        ("SLUICE.CHECK per-account", "-ERR the rule 'per-account' counts by account, which is not told: add it\r\n"),
        ("SLUICE.PEEK per-account", "-ERR the rule 'per-account' counts by account, which is not told: add it\r\n"),
        (
            "SLUICE.CHECK per-account account \"\"",
            "-ERR the value of account is empty: leave it out, or say what it is\r\n",
        ),
        ("SLUICE.CHECK per-account account", "-ERR 'account' has no value: give attributes as NAME VALUE\r\n"),
        ("SLUICE.CHECK per-account COST", "-ERR '' is no cost: give a whole number, 0 or more\r\n"),
        ("SLUICE.CHECK per-account COST -1 account a", "-ERR '-1' is no cost: give a whole number, 0 or more\r\n"),
        ("SLUICE.CHECK per-account COST 1.5 account a", "-ERR '1.5' is no cost: give a whole number, 0 or more\r\n"),
        ("SLUICE.CHECK per-account account a account b", "-ERR attribute account is given twice\r\n"),
        ("SLUICE.CHECK per-account client_ip x", "-ERR unknown attribute 'client_ip': did you mean client.ip?\r\n"),
        ("SLUICE.CHECK per-ip client.ip 10.0.0.256", "-ERR '10.0.0.256' is no address for client.ip\r\n"),
        (
            "SLUICE.CHECK per-ip \"param['id']\" 7",
            "-ERR param['id'] is not for the caller to say: it is captured by a rule's path\r\n",
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
    client.line("SLUICE.PEEK per-account account a", told([1, 2, 2, -1, 0, 0], "per-account")).await;
}

#[tokio::test]
async fn every_attribute_has_its_place() {
    let clock = ManualClock::new();
    let mut rule = Rule::new("all", [bucket("1/1m", 1)]);
    let names =
        ["service", "method", "host", "path", "header['x-tier']", "query['q']", "cookie['c']", "descriptor['d']"];
    rule.key = names.iter().map(|name| name.parse::<Attribute>().unwrap().into()).collect();
    let server = Server::of(Sluice::builder().rule(rule).clock(clock.clone()).build().unwrap(), None, clock);
    let mut client = server.connect();
    let attributes: String = names.iter().enumerate().map(|(nth, name)| format!(" \"{name}\" v{nth}")).collect();
    client.line(&format!("SLUICE.CHECK all{attributes}"), told([1, 1, 0, -1, 60_000, 0], "all")).await;
    client.line(&format!("SLUICE.CHECK all{attributes}"), told([0, 1, 0, 60_000, 60_000, 0], "all")).await;
}

#[tokio::test]
async fn lists_and_leaky_buckets_tell_what_they_did() {
    let clock = ManualClock::new();
    let denied = Lists { allow: Vec::new(), deny: vec!["account == 'mallory'".parse().unwrap()] };
    let rate = sluicegate_engine::Rate::per_second(2).unwrap();
    let rule = Rule::new("paced", [sluicegate_engine::Limit::leaky_bucket(rate, 4).unwrap()]);
    let sluice = Sluice::builder().rule(rule).lists(denied).clock(clock.clone()).build().unwrap();
    let server = Server::of(sluice, None, clock);
    let mut client = server.connect();
    client
        .line("SLUICE.CHECK paced account mallory", "*8\r\n:0\r\n:-1\r\n:-1\r\n:-1\r\n:0\r\n:0\r\n$-1\r\n:0\r\n")
        .await;
    client.send("SLUICE.CHECK paced\r\nSLUICE.CHECK paced\r\nQUIT\r\n").await;
    let text = String::from_utf8(client.rest().await).unwrap();
    let second = text.split("*8\r\n").nth(2).unwrap();
    // It may go on in half a second.
    assert!(second.starts_with(":1\r\n") && second.contains(":500\r\n$5\r\npaced\r\n:0\r\n"), "{text}");
}

#[tokio::test]
async fn a_refusal_under_strain_names_the_readings_in_a_ninth_place() {
    let clock = ManualClock::new();
    let guard = Rule { adaptive: Some(Adaptive::Cpu(CpuGuard::default())), ..Rule::new("guard", []) };
    let sluice = Sluice::builder().rule(guard).clock(clock.clone()).build().unwrap();
    let gate = sluice.gates().remove(0).1;
    gate.order(Orders { rate: Some(Height { count: 1.0, window: Duration::from_secs(1) }), ..Orders::OPEN });
    let server = Server::of(sluice, None, clock);
    let mut client = server.connect();
    let shut = "1020\r\n:1000\r\n:0\r\n$5\r\nguard\r\n:0\r\n";
    client.line("SLUICE.CHECK guard", "*8\r\n:1\r\n:-1\r\n:-1\r\n:-1\r\n:0\r\n:0\r\n$-1\r\n:0\r\n").await;
    client.line("SLUICE.CHECK guard", format!("*8\r\n:0\r\n:1\r\n:0\r\n:{shut}")).await;
    let reason = "cpu 97% > 85%: at most 1 per 1s".to_owned();
    gate.post(Notice { state: "limited", reason, readings: Vec::new() });
    let why = "$31\r\ncpu 97% > 85%: at most 1 per 1s\r\n";
    client.line("SLUICE.CHECK guard", format!("*9\r\n:0\r\n:1\r\n:0\r\n:{shut}{why}")).await;
}

//! One table, for scripts.

use std::net::TcpListener;

use crate::admin::Admin;
use crate::terminal::folder;
use crate::{failure, out, run, top};

const TOKEN: &str = "open-sesame-0123456789abcdef";

#[test]
fn a_table_tells_what_happens_now() {
    let admin = Admin::start();
    // Without --once: the output is no terminal.
    let output = run(&[&admin.url()]);
    let said = out(&output);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<Vec<&str>> = said.lines().map(|line| line.split_whitespace().collect()).collect();
    let summary = format!("{}, version 0.1.0, up 4m10s, 2 rules, 2 bans, store up (2 nodes)", admin.url());
    assert_eq!(said.lines().next(), Some(summary.as_str()));
    let header = ["RULE", "PASSED", "LIMITED", "BANNED", "PASSED/S", "LIMITED/S", "BANNED/S", "WAITING", "USED"];
    assert!(lines.iter().any(|line| *line == header), "{said}");
    let row = |name: &str| lines.iter().find(|line| line.first() == Some(&name)).unwrap().clone();
    assert_eq!(row("per-ip")[4..], ["40", "5.0", "0", "0", "-"], "{said}");
    assert_eq!(row("total")[4..], ["100", "0", "0", "3", "42%"], "{said}");
    assert!(lines.iter().any(|line| line.join(" ") == "PROTECTED BY STATE HOLDS WHY"), "{said}");
    let why = "places 18, average 12ms against 10ms unloaded";
    assert!(lines.iter().any(|line| line.join(" ") == format!("total steady 18 at once {why}")), "{said}");
    assert!(said.contains("\\u{1b}[2J\\u{1b}[31mevil\\r\\n") && said.contains("1h2m"), "{said}");
    assert!(!said.contains(|character: char| character.is_control() && character != '\n'), "{said:?}");
    assert_eq!(admin.streams(), 1);
}

#[test]
fn a_longer_interval_is_the_time_that_is_measured() {
    let admin = Admin::start();
    let output = run(&["--once", "--interval", "10s", &admin.url()]);
    assert!(out(&output).contains("per-ip"), "{}", out(&output));
}

#[test]
fn a_token_is_given_and_never_shown() {
    let admin = Admin::start_with(Some(TOKEN), "read");
    let url = admin.url();
    let told = failure(&run(&["--once", &url]));
    assert!(told.contains("a token is needed: give --token-file FILE or set SLUICEGATE_TOKEN"), "{told}");
    let with = |token: &str| top().args(["--once", &url]).env("SLUICEGATE_TOKEN", token).output().unwrap();
    assert_eq!(with(TOKEN).status.code(), Some(0));
    let wrong = failure(&with("wrong-9876543210"));
    assert!(wrong.contains("the token is not known there") && !wrong.contains("9876543210"), "{wrong}");
    assert!(failure(&with("two words")).contains("SLUICEGATE_TOKEN: a token has only visible ASCII characters"));
    assert!(failure(&with("")).contains("a token is needed"), "an empty one is none");

    let folder = folder();
    let file = folder.path.join("token");
    let file = file.to_str().unwrap();
    let good = [format!("{TOKEN}\n"), format!("# ours\n\nalice {TOKEN} read\nbob other\n"), TOKEN.to_owned()];
    for text in good {
        std::fs::write(file, &text).unwrap();
        let output = run(&["--once", "--token-file", file, &url]);
        assert_eq!(output.status.code(), Some(0), "{text:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let bad: [(&[u8], &str); 5] = [
        (b"", "there is no token in it"),
        (b"# only words\n", "there is no token in it"),
        (b"one two three four\n", "neither `TOKEN` nor `NAME TOKEN`"),
        (b"\xff\xfe\n", "UTF-8"),
        (&[b'x'; 70_000], "far too long"),
    ];
    for (text, why) in bad {
        std::fs::write(file, text).unwrap();
        let told = failure(&run(&["--once", "--token-file", file, &url]));
        assert!(told.contains(file) && told.contains(why), "{told}");
    }
    for file in ["/no/such/file", folder.path.to_str().unwrap()] {
        assert!(failure(&run(&["--once", "--token-file", file, &url])).contains(file));
    }
}

#[test]
fn what_cannot_be_meant_is_wrong_usage() {
    for words in [
        &["ftp://127.0.0.1"][..],
        &["http://me:secret@127.0.0.1"],
        &["http://127.0.0.1:99999"],
        &["127.0.0.1:9900/?rule=x"],
        &["--interval", "0s"],
        &["--interval", "soon"],
        &["--unknown"],
        &["http://a", "http://b"],
    ] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout.is_empty() && output.stderr.starts_with(b"error: "));
    }
}

#[test]
fn nobody_there_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let told = failure(&run(&["--once", &format!("http://{address}")]));
    assert_eq!(told, format!("error: http://{address}: Connection refused\n"));
    assert!(failure(&run(&["--once", "http://no-such-host.invalid"])).contains("no-such-host.invalid"));
}

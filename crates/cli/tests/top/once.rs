//! `top --once`: one table, for scripts.

use std::net::TcpListener;

use super::admin::FakeAdmin;
use super::terminal::new_dir;
use super::{failure, out, run, top_command};

const TOKEN: &str = "open-sesame-0123456789abcdef";

#[test]
fn a_table_shows_current_rates() {
    let admin = FakeAdmin::start();
    // Without --once: the output is not a terminal.
    let output = run(&[&admin.url()]);
    let text = out(&output);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let summary = format!("{}, version 0.1.0, up 4m10s, 2 rules, 2 bans, store up (2 nodes)", admin.url());
    assert_eq!(text.lines().next(), Some(summary.as_str()));
    let header = ["RULE", "ADMITTED", "REFUSED", "BANNED", "ADMITTED/S", "REFUSED/S", "BANNED/S", "WAITING", "USED"];
    assert!(lines.iter().any(|line| *line == header), "{text}");
    let row = |name: &str| lines.iter().find(|line| line.first() == Some(&name)).unwrap().clone();
    assert_eq!(row("per-ip")[4..], ["40", "5.0", "0", "0", "-"], "{text}");
    assert_eq!(row("total")[4..], ["100", "0", "0", "3", "42%"], "{text}");
    assert!(lines.iter().any(|line| line.join(" ") == "ADAPTIVE RULE STATE CEILING REASON"), "{text}");
    let reason = "concurrency limit 18, average 12ms, unloaded 10ms";
    assert!(lines.iter().any(|line| line.join(" ") == format!("total steady 18 in flight {reason}")), "{text}");
    assert!(text.contains("\\u{1b}[2J\\u{1b}[31mevil\\r\\n") && text.contains("1h2m"), "{text}");
    assert!(!text.contains(|character: char| character.is_control() && character != '\n'), "{text:?}");
    assert_eq!(admin.streams(), 1);
}

#[test]
fn a_longer_interval_sets_the_measured_time() {
    let admin = FakeAdmin::start();
    let output = run(&["--once", "--interval", "10s", &admin.url()]);
    assert!(out(&output).contains("per-ip"), "{}", out(&output));
}

#[test]
fn a_token_is_sent_and_never_shown() {
    let admin = FakeAdmin::start_with(Some(TOKEN), "read");
    let url = admin.url();
    let error = failure(&run(&["--once", &url]));
    assert!(error.contains("a token is required: use --token-file FILE or set SLUICEGATE_TOKEN"), "{error}");
    let with = |token: &str| top_command().args(["--once", &url]).env("SLUICEGATE_TOKEN", token).output().unwrap();
    assert_eq!(with(TOKEN).status.code(), Some(0));
    let wrong = failure(&with("wrong-9876543210"));
    assert!(wrong.contains("the server rejected the token") && !wrong.contains("9876543210"), "{wrong}");
    assert!(failure(&with("two words")).contains("SLUICEGATE_TOKEN: a token must consist of visible ASCII characters"));
    assert!(failure(&with("")).contains("a token is required"), "an empty token is no token");

    let folder = new_dir();
    let file = folder.path.join("token");
    let file = file.to_str().unwrap();
    let valid = [format!("{TOKEN}\n"), format!("# ours\n\nalice {TOKEN} read\nbob other\n"), TOKEN.to_owned()];
    for text in valid {
        std::fs::write(file, &text).unwrap();
        let output = run(&["--once", "--token-file", file, &url]);
        assert_eq!(output.status.code(), Some(0), "{text:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let invalid: [(&[u8], &str); 5] = [
        (b"", "the file contains no token"),
        (b"# only words\n", "the file contains no token"),
        (b"one two three four\n", "expected `TOKEN` or `NAME TOKEN`"),
        (b"\xff\xfe\n", "UTF-8"),
        (&[b'x'; 70_000], "too large"),
    ];
    for (text, message) in invalid {
        std::fs::write(file, text).unwrap();
        let error = failure(&run(&["--once", "--token-file", file, &url]));
        assert!(error.contains(file) && error.contains(message), "{error}");
    }
    for file in ["/no/such/file", folder.path.to_str().unwrap()] {
        assert!(failure(&run(&["--once", "--token-file", file, &url])).contains(file));
    }
}

#[test]
fn invalid_arguments_are_usage_errors() {
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
fn an_unreachable_server_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = failure(&run(&["--once", &format!("http://{address}")]));
    assert_eq!(error, format!("error: http://{address}: Connection refused\n"));
    assert!(failure(&run(&["--once", "http://no-such-host.invalid"])).contains("no-such-host.invalid"));
}

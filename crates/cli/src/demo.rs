//! `sluicegate demo`: a few clients, some seconds, in virtual time.
//!
//! The clients and what they send are fixed, so every run shows the same; only the rules can be
//! exchanged.

use std::fmt::Write;
use std::net::Ipv4Addr;
use std::time::Duration;

use sluicegate_config::Loaded;
use sluicegate_engine::rule::{Mode, Reply};
use sluicegate_engine::sluice::{Cause, Explanation, Outcome};
use sluicegate_engine::{Decision, Verdict};

use crate::answer::{Answer, Look};
use crate::args;
use crate::describe::span;
use crate::playback::Playback;
use crate::question::{self, Question};
use crate::rules;
use crate::table::{Rows, draw};

/// The rules without a file.
const SHOP: &str = include_str!("../../../examples/rules/shop.yaml");

/// Where they are to be found.
const SHOP_PATH: &str = "examples/rules/shop.yaml";

/// A client of the demo.
#[derive(Clone, Copy)]
struct Client {
    name: &'static str,
    ip: Ipv4Addr,
    has_account: bool,
}

const ALICE: Client = Client { name: "alice", ip: Ipv4Addr::new(203, 0, 113, 7), has_account: true };
const BOB: Client = Client { name: "bob", ip: Ipv4Addr::new(198, 51, 100, 9), has_account: true };
const MALLORY: Client = Client { name: "mallory", ip: Ipv4Addr::new(198, 51, 100, 66), has_account: true };
const OFFICE: Client = Client { name: "office", ip: Ipv4Addr::new(10, 1, 2, 3), has_account: false };
const CRAWLER: Client = Client { name: "crawler", ip: Ipv4Addr::new(192, 0, 2, 44), has_account: false };

/// Who sends what, when, how often and how far apart, in milliseconds; in the order of time.
#[rustfmt::skip]
const SCRIPT: [(&str, Client, &str, u64, u64, u64); 8] = [
    ("alice orders five times at once",               ALICE,   "POST /api/orders",      0, 5,  0),
    ("an account on the deny list",                   MALLORY, "POST /api/orders",    700, 1,  0),
    ("an address on the allow list",                  OFFICE,  "GET /api/search",     800, 1,  0),
    ("everybody searches in the same second",         BOB,     "GET /api/search",   1_000, 4, 10),
    ("",                                              ALICE,   "GET /api/search",   1_040, 3, 10),
    ("a crawler does not know when to stop",          CRAWLER, "GET /products",     2_000, 12, 20),
    ("some seconds later alice orders again",         ALICE,   "POST /api/orders",  4_000, 1,  0),
    ("the crawler comes back when its ban is over",   CRAWLER, "GET /products",    63_000, 1,  0),
];

/// Nobody waits in line for longer.
const END: Duration = Duration::from_secs(3_600);

/// One line of the timeline: when, who, what, verdict, why, left, retry after.
type Row = [String; 7];

/// Rows that belong together.
struct Scene {
    heading: &'static str,
    rows: Vec<Row>,
}

const HEADER: [&str; 7] = ["time", "client", "request", "verdict", "rule and key", "left", "retry after"];

pub(crate) fn run(args: &args::Demo, look: Look) -> Answer {
    match shown(args, look) {
        Ok(text) => Answer::done(text),
        Err(answer) => answer,
    }
}

fn shown(args: &args::Demo, look: Look) -> Result<String, Answer> {
    let (name, loaded): (_, Loaded) = match &args.file {
        Some(path) => (path.display().to_string(), rules::load(path, look)?.loaded),
        None => {
            let loaded = sluicegate_config::parse(SHOP_PATH, SHOP);
            (SHOP_PATH.to_owned(), loaded.map_err(|report| Answer::bad_rules(&report, look))?)
        }
    };
    let (sluice, clock) = rules::enforce(&loaded.settings)?;
    let mut playback = Playback::new(sluice, clock);
    let scenes = timeline(&mut playback);

    let mut page = format!("The rules of {name} at work, in virtual time.\n\n");
    page.push_str(&with_headings(&scenes));
    page.push_str("\nWhat each rule did:\n\n");
    let counts = playback
        .sluice
        .counts()
        .into_iter()
        .map(|count| [count.rule, count.admitted.to_string(), count.refused.to_string(), count.banned.to_string()]);
    page.push_str(&draw(Rows::Plain, ["rule", "let through", "refused", "refused by ban"], counts.collect()));
    let shadow = loaded.settings.rules.iter().filter(|rule| rule.mode == Mode::Shadow);
    for rule in shadow {
        let _ = writeln!(page, "\n{} is in shadow mode: what it refused went through all the same.", rule.name);
    }
    let _ = write!(
        page,
        "\nNext, try (`cargo install --path crates/cli` installs the command):\n\
        \x20 sluicegate check {name}\n\
        \x20 sluicegate explain {name} --request 'POST /api/orders' --ip 203.0.113.7 --attribute account=alice --repeat 5\n\
        \x20 sluicegate demo FILE    with a copy of the file in which you changed a limit\n"
    );
    Ok(page)
}

/// One table of all scenes, with each scene's heading above its first row.
fn with_headings(scenes: &[Scene]) -> String {
    let table = draw(Rows::Plain, HEADER, scenes.iter().flat_map(|scene| scene.rows.iter().cloned()).collect());
    let mut headings = scenes.iter().flat_map(|scene| {
        let rows = scene.rows.len();
        (0..rows).map(move |row| (row == 0 && !scene.heading.is_empty()).then_some(scene.heading))
    });
    let mut text = String::new();
    for (index, line) in table.lines().enumerate() {
        // A row begins with its time; where a cell wraps, the lines after it begin with blanks.
        let begins_row = index > 0 && line.as_bytes().get(1).is_some_and(|byte| !byte.is_ascii_whitespace());
        if begins_row && let Some(Some(heading)) = headings.next() {
            let _ = writeln!(text, "\n # {heading}");
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

fn timeline(playback: &mut Playback) -> Vec<Scene> {
    let mut scenes: Vec<Scene> = Vec::new();
    let mut asked: Vec<(Client, Question, Duration)> = Vec::new();
    let mut late = Vec::new();
    for (heading, client, line, start, times, apart) in SCRIPT {
        let mut rows = Vec::new();
        for time in 0..times {
            let at = Duration::from_millis(start + time * apart);
            turns(playback, at, &asked, if time == 0 { &mut late } else { &mut rows });
            let Some(question) = ask(client, line) else { continue };
            let request = question.request();
            let explanation = playback.sluice.explain(&request);
            let decided = playback.ask(asked.len(), &request);
            rows.push(match &decided {
                Some(outcome) => row(at, client, line, outcome, &explanation, None),
                None => waits(at, client, line, &explanation),
            });
            asked.push((client, question, at));
        }
        // Whoever waited until this scene began belongs to the one before.
        if let Some(before) = scenes.last_mut() {
            before.rows.append(&mut late);
        }
        scenes.push(Scene { heading, rows });
    }
    turns(playback, END, &asked, &mut late);
    if let Some(last) = scenes.last_mut() {
        last.rows.append(&mut late);
    }
    scenes
}

/// Adds those whose time in line is over by `until`.
fn turns(playback: &mut Playback, until: Duration, asked: &[(Client, Question, Duration)], rows: &mut Vec<Row>) {
    for turn in playback.pass_until(until) {
        let Some((client, question, came)) = asked.get(turn.number) else { continue };
        let explanation = playback.sluice.explain(&question.request());
        rows.push(row(turn.at, *client, &question.title(), &turn.outcome, &explanation, Some(turn.at - *came)));
    }
}

fn ask(client: Client, line: &str) -> Option<Question> {
    let mut question = Question::new(question::line(line).ok()?).with_ip(client.ip);
    if client.has_account {
        question.insert("account", client.name);
    }
    Some(question)
}

fn row(
    at: Duration,
    client: Client,
    line: &str,
    outcome: &Outcome,
    explanation: &Explanation,
    waited: Option<Duration>,
) -> Row {
    let (why, said) = reason(outcome, explanation);
    let mut verdict = match outcome.verdict() {
        Verdict::Allowed => "allowed".to_owned(),
        Verdict::Wait(pause) => format!("allowed in {}", span(pause)),
        Verdict::Denied { .. } | Verdict::Never => refused(outcome),
    };
    if let Some(waited) = waited {
        let _ = write!(verdict, " after {} in line", span(waited));
    }
    if let Some((rule, _)) = outcome.would_refuse().next() {
        let _ = write!(verdict, " ({} would refuse)", rule.name);
    }
    let left = said.map(|said| format!("{} of {}", said.status.remaining, said.status.limit)).unwrap_or_default();
    let retry = match outcome.verdict() {
        Verdict::Denied { retry_after: Some(wait) } => span(wait),
        _ => String::new(),
    };
    [clock(at), client.name.to_owned(), line.to_owned(), verdict, why, left, retry]
}

fn refused(outcome: &Outcome) -> String {
    match outcome.cause() {
        Cause::DenyList(_) => "refused".to_owned(),
        Cause::Ban(_) => "refused: banned".to_owned(),
        Cause::Strain(_) if outcome.reply().is_none() => "refused: 503".to_owned(),
        _ => match outcome.reply() {
            None => "refused: 429".to_owned(),
            Some(Reply::Refuse { status, .. }) => format!("refused: {status}"),
            Some(Reply::Degrade { status, .. }) => format!("degraded: {status}"),
            Some(Reply::Redirect { status, .. }) => format!("redirected: {status}"),
        },
    }
}

fn waits(at: Duration, client: Client, line: &str, explanation: &Explanation) -> Row {
    let tightest = explanation.rules.iter().find(|it| it.decision.is_some_and(|said| !said.is_admitted()));
    let why = tightest.map(|it| named(&it.rule.name, it.key.as_deref())).unwrap_or_default();
    let left =
        tightest.and_then(|it| it.decision).map(|said| format!("{} of {}", said.status.remaining, said.status.limit));
    [
        clock(at),
        client.name.to_owned(),
        line.to_owned(),
        "waits in line".to_owned(),
        why,
        left.unwrap_or_default(),
        String::new(),
    ]
}

/// The rule a verdict hangs on, or else the one with the least left; with its key.
fn reason(outcome: &Outcome, explanation: &Explanation) -> (String, Option<Decision>) {
    match outcome.cause() {
        Cause::AllowList(_) => return ("allow list".to_owned(), None),
        Cause::DenyList(_) => return ("deny list".to_owned(), None),
        _ => {}
    }
    let name = outcome.rule().map(|rule| rule.name.as_str());
    let enforced = outcome.decisions().filter(|(_, said)| !said.shadow);
    let said = enforced
        .filter(|(rule, _)| name.is_none_or(|name| name == rule.name))
        .min_by_key(|(_, said)| said.decision.status.remaining * 1_000 / said.decision.status.limit.max(1));
    let Some(name) = name.or_else(|| said.map(|(rule, _)| rule.name.as_str())) else {
        return ("no rule".to_owned(), None);
    };
    let key = explanation.rules.iter().find(|it| it.rule.name == name).and_then(|it| it.key.as_deref());
    (named(name, key), said.map(|(_, said)| said.decision))
}

fn named(rule: &str, key: Option<&str>) -> String {
    match key {
        None | Some("") => rule.to_owned(),
        Some(key) => format!("{rule} [{key}]"),
    }
}

fn clock(at: Duration) -> String {
    format!("{}.{:03}s", at.as_secs(), at.subsec_millis())
}

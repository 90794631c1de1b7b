//! `sluicegate demo`: simulates a few clients for some seconds, in virtual time.
//!
//! The clients and their requests are fixed, so every run shows the same; only the rules can be changed.

use std::fmt::Write;
use std::net::Ipv4Addr;
use std::time::Duration;

use sluicegate_config::LoadedConfig;
use sluicegate_engine::rule::{Mode, Reply};
use sluicegate_engine::sluice::{Cause, Explanation, Outcome};
use sluicegate_engine::{Decision, Verdict};
use sluicegate_terminal::CommandOutput;
use sluicegate_terminal::table::{RowStyle, draw};

use crate::args;
use crate::describe_rules::duration;
use crate::request_args::{self, RequestSpec};
use crate::rules;
use crate::simulate::Simulation;
use crate::style::{TerminalStyle, invalid_rules};

/// Rules used without a file.
const SHOP_RULES: &str = include_str!("../../../examples/rules/shop.yaml");

/// Path of these rules in the repository.
const SHOP_PATH: &str = "examples/rules/shop.yaml";

/// A client of the demo.
#[derive(Clone, Copy)]
struct DemoClient {
    name: &'static str,
    ip: Ipv4Addr,
    has_account: bool,
}

const ALICE: DemoClient = DemoClient { name: "alice", ip: Ipv4Addr::new(203, 0, 113, 7), has_account: true };
const BOB: DemoClient = DemoClient { name: "bob", ip: Ipv4Addr::new(198, 51, 100, 9), has_account: true };
const MALLORY: DemoClient = DemoClient { name: "mallory", ip: Ipv4Addr::new(198, 51, 100, 66), has_account: true };
const OFFICE: DemoClient = DemoClient { name: "office", ip: Ipv4Addr::new(10, 1, 2, 3), has_account: false };
const CRAWLER: DemoClient = DemoClient { name: "crawler", ip: Ipv4Addr::new(192, 0, 2, 44), has_account: false };

/// Requests in order of time: client, request, start, count and interval, times in milliseconds.
#[rustfmt::skip]
const SCRIPT: [(&str, DemoClient, &str, u64, u64, u64); 8] = [
    ("alice sends five orders at once",               ALICE,   "POST /api/orders",      0, 5,  0),
    ("an account on the deny list",                   MALLORY, "POST /api/orders",    700, 1,  0),
    ("an address on the allow list",                  OFFICE,  "GET /api/search",     800, 1,  0),
    ("two clients search within one second",         BOB,     "GET /api/search",   1_000, 4, 10),
    ("",                                              ALICE,   "GET /api/search",   1_040, 3, 10),
    ("a crawler sends twelve requests",          CRAWLER, "GET /products",     2_000, 12, 20),
    ("alice sends another order",         ALICE,   "POST /api/orders",  4_000, 1,  0),
    ("the crawler returns after a minute",   CRAWLER, "GET /products",    63_000, 1,  0),
];

/// Longer than any queue wait.
const MAX_WAIT: Duration = Duration::from_secs(3_600);

/// One row of the timeline: time, client, request, verdict, rule and key, left, retry after.
type TimelineRow = [String; 7];

/// A group of rows with a heading.
struct Scenario {
    heading: &'static str,
    rows: Vec<TimelineRow>,
}

const HEADER: [&str; 7] = ["time", "client", "request", "decision", "rule and key", "remaining", "retry after"];

pub(crate) fn run(args: &args::Demo, style: TerminalStyle) -> CommandOutput {
    match render(args, style) {
        Ok(text) => CommandOutput::done(text),
        Err(output) => output,
    }
}

fn render(args: &args::Demo, style: TerminalStyle) -> Result<String, CommandOutput> {
    let (name, loaded): (_, LoadedConfig) = match &args.file {
        Some(path) => (path.display().to_string(), rules::load(path, style)?.loaded),
        None => {
            let loaded = sluicegate_config::parse(SHOP_PATH, SHOP_RULES);
            (SHOP_PATH.to_owned(), loaded.map_err(|report| invalid_rules(&report, style))?)
        }
    };
    let (sluice, clock) = rules::simulate(&loaded.settings)?;
    let mut simulation = Simulation::new(sluice, clock);
    let scenarios = timeline(&mut simulation);

    let mut page = format!("Simulation of {name} in virtual time.\n\n");
    page.push_str(&with_headings(&scenarios));
    page.push_str("\nCounters of each rule:\n\n");
    let counts = simulation
        .sluice
        .counts()
        .into_iter()
        .map(|count| [count.rule, count.admitted.to_string(), count.refused.to_string(), count.banned.to_string()]);
    page.push_str(&draw(RowStyle::Plain, ["rule", "admitted", "refused", "refused by ban"], counts.collect()));
    let shadow = loaded.settings.rules.iter().filter(|rule| rule.mode == Mode::Shadow);
    for rule in shadow {
        let _ = writeln!(page, "\n{} is in shadow mode: its refusals are only counted.", rule.name);
    }
    let _ = write!(
        page,
        "\nNext steps (`cargo install --path crates/cli` installs the command):\n\
        \x20 sluicegate check {name}\n\
        \x20 sluicegate explain {name} --request 'POST /api/orders' --ip 203.0.113.7 --attribute account=alice --repeat 5\n\
        \x20 sluicegate demo FILE    # with a modified copy of the file\n"
    );
    Ok(page)
}

/// Draws one table of all scenarios, with each heading above its first row.
fn with_headings(scenarios: &[Scenario]) -> String {
    let table =
        draw(RowStyle::Plain, HEADER, scenarios.iter().flat_map(|scenario| scenario.rows.iter().cloned()).collect());
    let mut headings = scenarios.iter().flat_map(|scenario| {
        let rows = scenario.rows.len();
        (0..rows).map(move |row| (row == 0 && !scenario.heading.is_empty()).then_some(scenario.heading))
    });
    let mut text = String::new();
    for (index, line) in table.lines().enumerate() {
        // A row begins with its time; continuation lines of a wrapped cell begin with spaces.
        let begins_row = index > 0 && line.as_bytes().get(1).is_some_and(|byte| !byte.is_ascii_whitespace());
        if begins_row && let Some(Some(heading)) = headings.next() {
            let _ = writeln!(text, "\n # {heading}");
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

fn timeline(simulation: &mut Simulation) -> Vec<Scenario> {
    let mut scenarios: Vec<Scenario> = Vec::new();
    let mut requests: Vec<(DemoClient, RequestSpec, Duration)> = Vec::new();
    let mut delayed = Vec::new();
    for (heading, client, line, start, times, interval) in SCRIPT {
        let mut rows = Vec::new();
        for time in 0..times {
            let at = Duration::from_millis(start + time * interval);
            add_admitted(simulation, at, &requests, if time == 0 { &mut delayed } else { &mut rows });
            let Some(spec) = build_request(client, line) else { continue };
            let request = spec.request();
            let explanation = simulation.sluice.explain(&request);
            let decided = simulation.decide(requests.len(), &request);
            rows.push(match &decided {
                Some(outcome) => row(at, client, line, outcome, &explanation, None),
                None => queued_row(at, client, line, &explanation),
            });
            requests.push((client, spec, at));
        }
        // Requests that were queued until this scenario began belong to the previous one.
        if let Some(before) = scenarios.last_mut() {
            before.rows.append(&mut delayed);
        }
        scenarios.push(Scenario { heading, rows });
    }
    add_admitted(simulation, MAX_WAIT, &requests, &mut delayed);
    if let Some(last) = scenarios.last_mut() {
        last.rows.append(&mut delayed);
    }
    scenarios
}

/// Adds rows for requests that leave the queue by `until`.
fn add_admitted(
    simulation: &mut Simulation,
    until: Duration,
    requests: &[(DemoClient, RequestSpec, Duration)],
    rows: &mut Vec<TimelineRow>,
) {
    for admitted in simulation.advance_to(until) {
        let Some((client, spec, arrived)) = requests.get(admitted.index) else { continue };
        let explanation = simulation.sluice.explain(&spec.request());
        rows.push(row(
            admitted.at,
            *client,
            &spec.title(),
            &admitted.outcome,
            &explanation,
            Some(admitted.at - *arrived),
        ));
    }
}

fn build_request(client: DemoClient, line: &str) -> Option<RequestSpec> {
    let mut spec = RequestSpec::new(request_args::parse_request_line(line).ok()?).with_ip(client.ip);
    if client.has_account {
        spec.insert("account", client.name);
    }
    Some(spec)
}

fn row(
    at: Duration,
    client: DemoClient,
    line: &str,
    outcome: &Outcome,
    explanation: &Explanation,
    waited: Option<Duration>,
) -> TimelineRow {
    let (reason, decision) = reason_of(outcome, explanation);
    let mut verdict = match outcome.verdict() {
        Verdict::Allowed => "allowed".to_owned(),
        Verdict::Wait(pause) => format!("allowed, delay {}", duration(pause)),
        Verdict::Denied { .. } | Verdict::Never => refused(outcome),
    };
    if let Some(waited) = waited {
        let _ = write!(verdict, " after {} in queue", duration(waited));
    }
    if let Some((rule, _)) = outcome.would_refuse().next() {
        let _ = write!(verdict, " ({} would refuse)", rule.name);
    }
    let remaining = decision.map(|it| format!("{} of {}", it.status.remaining, it.status.limit)).unwrap_or_default();
    let retry = match outcome.verdict() {
        Verdict::Denied { retry_after: Some(wait) } => duration(wait),
        _ => String::new(),
    };
    [clock(at), client.name.to_owned(), line.to_owned(), verdict, reason, remaining, retry]
}

fn refused(outcome: &Outcome) -> String {
    match outcome.cause() {
        Cause::DenyList(_) => "refused".to_owned(),
        Cause::Ban(_) => "refused: banned".to_owned(),
        Cause::Overload(_) if outcome.reply().is_none() => "refused: 503".to_owned(),
        _ => match outcome.reply() {
            None => "refused: 429".to_owned(),
            Some(Reply::Refuse { status, .. }) => format!("refused: {status}"),
            Some(Reply::Degrade { status, .. }) => format!("degraded: {status}"),
            Some(Reply::Redirect { status, .. }) => format!("redirected: {status}"),
        },
    }
}

fn queued_row(at: Duration, client: DemoClient, line: &str, explanation: &Explanation) -> TimelineRow {
    let tightest = explanation.rules.iter().find(|it| it.decision.is_some_and(|decision| !decision.is_admitted()));
    let reason = tightest.map(|it| rule_and_key(&it.rule.name, it.key.as_deref())).unwrap_or_default();
    let remaining =
        tightest.and_then(|it| it.decision).map(|it| format!("{} of {}", it.status.remaining, it.status.limit));
    [
        clock(at),
        client.name.to_owned(),
        line.to_owned(),
        "queued".to_owned(),
        reason,
        remaining.unwrap_or_default(),
        String::new(),
    ]
}

/// The rule that decided, or the one with the least quota left; with its key.
fn reason_of(outcome: &Outcome, explanation: &Explanation) -> (String, Option<Decision>) {
    match outcome.cause() {
        Cause::AllowList(_) => return ("allow list".to_owned(), None),
        Cause::DenyList(_) => return ("deny list".to_owned(), None),
        _ => {}
    }
    let name = outcome.rule().map(|rule| rule.name.as_str());
    let enforced = outcome.decisions().filter(|(_, checked)| !checked.shadow);
    let tightest = enforced
        .filter(|(rule, _)| name.is_none_or(|name| name == rule.name))
        .min_by_key(|(_, checked)| checked.decision.status.remaining * 1_000 / checked.decision.status.limit.max(1));
    let Some(name) = name.or_else(|| tightest.map(|(rule, _)| rule.name.as_str())) else {
        return ("no rule".to_owned(), None);
    };
    let key = explanation.rules.iter().find(|it| it.rule.name == name).and_then(|it| it.key.as_deref());
    (rule_and_key(name, key), tightest.map(|(_, checked)| checked.decision))
}

fn rule_and_key(rule: &str, key: Option<&str>) -> String {
    match key {
        None | Some("") => rule.to_owned(),
        Some(key) => format!("{rule} [{key}]"),
    }
}

fn clock(at: Duration) -> String {
    format!("{}.{:03}s", at.as_secs(), at.subsec_millis())
}

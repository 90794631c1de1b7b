//! The figures as a table for people and as JSON for programs.

use std::fs;
use std::io;
use std::path::Path;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

/// One case against one peer.
pub(crate) struct Row {
    /// The case's name.
    pub(crate) case: &'static str,
    /// Who it is measured against.
    pub(crate) peer: &'static str,
    /// What a figure counts.
    pub(crate) unit: Unit,
    /// Our figure.
    pub(crate) ours: f64,
    /// The peer's figure.
    pub(crate) theirs: f64,
    /// What must be reached, where something must.
    pub(crate) goal: Option<Goal>,
}

/// What a figure counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Nanoseconds per decision: less is better.
    Nanos,
    /// Resident bytes per key or per connection: less is better.
    Bytes,
    /// Resident memory of a whole program: less is better.
    Mebibytes,
    /// Microseconds until the answer: less is better.
    Micros,
    /// Items per second: more is better.
    PerSecond,
    /// Commands to the store per decision: less is better.
    Commands,
    /// A share of all: less is better.
    Share,
}

impl Unit {
    const fn name(self) -> &'static str {
        match self {
            Self::Nanos => "ns",
            Self::Bytes => "B",
            Self::Mebibytes => "MiB",
            Self::Micros => "us",
            Self::PerSecond => "/s",
            Self::Commands => "commands",
            Self::Share => "of all",
        }
    }

    /// Digits that say something, behind the point.
    const fn digits(self) -> usize {
        if matches!(self, Self::Commands | Self::Share) { 5 } else { 1 }
    }

    const fn better(self) -> &'static str {
        if self.more_is_better() { "higher" } else { "lower" }
    }

    const fn more_is_better(self) -> bool {
        matches!(self, Self::PerSecond)
    }
}

/// What must be reached.
#[derive(Clone, Copy)]
pub(crate) struct Goal {
    /// At most this much of the peer's figure; at least, where more is better.
    pub(crate) ratio: f64,
    /// And at most this much by itself.
    pub(crate) figure: Option<f64>,
}

impl Goal {
    /// This much of the peer's figure.
    pub(crate) const fn ratio(ratio: f64) -> Option<Self> {
        Some(Self { ratio, figure: None })
    }
}

impl Row {
    fn ratio(&self) -> f64 {
        self.ours / self.theirs
    }

    fn met(&self) -> Option<bool> {
        let goal = self.goal?;
        if self.unit.more_is_better() {
            return Some(self.ratio() >= goal.ratio);
        }
        Some(self.ratio() <= goal.ratio && goal.figure.is_none_or(|most| self.ours <= most))
    }
}

/// What the reader of the engine's table needs to know.
pub(crate) const ENGINE_NOTES: &str = "\
Best of several interleaved rounds; ns are per decision. On two threads (2t): wall time x threads / all decisions,
so no hindrance at all gives the 1t figure. Keyed: every key is in the table before measuring and still in use.
growth: ours at 10^7 keys or 10^4 rules beside ours at 10^3 keys or 1 rule. Rows without a goal are for comparison.";

/// What the reader of the adapters' table needs to know.
pub(crate) const RUST_NOTES: &str = "\
Best of several interleaved rounds. tower-layer: what a request through the whole axum app takes with the layer, less
what it takes without one; 10,000 clients in turn, all admitted, headers on. attribute: the same limit on a function and
asked by hand around it. paced-stream: items per second at a limit that is never reached, from a channel as consumers
have them, and from a mere counter that never leaves the processor's registers.";

/// What the reader of the cluster store's table needs to know.
pub(crate) const CLUSTER_NOTES: &str = "\
Best of several interleaved rounds, all on one machine with one Redis. plain script: the usual token bucket (a hash with
two fields), each decision a call of its own from redis-benchmark. exact: async callers of one process, 10,000 clients
in turn, each decision made in the store, all admitted. lease-hot-key: four processes on one key, decisions of all
together, against a limit that holds them back and one that does not. In every round it is checked that no more is let
in than burst + rate x time; the last row is the round that came nearest. lease-commands: four nodes, 10^5 decisions/s
on one key whose limit is as much; calls of scripts per decision, heartbeats and all.";

/// What the reader of the gateway's table needs to know.
pub(crate) const GATEWAY_NOTES: &str = "\
Median of several interleaved rounds; two workers or threads each, before the same upstream, on one machine. Both limit
each client address; ours also tells clients what is left and tells the upstream who asked (X-Forwarded-For and the
like), nginx does neither. proxied-allow, refused: wrk with 64 connections; nobody, or all but one a second, is refused
(429). p99-half-load: 64 connections, requests by the clock at half of nginx's most, each timed from when it was due.
memory-1m: the whole program with 10^6 clients that are limited, of whom 10^4 are asked again. idle-10k: growth per
connection after 10^4 of them have asked once and been idle for 5 s; nginx has room for them made before it counts.";

/// What the reader of the table about operating needs to know.
pub(crate) const OPERATE_NOTES: &str = "\
Median of several interleaved rounds; both sides are the same program. Watched means: admin pages on (top keys are
counted, a dashboard is open, metrics are scraped every second); logged: and the gateway's access log besides, which
notes every request. server-resp: a named rule by 10^6 random keys, 16 pipelined. reload-10k: the slowest of all reloads of 10^4 rules whose limits have changed,
from the call until they are in force. reload-pause: by how much the slowest hundredth of requests is later while rules
are exchanged four times a second; on two cores, which the reading of the rules has to share with both sides.";

/// What the reader of the table about overload needs to know.
pub(crate) const OVERLOAD_NOTES: &str = "\
A program that computes for 4 ms per request, with a thread for each connection, has one core; the gateway with
`adaptive: auto` and those who ask share the other. Requests come at random by the clock at a multiple of what the
program was measured to do just before, each timed from when it was due; one in 12 is of the highest class. Every load
comes in four rounds, in turn with the others; the rounds are pooled. Goodput: answered within a second, of what the
program was measured to do just before and after. settled, in one round: after a step from half its capacity to three times, until goodput stays above nine tenths of it. back:
after a drop from three times to half, until nobody is held back any more. The last row is the same without protection.";

/// What the reader of the decision server's table needs to know.
pub(crate) const SERVER_NOTES: &str = "\
Median of several interleaved rounds, all on one machine. resp: redis-benchmark with 50 clients and 10^6 keys drawn at
random, one call or 16 under way on each connection; ours decides (CL.THROTTLE, all admitted), Redis counts (INCR) on
its one thread and keeps nothing on disk. resp-p1: ours has one thread, too, which looks for more for 50 us before it
sleeps (threads: 1, busy_poll: 50us); in resp-p1-usual and resp-p16 it has as many as there are cores, which sleep at
once. redis-cell and throttlecrab are shown where they could be built.
rls: h2load with 4 connections of 64 streams; http-check: wrk with 64 connections. There, ours decides by a rule that is
never reached and tells what is left; the peer reads the same request and answers the same to everybody; two threads
each.";

/// The table.
pub(crate) fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(["case", "peer", "ours", "theirs", "ratio", "goal", "met"]);
    for row in rows {
        let (unit, digits) = (row.unit.name(), row.unit.digits());
        let ratio_digits = digits.max(3);
        let bound = if row.unit.more_is_better() { ">=" } else { "<=" };
        let goal = row.goal.map_or_else(String::new, |goal| {
            let figure = goal.figure.map_or_else(String::new, |most| format!(", <= {most} {unit}"));
            format!("{bound} {}{figure}", goal.ratio)
        });
        let met = row.met().map_or("", |met| if met { "yes" } else { "NO" });
        table.add_row([
            row.case.to_owned(),
            row.peer.to_owned(),
            format!("{:.digits$} {unit}", row.ours),
            format!("{:.digits$} {unit}", row.theirs),
            format!("{:.ratio_digits$}", row.ratio()),
            goal,
            met.to_owned(),
        ]);
    }
    for column in 2..=4 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Writes the rows as a list of objects, making the folder where needed.
pub(crate) fn write_json(rows: &[Row], file: &Path) -> io::Result<()> {
    let list: Value = rows
        .iter()
        .map(|row| {
            json!({
                "case": row.case,
                "peer": row.peer,
                "ours": row.ours,
                "theirs": row.theirs,
                "ratio": row.ratio(),
                "better": row.unit.better(),
            })
        })
        .collect();
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, format!("{list:#}\n"))
}

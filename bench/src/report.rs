//! Results as a text table and as JSON.

use std::fs;
use std::io;
use std::path::Path;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

/// Result of one case against one peer.
pub(crate) struct Row {
    /// Name of the case.
    pub(crate) case: &'static str,
    /// Name of the peer.
    pub(crate) peer: &'static str,
    /// Unit of the figures.
    pub(crate) unit: Unit,
    /// Figure of Sluicegate.
    pub(crate) ours: f64,
    /// Figure of the peer.
    pub(crate) theirs: f64,
    /// Goal, if the case has one.
    pub(crate) goal: Option<Goal>,
}

/// Unit of a figure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Nanoseconds per decision; lower is better.
    Nanos,
    /// Resident bytes per key or per connection; lower is better.
    Bytes,
    /// Resident memory of a program; lower is better.
    Mebibytes,
    /// Response time in microseconds; lower is better.
    Micros,
    /// Items per second; higher is better.
    PerSecond,
    /// Store commands per decision; lower is better.
    Commands,
    /// Share of all requests; lower is better.
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

    /// Significant decimal places.
    const fn digits(self) -> usize {
        if matches!(self, Self::Commands | Self::Share) { 5 } else { 1 }
    }

    const fn better(self) -> &'static str {
        if self.higher_is_better() { "higher" } else { "lower" }
    }

    const fn higher_is_better(self) -> bool {
        matches!(self, Self::PerSecond)
    }
}

/// Goal of a case.
#[derive(Clone, Copy)]
pub(crate) struct Goal {
    /// Maximum ratio to the peer's figure; minimum ratio if higher is better.
    pub(crate) ratio: f64,
    /// Maximum absolute figure.
    pub(crate) figure: Option<f64>,
}

impl Goal {
    /// Goal with a ratio to the peer's figure only.
    pub(crate) const fn ratio(ratio: f64) -> Option<Self> {
        Some(Self { ratio, figure: None })
    }
}

impl Row {
    fn ratio(&self) -> f64 {
        self.ours / self.theirs
    }

    fn goal_met(&self) -> Option<bool> {
        let goal = self.goal?;
        if self.unit.higher_is_better() {
            return Some(self.ratio() >= goal.ratio);
        }
        Some(self.ratio() <= goal.ratio && goal.figure.is_none_or(|max| self.ours <= max))
    }
}

/// Notes below the table of `engine`.
pub(crate) const ENGINE_NOTES: &str = "\
Best of several interleaved rounds; ns per decision. Two threads (2t): wall time x threads / all decisions, so a run
without contention gives the 1t figure. Keyed cases: the table contains every key before the timed part. growth: 10^7
keys or 10^4 rules compared with 10^3 keys or 1 rule. Rows without a goal are for comparison.";

/// Notes below the table of `rust`.
pub(crate) const RUST_NOTES: &str = "\
Best of several interleaved rounds. tower-layer: time of a request through an axum app with the layer, minus the time
without it; 10,000 clients, all admitted, rate limit headers on. attribute: #[limit] on a function, compared with the
same limit checked in plain code. paced-stream: items per second through a rate limit that is never reached; one source
is a channel, the other a counter in a CPU register.";

/// Notes below the table of `cluster`.
pub(crate) const CLUSTER_NOTES: &str = "\
Best of several interleaved rounds, all on one machine with one Redis. plain script: the usual token bucket script (a
hash with two fields), one call per decision, sent by redis-benchmark. exact: async callers in one process, 10,000
clients, every decision in the store, all admitted. lease-hot-key: four processes on one key, sum of their decisions,
with a limit that refuses requests and with one that does not. Every round asserts that no more requests are admitted
than burst + rate x time; the last row shows the round closest to that bound. lease-commands: four nodes with 10^5
decisions/s on one key with an equal limit; script calls per decision, heartbeats included.";

/// Notes below the table of `gateway`.
pub(crate) const GATEWAY_NOTES: &str = "\
Median of several interleaved rounds; two workers or threads each, the same upstream, one machine. Both limit each
client address; Sluicegate also sends rate limit headers to clients and X-Forwarded-For and related headers to the
upstream, nginx neither. proxied-allow, refused: wrk with 64 connections; no request, or all but one per second, is
refused (429). The -logged cases have a sliding window in Sluicegate and an access log in both. p99-half-load: open loop over 64 connections at half of nginx's maximum rate, each request timed from its
scheduled start. memory-1m: resident memory with 10^6 limited clients; 10^4 of them are checked again. idle-10k: memory
growth per connection after 10^4 connections have sent one request and been idle for 5 s; nginx allocates its
connection table at startup, before the measurement.";

/// Notes below the table of `operate`.
pub(crate) const OPERATE_NOTES: &str = "\
Median of several interleaved rounds; both sides are the same program. Monitored: admin API on (top keys are tracked, a
dashboard is open, metrics are scraped every second). logged: also with the gateway's access log of every request.
server-resp: a named rule with 10^6 random keys, 16 pipelined. reload-10k: the slowest reload of 10^4 rules with changed
limits, from the call until the rules are active. reload-pause: increase of the p99 response time while rules are
reloaded four times a second, on two cores shared by the reload, the gateway and the load generator.";

/// Notes below the table of `overload`.
pub(crate) const OVERLOAD_NOTES: &str = "\
A CPU-bound upstream with 4 ms of work per request and one thread per connection has one core; the gateway with
`adaptive: auto` and the load generator share the other. Open loop with Poisson arrivals at a multiple of the capacity
measured just before, each request timed from its scheduled start; one in 12 has the highest priority. Every load runs
in four interleaved rounds, whose samples are pooled. goodput: responses within a second, compared with the capacity
measured just before and after. settled, one round: time from a step from half to three times the capacity until
goodput stays above 90 % of it. back: time from a drop from three times to half the capacity until the last request is
shed. The last row is the same load without overload protection.";

/// Notes below the table of `server`.
pub(crate) const SERVER_NOTES: &str = "\
Median of several interleaved rounds, all on one machine. resp: redis-benchmark with 50 clients and 10^6 random keys,
one or 16 calls in flight per connection; Sluicegate decides (CL.THROTTLE, all admitted), Redis increments (INCR) on its
single thread without persistence. resp-p1: Sluicegate also has one thread, which busy-polls for 50 us before it blocks
(threads: 1, busy_poll: 50us); resp-p1-usual and resp-p16 use one thread per core without busy polling. redis-cell and
throttlecrab are included if they could be built.
rls: h2load with 4 connections of 64 streams; http-check: wrk with 64 connections. There, Sluicegate decides by a rule
that is never reached and reports the remaining quota; the peer parses the same request and returns a constant response;
two threads each.";

/// Formats the rows as a text table.
pub(crate) fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(["case", "peer", "ours", "theirs", "ratio", "goal", "met"]);
    for row in rows {
        let (unit, digits) = (row.unit.name(), row.unit.digits());
        let ratio_digits = digits.max(3);
        let bound = if row.unit.higher_is_better() { ">=" } else { "<=" };
        let goal = row.goal.map_or_else(String::new, |goal| {
            let figure = goal.figure.map_or_else(String::new, |max| format!(", <= {max} {unit}"));
            format!("{bound} {}{figure}", goal.ratio)
        });
        let met = row.goal_met().map_or("", |met| if met { "yes" } else { "NO" });
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

/// Writes the rows as a JSON list of objects; creates the directory if needed.
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
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir)?;
    }
    fs::write(file, format!("{list:#}\n"))
}

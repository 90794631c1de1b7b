//! Benchmarks of Sluicegate against comparable projects.
//!
//! | command | measures |
//! |---|---|
//! | `engine` | decisions of the engine in one process |
//! | `rust` | overhead of the attribute, the tower layer and streams |
//! | `cluster` | limits that several processes share through Redis |
//! | `gateway` | the reverse proxy against nginx |
//! | `server` | the decision server |
//! | `operate` | cost of monitoring and of rule reloads |
//! | `overload` | the gateway with `adaptive: auto` under overload |
//!
//! Rounds are interleaved: each round measures Sluicegate and then every peer, so that noise on a busy machine affects
//! all of them alike. The best round of each counts; for benchmarks of separate programs, the median. The results are
//! printed as a table and written to a JSON file in `target/bench` named after the command, such as
//! `target/bench/engine.json`.
//!
//! Every case asserts that all decisions have the expected result (all admitted or all refused). [`runner`] does the
//! timing, [`ours`] contains the Sluicegate side of the in-process cases, and [`peers`] the peers.

#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark prints its results and aborts when it cannot measure"
)]

mod cluster;
mod gateway;
mod growth;
mod keyed;
mod keys;
mod memory;
mod operate;
mod ours;
mod overload;
mod peers;
mod programs;
mod report;
mod rules;
mod runner;
mod rust;
mod server;
mod spec;
mod unkeyed;

use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::report::Row;
use crate::runner::Scale;

/// Benchmarks of Sluicegate against comparable projects.
#[derive(Parser)]
#[command(name = "sluicegate-bench")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure decisions of the engine in one process
    Engine {
        #[command(flatten)]
        choice: CaseSelection,
        /// Output file for the results
        #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench/engine.json"))]
        json: PathBuf,
    },
    /// Measure the attribute, the tower layer and streams in one process
    Rust {
        #[command(flatten)]
        choice: CaseSelection,
        /// Output file for the results
        #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench/rust.json"))]
        json: PathBuf,
    },
    /// Measure limits shared through Redis (starts its own server)
    Cluster {
        #[command(flatten)]
        choice: CaseSelection,
        /// Output file for the results
        #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench/cluster.json"))]
        json: PathBuf,
    },
    /// Measure the reverse proxy against nginx, both with a limit per client
    Gateway {
        #[command(flatten)]
        choice: CaseSelection,
        /// Output file for the results
        #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench/gateway.json"))]
        json: PathBuf,
    },
    /// Measure the decision server over the Redis protocol, gRPC and HTTP
    Server {
        #[command(flatten)]
        choice: CaseSelection,
        /// Output file for the results
        #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench/server.json"))]
        json: PathBuf,
    },
    /// Measure the cost of monitoring and of reloading ten thousand rules
    Operate {
        #[command(flatten)]
        choice: CaseSelection,
        /// Output file for the results
        #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench/operate.json"))]
        json: PathBuf,
    },
    /// Measure the gateway in front of an overloaded CPU-bound upstream
    Overload {
        #[command(flatten)]
        choice: CaseSelection,
        /// Output file for the results
        #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench/overload.json"))]
        json: PathBuf,
    },
    /// Fill one limiter and print its resident bytes per key (started by `engine` as a separate process)
    #[command(hide = true)]
    Resident { subject: MemorySubject, keys: u32 },
    /// Run one cluster node (started by `cluster` as a separate process)
    #[command(hide = true)]
    Node {
        port: u16,
        #[command(flatten)]
        bucket: cluster::ClusterBucket,
        milliseconds: u64,
    },
    /// Run a service with a constant response (started by `server` as a separate process)
    #[command(hide = true)]
    Empty { service: server::EmptyService, port: u16 },
    /// Run a CPU-bound HTTP server (started by `overload` as a separate process)
    #[command(hide = true)]
    Work { port: u16, micros: u64 },
}

/// Selection and size of the cases.
#[derive(Args)]
struct CaseSelection {
    /// Run only this case, or all cases with this prefix; may be repeated
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// Run a tenth of the size and fewer rounds: a smoke test, not a measurement
    #[arg(long)]
    quick: bool,
}

/// Limiter under memory measurement.
#[derive(Clone, Copy, ValueEnum)]
enum MemorySubject {
    Ours,
    Governor,
}

type Case = (&'static str, fn(Scale) -> Vec<Row>);

const ENGINE: &[Case] = &[
    ("unkeyed-allow-1t", unkeyed::allow_1t),
    ("unkeyed-allow-2t", unkeyed::allow_2t),
    ("unkeyed-deny-1t", unkeyed::deny_1t),
    ("unkeyed-deny-2t", unkeyed::deny_2t),
    ("sliced-allow-1t", unkeyed::sharded_1t),
    ("sliced-allow-2t", unkeyed::sharded_2t),
    ("keyed-string-1m", keyed::strings),
    ("keyed-u64-1m", keyed::integers),
    ("bytes-per-key", memory::bytes_per_key),
    ("rules-100", rules::hundred),
    ("growth-keys", growth::keys),
    ("growth-rules", growth::rules),
];

const RUST: &[Case] = &[
    ("tower-layer", rust::layer::added),
    ("attribute", rust::attribute::called),
    ("paced-stream", rust::stream::rate_limited),
];

const CLUSTER: &[Case] = &[
    ("exact-64", cluster::exact::callers_64),
    ("exact-512", cluster::exact::callers_512),
    ("lease-hot-key", cluster::lease::hot_key),
    ("lease-commands", cluster::lease::commands),
];

const GATEWAY: &[Case] = &[
    ("proxied-allow", gateway::throughput::proxied_allow),
    ("refused", gateway::throughput::refused),
    ("proxied-allow-logged", gateway::throughput::proxied_allow_logged),
    ("refused-logged", gateway::throughput::refused_logged),
    ("p99-half-load", gateway::latency::half_load),
    ("memory-1m", gateway::memory::million),
    ("idle-10k", gateway::idle::ten_thousand),
];

const SERVER: &[Case] = &[
    ("resp-p1", server::resp::one_at_a_time),
    ("resp-p16", server::resp::sixteen_at_a_time),
    ("rls", server::rls::described),
    ("http-check", server::http::checked),
];

const OPERATE: &[Case] = &[
    ("gateway-allow", operate::monitored::gateway_allow),
    ("gateway-refused", operate::monitored::gateway_refused),
    ("logged-allow", operate::monitored::gateway_allow_logged),
    ("logged-refused", operate::monitored::gateway_refused_logged),
    ("server-http", operate::monitored::server_http),
    ("server-resp", operate::monitored::server_resp),
    ("reload", operate::reload::ten_thousand_rules),
];

const OVERLOAD: &[Case] = &[("protected", overload::protected)];

fn main() -> Result<(), Box<dyn Error>> {
    match Arguments::parse().command {
        Command::Engine { choice, json } => measure(ENGINE, report::ENGINE_NOTES, &choice, json),
        Command::Rust { choice, json } => measure(RUST, report::RUST_NOTES, &choice, json),
        Command::Cluster { choice, json } => measure(CLUSTER, report::CLUSTER_NOTES, &choice, json),
        Command::Gateway { choice, json } => measure(GATEWAY, report::GATEWAY_NOTES, &choice, json),
        Command::Server { choice, json } => measure(SERVER, report::SERVER_NOTES, &choice, json),
        Command::Operate { choice, json } => measure(OPERATE, report::OPERATE_NOTES, &choice, json),
        Command::Overload { choice, json } => measure(OVERLOAD, report::OVERLOAD_NOTES, &choice, json),
        Command::Work { port, micros } => overload::run_work(port, micros),
        Command::Empty { service, port } => Ok(server::run_empty(service, port)?),
        Command::Node { port, bucket, milliseconds } => {
            Ok(cluster::run_node(port, bucket, Duration::from_millis(milliseconds))?)
        }
        Command::Resident { subject, keys } => {
            println!("{}", memory::resident_bytes_per_key(subject, keys));
            Ok(())
        }
    }
}

fn measure(all: &[Case], notes: &str, choice: &CaseSelection, json: PathBuf) -> Result<(), Box<dyn Error>> {
    let wanted = &choice.cases;
    for name in wanted {
        if !all.iter().any(|(case, _)| case.starts_with(name.as_str())) {
            let known: Vec<_> = all.iter().map(|(case, _)| *case).collect();
            return Err(format!("no case starts with `{name}`; known cases: {}", known.join(", ")).into());
        }
    }
    // An exact name wins over a prefix: `resp-p1` is also a prefix of `resp-p16`.
    let is_case = |name: &String| all.iter().any(|(case, _)| case == name);
    let started = Instant::now();
    let mut rows = Vec::new();
    for (case, run) in all {
        let is_selected = |name: &String| if is_case(name) { case == name } else { case.starts_with(name.as_str()) };
        if wanted.is_empty() || wanted.iter().any(is_selected) {
            let case_started = Instant::now();
            rows.extend(run(Scale { quick: choice.quick }));
            println!("{case}: measured in {:.1} s", case_started.elapsed().as_secs_f64());
        }
    }
    println!("\n{}", report::table(&rows));
    println!("{notes}");
    report::write_json(&rows, &json)?;
    println!("finished in {:.0} s; results in {}", started.elapsed().as_secs_f64(), json.canonicalize()?.display());
    Ok(())
}

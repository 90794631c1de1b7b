//! Sluicegate beside its peers.
//!
//! `sluicegate-bench engine` measures every case of the engine in one process, `sluicegate-bench rust`
//! what stands between a Rust program and the engine, `sluicegate-bench cluster` limits that many
//! processes share through Redis, `sluicegate-bench gateway` the reverse proxy, `sluicegate-bench server` the
//! decision server, `sluicegate-bench operate` what it costs to be watched: ours and each peer in turn, round after round, and the best round of each counts; of whole
//! programs, the median. What disturbs one
//! side of a round on a busy machine thus disturbs the other as likely. A table goes to the screen and the
//! same figures to a file in `target/bench` with the command's name, such as `target/bench/engine.json`.
//!
//! A case builds both sides, proves by counting that they decide what the case says (all admitted or
//! all refused), and leaves the timing to [`runner`]. Our side of every case is in [`ours`], the peers'
//! in [`peers`].

#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::panic,
    reason = "a program for people: it prints, and stops where it cannot measure"
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
mod unkeyed;

use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::report::Row;
use crate::runner::Scale;

/// Measures Sluicegate beside its peers.
#[derive(Parser)]
#[command(name = "sluicegate-bench")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The engine's decisions, in one process
    Engine {
        #[command(flatten)]
        choice: Choice,
        /// Where the figures go
        #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench/engine.json"))]
        json: PathBuf,
    },
    /// The attribute, the tower layer and streams, in one process
    Rust {
        #[command(flatten)]
        choice: Choice,
        /// Where the figures go
        #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench/rust.json"))]
        json: PathBuf,
    },
    /// Limits shared through a Redis that it starts itself
    Cluster {
        #[command(flatten)]
        choice: Choice,
        /// Where the figures go
        #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench/cluster.json"))]
        json: PathBuf,
    },
    /// The reverse proxy beside nginx, both with a limit for each client
    Gateway {
        #[command(flatten)]
        choice: Choice,
        /// Where the figures go
        #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench/gateway.json"))]
        json: PathBuf,
    },
    /// The decision server, asked over the Redis protocol, gRPC and HTTP
    Server {
        #[command(flatten)]
        choice: Choice,
        /// Where the figures go
        #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench/server.json"))]
        json: PathBuf,
    },
    /// What it costs to be watched, and to have ten thousand rules exchanged
    Operate {
        #[command(flatten)]
        choice: Choice,
        /// Where the figures go
        #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench/operate.json"))]
        json: PathBuf,
    },
    /// A program that computes behind the gateway, asked for more than it can do
    Overload {
        #[command(flatten)]
        choice: Choice,
        /// Where the figures go
        #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench/overload.json"))]
        json: PathBuf,
    },
    /// Fill one limiter and print its resident bytes per key (run by `engine` in a process of its own)
    #[command(hide = true)]
    Resident { side: Side, keys: u32 },
    /// Decide as one node of a fleet (run by `cluster` in a process of its own)
    #[command(hide = true)]
    Node {
        port: u16,
        #[command(flatten)]
        bucket: cluster::Bucket,
        milliseconds: u64,
    },
    /// Answer the same to everybody (run by `server` in a process of its own)
    #[command(hide = true)]
    Empty { service: server::Empty, port: u16 },
    /// Compute for every request (run by `overload` in a process of its own)
    #[command(hide = true)]
    Work { port: u16, micros: u64 },
}

/// What to measure, and how much of it.
#[derive(Args)]
struct Choice {
    /// Only the case of this name, or those whose name begins so; may be repeated
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// A tenth of the size and fewer rounds: to see that it works, not to quote
    #[arg(long)]
    quick: bool,
}

/// Whose memory to measure.
#[derive(Clone, Copy, ValueEnum)]
enum Side {
    Ours,
    Governor,
}

type Case = (&'static str, fn(Scale) -> Vec<Row>);

const ENGINE: &[Case] = &[
    ("unkeyed-allow-1t", unkeyed::allow_1t),
    ("unkeyed-allow-2t", unkeyed::allow_2t),
    ("unkeyed-deny-1t", unkeyed::deny_1t),
    ("unkeyed-deny-2t", unkeyed::deny_2t),
    ("sliced-allow-1t", unkeyed::sliced_1t),
    ("sliced-allow-2t", unkeyed::sliced_2t),
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
    ("paced-stream", rust::stream::paced),
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
    ("gateway-allow", operate::watching::gateway_allow),
    ("gateway-refused", operate::watching::gateway_refused),
    ("logged-allow", operate::watching::gateway_allow_logged),
    ("logged-refused", operate::watching::gateway_refused_logged),
    ("server-http", operate::watching::server_http),
    ("server-resp", operate::watching::server_resp),
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
        Command::Resident { side, keys } => {
            println!("{}", memory::resident_bytes_per_key(side, keys));
            Ok(())
        }
    }
}

fn measure(all: &[Case], notes: &str, choice: &Choice, json: PathBuf) -> Result<(), Box<dyn Error>> {
    let wanted = &choice.cases;
    for name in wanted {
        if !all.iter().any(|(case, _)| case.starts_with(name.as_str())) {
            let known: Vec<_> = all.iter().map(|(case, _)| *case).collect();
            return Err(format!("no case begins with `{name}`; there are {}", known.join(", ")).into());
        }
    }
    // `resp-p1` is a case, and what `resp-p16` begins with.
    let is_case = |name: &String| all.iter().any(|(case, _)| case == name);
    let started = Instant::now();
    let mut rows = Vec::new();
    for (case, run) in all {
        let is_meant = |name: &String| if is_case(name) { case == name } else { case.starts_with(name.as_str()) };
        if wanted.is_empty() || wanted.iter().any(is_meant) {
            let case_started = Instant::now();
            rows.extend(run(Scale { quick: choice.quick }));
            println!("{case}: measured in {:.1} s", case_started.elapsed().as_secs_f64());
        }
    }
    println!("\n{}", report::table(&rows));
    println!("{notes}");
    report::write_json(&rows, &json)?;
    println!("{:.0} s in all; figures in {}", started.elapsed().as_secs_f64(), json.canonicalize()?.display());
    Ok(())
}

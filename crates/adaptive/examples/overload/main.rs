//! Compares Sluicegate's concurrency limiter with those of other projects, in virtual time.
//!
//! Runs every scenario against every control law and writes the page `docs/adaptive-bench.md` and its plots in
//! `docs/adaptive/`. The result depends on neither clock nor host: a second run writes the same bytes.
//!
//! ```text
//! make bench-adaptive
//! ```
//!
//! With `seeds` it writes no files and prints every gate for Sluicegate on seeds that were not used for tuning:
//!
//! ```text
//! make bench-adaptive-seeds
//! ```

#![allow(clippy::print_stdout, reason = "a command-line program")]

mod figures;
#[path = "../../tests/gates/ours.rs"]
mod ours;
mod page;
mod plot;
mod plots;
mod seeds;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]
mod tests;

use std::error::Error;
use std::fs;
use std::path::Path;

use ours::SimulatedGate;
use sluicegate_engine::rule::Auto;
use sluicegate_testkit::overload::AdmissionPolicy;
use sluicegate_testkit::overload::peers::{Aimd, Gradient2, Kratos, NoProtection, Sentinel, Vegas};

/// A control law to compare, with its name and plot colour.
#[derive(Clone, Copy)]
struct Contender {
    name: &'static str,
    colour: &'static str,
    admission: fn(u64) -> Box<dyn AdmissionPolicy>,
}

const CONTENDERS: [Contender; 7] = [
    Contender {
        name: "Sluicegate",
        colour: "#0b6bcb",
        admission: |seed| Box::new(SimulatedGate::new(Auto::default(), seed)),
    },
    Contender { name: "unprotected", colour: "#888888", admission: |_| Box::new(NoProtection) },
    Contender { name: "Vegas", colour: "#c0392b", admission: |_| Box::<Vegas>::default() },
    Contender { name: "Gradient2", colour: "#e67e22", admission: |_| Box::<Gradient2>::default() },
    Contender { name: "AIMD", colour: "#8e44ad", admission: |_| Box::<Aimd>::default() },
    Contender { name: "Sentinel", colour: "#16a085", admission: |_| Box::<Sentinel>::default() },
    Contender { name: "kratos", colour: "#7f6000", admission: |_| Box::<Kratos>::default() },
];

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1).as_deref() {
        None => write(),
        Some("seeds") => {
            seeds::print();
            Ok(())
        }
        Some(other) => Err(format!("unknown argument '{other}': the only argument is 'seeds'").into()),
    }
}

/// Writes the page and its plots.
fn write() -> Result<(), Box<dyn Error>> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let plot_dir = docs.join("adaptive");
    fs::create_dir_all(&plot_dir)?;
    for (name, svg) in plots::all() {
        fs::write(plot_dir.join(name), svg)?;
        println!("docs/adaptive/{name}");
    }
    fs::write(docs.join("adaptive-bench.md"), page::write(page::gates, page::events))?;
    println!("docs/adaptive-bench.md");
    Ok(())
}

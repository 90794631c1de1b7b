//! Ours beside the laws of other projects, in virtual time.
//!
//! Plays every scenario before every law and writes the page `docs/adaptive-bench.md` and its plots in
//! `docs/adaptive/`. Nothing in it depends on the clock or the machine: whoever runs it again gets the same bytes.
//!
//! ```text
//! make bench-adaptive
//! ```
//!
//! With `seeds` it writes nothing, and prints every gate of ours on seeds that nothing was tuned on:
//!
//! ```text
//! make bench-adaptive-seeds
//! ```

#![allow(clippy::print_stdout, reason = "a program for people")]

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

use ours::Ours;
use sluicegate_engine::rule::Auto;
use sluicegate_testkit::overload::Front;
use sluicegate_testkit::overload::peers::{Aimd, Gradient2, Kratos, Nothing, Sentinel, Vegas};

/// Something to put before a server.
#[derive(Clone, Copy)]
struct Law {
    name: &'static str,
    colour: &'static str,
    front: fn(u64) -> Box<dyn Front>,
}

const LAWS: [Law; 7] = [
    Law { name: "Sluicegate", colour: "#0b6bcb", front: |seed| Box::new(Ours::new(Auto::default(), seed)) },
    Law { name: "nothing", colour: "#888888", front: |_| Box::new(Nothing) },
    Law { name: "Vegas", colour: "#c0392b", front: |_| Box::<Vegas>::default() },
    Law { name: "Gradient2", colour: "#e67e22", front: |_| Box::<Gradient2>::default() },
    Law { name: "AIMD", colour: "#8e44ad", front: |_| Box::<Aimd>::default() },
    Law { name: "Sentinel", colour: "#16a085", front: |_| Box::<Sentinel>::default() },
    Law { name: "kratos", colour: "#7f6000", front: |_| Box::<Kratos>::default() },
];

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1).as_deref() {
        None => write(),
        Some("seeds") => {
            seeds::print();
            Ok(())
        }
        Some(other) => Err(format!("'{other}' is not known: there is only 'seeds'").into()),
    }
}

/// The page and its plots.
fn write() -> Result<(), Box<dyn Error>> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let pictures = docs.join("adaptive");
    fs::create_dir_all(&pictures)?;
    for (name, picture) in plots::all() {
        fs::write(pictures.join(name), picture)?;
        println!("docs/adaptive/{name}");
    }
    fs::write(docs.join("adaptive-bench.md"), page::write(page::gates, page::events))?;
    println!("docs/adaptive-bench.md");
    Ok(())
}

//! What a key costs in memory: `bytes-per-key`.
//!
//! Each side fills a million string keys in a fresh process, so that no side finds memory another one
//! has freed. A key is written over the one before it: only what the limiter itself keeps is counted.
//! What counts is resident memory, pages and allocator's slack included, as an operator sees it.

use std::env;
use std::fs;
use std::hint::black_box;
use std::process;

use crate::Side;
use crate::keys;
use crate::ours;
use crate::peers;
use crate::report::{Goal, Row, Unit};
use crate::runner::Scale;

const KEYS: u32 = 1_000_000;

pub(crate) fn bytes_per_key(scale: Scale) -> Vec<Row> {
    let keys = scale.size(KEYS);
    let ours = in_own_process("ours", keys);
    let theirs = in_own_process("governor", keys);
    let goal = Some(Goal { ratio: 0.25, figure: Some(32.0) });
    vec![Row { case: "bytes-per-key", peer: peers::GOVERNOR, unit: Unit::Bytes, ours, theirs, goal }]
}

fn in_own_process(side: &str, keys: u32) -> f64 {
    let program = env::current_exe().expect("the path of this program");
    let output = process::Command::new(program)
        .args(["resident", side, &keys.to_string()])
        .output()
        .expect("this program starts again");
    assert!(output.status.success(), "filling {side}: {}", String::from_utf8_lossy(&output.stderr));
    let figure = String::from_utf8_lossy(&output.stdout);
    figure.trim().parse().expect("the child prints one figure")
}

/// Fills one side's limiter in this process and returns how much resident memory grew per key.
pub(crate) fn resident_bytes_per_key(side: Side, keys: u32) -> f64 {
    let before = resident_bytes();
    let after = match side {
        Side::Ours => {
            let table = ours::StringTable::new(keys);
            fill(keys, |key| table.admits(key));
            let after = resident_bytes();
            black_box(table);
            after
        }
        Side::Governor => {
            let governor = peers::governor_strings();
            fill(keys, |key| governor.check_key(key).is_ok());
            let after = resident_bytes();
            black_box(governor);
            after
        }
    };
    (after - before) / f64::from(keys)
}

fn fill(keys: u32, mut admits: impl FnMut(&String) -> bool) {
    let mut key = String::new();
    for nth in 0..keys {
        keys::write_string(nth, &mut key);
        assert!(admits(&key), "a new key is admitted");
    }
}

/// `VmRSS`, which is what `/proc/self/statm` counts in pages.
fn resident_bytes() -> f64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux's /proc");
    let kibibytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|value| value.trim().strip_suffix(" kB"))
        .and_then(|value| value.parse::<f64>().ok())
        .expect("a VmRSS line in kB");
    kibibytes * 1024.0
}

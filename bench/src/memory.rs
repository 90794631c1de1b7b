//! Memory per key: `bytes-per-key`.
//!
//! Each limiter gets a million string keys in a new process, so that none reuses memory that another one has freed. All
//! keys are written to the same string buffer: only the limiter's own memory is counted. The figure is resident memory
//! including page and allocator overhead, as an operator sees it.

use std::env;
use std::fs;
use std::hint::black_box;
use std::process;

use crate::MemorySubject;
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

fn in_own_process(subject: &str, keys: u32) -> f64 {
    let program = env::current_exe().expect("path of the bench executable");
    let output = process::Command::new(program)
        .args(["resident", subject, &keys.to_string()])
        .output()
        .expect("bench executable starts");
    assert!(output.status.success(), "filling {subject}: {}", String::from_utf8_lossy(&output.stderr));
    let figure = String::from_utf8_lossy(&output.stdout);
    figure.trim().parse().expect("the child prints one figure")
}

/// Fills one limiter in this process and returns the growth of resident memory per key.
pub(crate) fn resident_bytes_per_key(subject: MemorySubject, keys: u32) -> f64 {
    let before = resident_bytes();
    let after = match subject {
        MemorySubject::Ours => {
            let table = ours::StringTable::new(keys);
            fill(keys, |key| table.admits(key));
            let after = resident_bytes();
            black_box(table);
            after
        }
        MemorySubject::Governor => {
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
    for index in 0..keys {
        keys::write_string(index, &mut key);
        assert!(admits(&key), "a new key is admitted");
    }
}

/// Resident memory of this process (`VmRSS`).
fn resident_bytes() -> f64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let kibibytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|value| value.trim().strip_suffix(" kB"))
        .and_then(|value| value.parse::<f64>().ok())
        .expect("VmRSS line in kB");
    kibibytes * 1024.0
}

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use sluicegate_config::settings::AccessLogFormat;

use super::super::LogEntry;
use super::super::buffer::{LineBuffer, PutResult};
use super::super::request_id::RequestIdGenerator;

use super::full_entry;

const TIMES: u32 = 1_000_000;

/// CPU time of this thread, which is independent of other load on the machine.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

#[test]
#[ignore = "measures"]
#[allow(clippy::print_stdout, reason = "the result of the measurement")]
fn formatting_cost_per_line() {
    for format in [AccessLogFormat::Json, AccessLogFormat::Common] {
        let agent =
            b"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0".as_slice();
        let line = LogEntry { user_agent: Some(agent), ..full_entry() };
        let (buffer, mut taken) = (LineBuffer::default(), Vec::new());
        let start = cpu_time();
        for _ in 0..TIMES {
            if buffer.put(format, black_box(&line)) == PutResult::Full {
                buffer.take(format, &mut taken);
                taken.clear();
            }
        }
        println!("{format:?}: {} ns per line", ((cpu_time() - start) / TIMES).as_nanos());
    }
    let ids = RequestIdGenerator::new();
    let start = cpu_time();
    for _ in 0..TIMES {
        black_box(ids.next());
    }
    println!("{} ns per id", ((cpu_time() - start) / TIMES).as_nanos());
}

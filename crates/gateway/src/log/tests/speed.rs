use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use sluicegate_config::settings::LogFormat;

use super::super::Line;
use super::super::buffer::{Buffer, Put};
use super::super::request_id::RequestIds;

use super::full;

const TIMES: u32 = 1_000_000;

/// How long this thread has worked so far: others may keep the machine busy.
fn worked() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

#[test]
#[ignore = "measures"]
#[allow(clippy::print_stdout, reason = "it is what the measurement is for")]
fn how_long_a_line_takes() {
    for format in [LogFormat::Json, LogFormat::Common] {
        let agent =
            b"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0".as_slice();
        let line = Line { user_agent: Some(agent), ..full() };
        let (buffer, mut taken) = (Buffer::default(), Vec::new());
        let start = worked();
        for _ in 0..TIMES {
            if buffer.put(format, black_box(&line)) == Put::Full {
                buffer.take(format, &mut taken);
                taken.clear();
            }
        }
        println!("{format:?}: {} ns a line", ((worked() - start) / TIMES).as_nanos());
    }
    let ids = RequestIds::new();
    let start = worked();
    for _ in 0..TIMES {
        black_box(ids.next());
    }
    println!("{} ns an id", ((worked() - start) / TIMES).as_nanos());
}

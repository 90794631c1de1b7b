use std::hint::black_box;
use std::time::Instant;

use sluicegate_config::settings::{self, LogFormat};

use super::super::request_id::RequestIds;
use super::super::{AccessLog, Line};
use super::full;

const TIMES: u32 = 1_000_000;

#[test]
#[ignore = "measures"]
#[allow(clippy::print_stdout, reason = "it is what the measurement is for")]
fn how_long_a_line_takes() {
    for format in [LogFormat::Json, LogFormat::Common] {
        let log = AccessLog::open(&settings::AccessLog { file: "/dev/null".to_owned(), format }).unwrap();
        let thread = log.thread();
        let agent =
            b"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0".as_slice();
        let line = Line { user_agent: Some(agent), ..full() };
        let start = Instant::now();
        for _ in 0..TIMES {
            thread.write(black_box(&line));
        }
        println!("{format:?}: {} ns a line, {} lost", (start.elapsed() / TIMES).as_nanos(), log.lost());
    }
    let ids = RequestIds::new();
    let start = Instant::now();
    for _ in 0..TIMES {
        black_box(ids.next());
    }
    println!("{} ns an id", (start.elapsed() / TIMES).as_nanos());
}

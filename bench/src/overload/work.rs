//! CPU-bound HTTP server: one thread per connection, a fixed amount of work per request.

use std::error::Error;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// Serves on the port; each request takes this many microseconds of CPU time.
pub(crate) fn run_work(port: u16, micros: u64) -> Result<(), Box<dyn Error>> {
    let rounds = calibrate_rounds(Duration::from_micros(micros));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    for stream in listener.incoming() {
        let stream = stream?;
        stream.set_nodelay(true)?;
        thread::spawn(move || drop(serve(stream, rounds)));
    }
    Ok(())
}

/// Number of rounds that take the given time, from the fastest of several runs: noise only makes runs slower.
fn calibrate_rounds(time: Duration) -> u64 {
    const CALIBRATION_ROUNDS: u64 = 2_000_000;
    let once = || {
        let started = Instant::now();
        compute(CALIBRATION_ROUNDS);
        started.elapsed()
    };
    let fastest = (0..10).map(|_| once()).min().unwrap_or(time);
    (CALIBRATION_ROUNDS as f64 * time.as_secs_f64() / fastest.as_secs_f64()) as u64
}

fn compute(rounds: u64) {
    let mut state = black_box(1u64);
    for round in 0..rounds {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round);
    }
    black_box(state);
}

fn serve(mut stream: TcpStream, rounds: u64) -> std::io::Result<()> {
    let (mut received, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        while let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            received.drain(..end + 4);
            compute(rounds);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")?;
        }
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            count => received.extend_from_slice(&buffer[..count]),
        }
    }
}

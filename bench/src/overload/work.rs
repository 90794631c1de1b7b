//! A program that computes: a thread for each connection, so much work for each request, all on the cores it may use.

use std::error::Error;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// Serves at the port; each request takes so many microseconds of computing when nobody else computes.
pub(crate) fn run_work(port: u16, micros: u64) -> Result<(), Box<dyn Error>> {
    let rounds = calibrated(Duration::from_micros(micros));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    for stream in listener.incoming() {
        let stream = stream?;
        stream.set_nodelay(true)?;
        thread::spawn(move || drop(serve(stream, rounds)));
    }
    Ok(())
}

/// How many rounds take so long: the quickest of several tries, as nothing but a disturbance makes them longer.
fn calibrated(time: Duration) -> u64 {
    const TRIED: u64 = 2_000_000;
    let once = || {
        let begun = Instant::now();
        compute(TRIED);
        begun.elapsed()
    };
    let quickest = (0..10).map(|_| once()).min().unwrap_or(time);
    (TRIED as f64 * time.as_secs_f64() / quickest.as_secs_f64()) as u64
}

fn compute(rounds: u64) {
    let mut state = black_box(1u64);
    for round in 0..rounds {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round);
    }
    black_box(state);
}

fn serve(mut stream: TcpStream, rounds: u64) -> std::io::Result<()> {
    let (mut asked, mut part) = (Vec::new(), [0; 4096]);
    loop {
        while let Some(end) = asked.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            asked.drain(..end + 4);
            compute(rounds);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")?;
        }
        match stream.read(&mut part)? {
            0 => return Ok(()),
            count => asked.extend_from_slice(&part[..count]),
        }
    }
}

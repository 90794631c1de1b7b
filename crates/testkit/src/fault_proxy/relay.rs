//! One direction of one connection: a thread that reads, and one that writes when it is time.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::State;

/// Bytes, and when they are due.
type Due = (Instant, Vec<u8>);

pub(super) fn start(state: Arc<State>, from: TcpStream, to: TcpStream) {
    let (sender, receiver) = channel();
    thread::spawn(move || read(&state, from, &sender));
    thread::spawn(move || write(to, &receiver));
}

fn read(state: &State, mut from: TcpStream, sender: &Sender<Due>) {
    let mut buffer = vec![0; 64 * 1024];
    // Once something is lost, nothing that follows may arrive: it would be taken for what was lost.
    let mut lost = false;
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        lost |= state.swallows();
        if lost {
            continue;
        }
        if sender.send((Instant::now() + state.delay(), buffer[..read].to_vec())).is_err() {
            break;
        }
    }
    // The other side has closed or cannot be written to: this side is told so too. Closed already is fine.
    drop(from.shutdown(Shutdown::Read));
}

fn write(mut to: TcpStream, receiver: &Receiver<Due>) {
    while let Ok((due, bytes)) = receiver.recv() {
        thread::sleep(due.saturating_duration_since(Instant::now()).max(Duration::ZERO));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    drop(to.shutdown(Shutdown::Both));
}

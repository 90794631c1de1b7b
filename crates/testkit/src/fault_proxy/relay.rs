//! Relay for one direction of a connection: a reader thread and a writer thread that applies the delay.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::ProxyState;

/// Bytes and the time at which they are due.
type DelayedBytes = (Instant, Vec<u8>);

pub(super) fn start(state: Arc<ProxyState>, from: TcpStream, to: TcpStream) {
    let (sender, receiver) = channel();
    thread::spawn(move || read(&state, from, &sender));
    thread::spawn(move || write(to, &receiver));
}

fn read(state: &ProxyState, mut from: TcpStream, sender: &Sender<DelayedBytes>) {
    let mut buffer = vec![0; 64 * 1024];
    // After a loss, later bytes must not arrive: the receiver would take them for the lost ones.
    let mut lost = false;
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        lost |= state.is_blackholed();
        if lost {
            continue;
        }
        if sender.send((Instant::now() + state.delay(), buffer[..read].to_vec())).is_err() {
            break;
        }
    }
    // The other side has closed or cannot be written to, so close this side too. It may be closed already.
    drop(from.shutdown(Shutdown::Read));
}

fn write(mut to: TcpStream, receiver: &Receiver<DelayedBytes>) {
    while let Ok((due, bytes)) = receiver.recv() {
        thread::sleep(due.saturating_duration_since(Instant::now()).max(Duration::ZERO));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    drop(to.shutdown(Shutdown::Both));
}

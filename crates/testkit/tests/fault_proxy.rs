//! Tests of the fault proxy: delay, blackhole, refusal, disconnection and shutdown.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use sluicegate_testkit::fault_proxy::FaultProxy;

/// Test timeout, long enough for a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Starts an echo server and returns its port.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            thread::spawn(move || {
                let mut buffer = [0; 1024];
                while let Ok(read @ 1..) = stream.read(&mut buffer) {
                    if stream.write_all(&buffer[..read]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

fn connect(proxy: &FaultProxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream
}

fn exchange(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"hello")?;
    let mut got = [0; 5];
    stream.read_exact(&mut got)?;
    assert_eq!(&got, b"hello");
    Ok(())
}

#[test]
fn bytes_pass_and_are_delayed_each_way() {
    let proxy = FaultProxy::start(echo()).unwrap();
    let mut stream = connect(&proxy);
    exchange(&mut stream).unwrap();
    proxy.delay(Duration::from_millis(30));
    let start = Instant::now();
    exchange(&mut stream).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(60));
    proxy.pass();
    exchange(&mut stream).unwrap();
}

#[test]
fn blackholed_bytes_do_not_arrive() {
    let proxy = FaultProxy::start(echo()).unwrap();
    let mut stream = connect(&proxy);
    exchange(&mut stream).unwrap();
    proxy.blackhole();
    stream.write_all(b"hello").unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let error = stream.read(&mut [0; 5]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    proxy.pass();
    exchange(&mut connect(&proxy)).unwrap();
}

#[test]
fn connections_are_closed_refused_and_dropped_with_the_proxy() {
    let proxy = FaultProxy::start(echo()).unwrap();
    let mut stream = connect(&proxy);
    exchange(&mut stream).unwrap();
    proxy.refuse();
    exchange(&mut stream).unwrap();
    assert!(exchange(&mut connect(&proxy)).is_err());
    proxy.disconnect_all();
    assert!(exchange(&mut stream).is_err());
    proxy.pass();
    let mut stream = connect(&proxy);
    exchange(&mut stream).unwrap();
    let address = proxy.address();
    drop(proxy);
    assert!(exchange(&mut stream).is_err());
    let start = Instant::now();
    while TcpStream::connect(&address).is_ok() {
        assert!(start.elapsed() < TEST_TIMEOUT);
        thread::sleep(Duration::from_millis(1));
    }
}

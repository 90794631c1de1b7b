//! TCP proxy that injects network faults: delay, blackhole, refused and closed connections.
//!
//! ```
//! use std::io::{Read, Write};
//! use std::net::{TcpListener, TcpStream};
//! use std::time::{Duration, Instant};
//!
//! use sluicegate_testkit::fault_proxy::FaultProxy;
//!
//! let server = TcpListener::bind("127.0.0.1:0")?;
//! let proxy = FaultProxy::start(server.local_addr()?.port())?;
//! proxy.delay(Duration::from_millis(20));
//! let mut client = TcpStream::connect(proxy.address())?;
//! let start = Instant::now();
//! client.write_all(b"hello")?;
//! server.accept()?.0.read_exact(&mut [0; 5])?;
//! assert!(start.elapsed() >= Duration::from_millis(20));
//! # Ok::<(), std::io::Error>(())
//! ```

mod relay;

use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Proxy in front of one loopback port. Dropping it stops it and closes all its connections.
#[derive(Debug)]
pub struct FaultProxy {
    state: Arc<ProxyState>,
    port: u16,
}

/// State shared by the proxy's threads.
#[derive(Debug)]
struct ProxyState {
    target: u16,
    mode: AtomicU8,
    delay_nanos: AtomicU64,
    /// Both ends of all connections, kept to close them.
    streams: Mutex<Vec<TcpStream>>,
}

/// Mode: bytes are forwarded.
const PASS: u8 = 0;
/// Mode: connections are accepted, but no bytes are forwarded.
const BLACKHOLE: u8 = 1;
/// Mode: new connections are closed immediately.
const REFUSE: u8 = 2;
/// Mode: the proxy has stopped.
const STOPPED: u8 = 3;

impl FaultProxy {
    /// Starts a proxy in front of `target` on 127.0.0.1. It forwards everything until a fault is set.
    pub fn start(target: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(ProxyState {
            target,
            mode: AtomicU8::new(PASS),
            delay_nanos: AtomicU64::new(0),
            streams: Mutex::default(),
        });
        let acceptor = state.clone();
        thread::spawn(move || acceptor.accept(&listener));
        Ok(Self { state, port })
    }

    /// Listening port on 127.0.0.1.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Forwards everything without delay.
    pub fn pass(&self) {
        self.delay(Duration::ZERO);
        self.state.mode.store(PASS, Ordering::SeqCst);
    }

    /// Delays all bytes sent from now on, in each direction.
    pub fn delay(&self, delay: Duration) {
        self.state.delay_nanos.store(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Drops all bytes: connections stay open and new ones are accepted, but nothing arrives. A connection
    /// that lost bytes stays silent until it is closed, even after [`pass`](Self::pass).
    pub fn blackhole(&self) {
        self.state.mode.store(BLACKHOLE, Ordering::SeqCst);
    }

    /// Refuses new connections. Existing ones continue; [`disconnect_all`](Self::disconnect_all) closes them.
    pub fn refuse(&self) {
        self.state.mode.store(REFUSE, Ordering::SeqCst);
    }

    /// Closes all existing connections.
    pub fn disconnect_all(&self) {
        self.state.disconnect_all();
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.state.mode.store(STOPPED, Ordering::SeqCst);
        self.state.disconnect_all();
        // Wakes the accepting thread so that it observes the mode.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
    }
}

impl ProxyState {
    fn accept(self: Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            match self.mode.load(Ordering::SeqCst) {
                STOPPED => return,
                REFUSE => continue,
                _ => {}
            }
            if let Ok(client) = client {
                // An unreachable target closes the client's connection, as it would without a proxy.
                drop(self.relay(client));
            }
        }
    }

    fn relay(self: &Arc<Self>, client: TcpStream) -> io::Result<()> {
        let server = TcpStream::connect((Ipv4Addr::LOCALHOST, self.target))?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).extend([client.try_clone()?, server.try_clone()?]);
        relay::start(self.clone(), client.try_clone()?, server.try_clone()?);
        relay::start(self.clone(), server, client);
        Ok(())
    }

    fn is_blackholed(&self) -> bool {
        self.mode.load(Ordering::SeqCst) == BLACKHOLE
    }

    fn delay(&self) -> Duration {
        Duration::from_nanos(self.delay_nanos.load(Ordering::SeqCst))
    }

    fn disconnect_all(&self) {
        for stream in self.streams.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // The stream may be closed already.
            drop(stream.shutdown(Shutdown::Both));
        }
    }
}

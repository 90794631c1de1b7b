//! A TCP proxy that does what networks do: delay, swallow, refuse, cut.
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
//! let begun = Instant::now();
//! client.write_all(b"hello")?;
//! server.accept()?.0.read_exact(&mut [0; 5])?;
//! assert!(begun.elapsed() >= Duration::from_millis(20));
//! # Ok::<(), std::io::Error>(())
//! ```

mod relay;

use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// A proxy in front of one port of loopback. Gone when it is dropped, with all connections through it.
#[derive(Debug)]
pub struct FaultProxy {
    state: Arc<State>,
    port: u16,
}

/// What the proxy's threads share.
#[derive(Debug)]
struct State {
    target: u16,
    mode: AtomicU8,
    delay_nanos: AtomicU64,
    /// Both ends of all connections, to cut them.
    open: Mutex<Vec<TcpStream>>,
}

/// Bytes pass.
const PASS: u8 = 0;
/// Connections are accepted, and nothing that is sent arrives.
const SWALLOW: u8 = 1;
/// Connections are closed as soon as they are made.
const REFUSE: u8 = 2;
/// The proxy is gone.
const ENDED: u8 = 3;

impl FaultProxy {
    /// Starts one in front of `target` on 127.0.0.1. All passes at first.
    pub fn start(target: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(State {
            target,
            mode: AtomicU8::new(PASS),
            delay_nanos: AtomicU64::new(0),
            open: Mutex::default(),
        });
        let accepting = state.clone();
        thread::spawn(move || accepting.accept(&listener));
        Ok(Self { state, port })
    }

    /// Where it listens, on 127.0.0.1.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Lets everything pass, at once.
    pub fn pass(&self) {
        self.delay(Duration::ZERO);
        self.state.mode.store(PASS, Ordering::SeqCst);
    }

    /// Delays what is sent from now on, each way.
    pub fn delay(&self, delay: Duration) {
        self.state.delay_nanos.store(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Swallows everything: connections stay open and new ones are accepted, but nothing arrives. A connection
    /// that lost something so stays silent until it is closed, whatever passes later.
    pub fn swallow(&self) {
        self.state.mode.store(SWALLOW, Ordering::SeqCst);
    }

    /// Refuses new connections. Those there are go on; [`cut`](Self::cut) ends them.
    pub fn refuse(&self) {
        self.state.mode.store(REFUSE, Ordering::SeqCst);
    }

    /// Cuts all connections there are.
    pub fn cut(&self) {
        self.state.cut();
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.state.mode.store(ENDED, Ordering::SeqCst);
        self.state.cut();
        // Wakes the thread that accepts, so that it sees the end.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
    }
}

impl State {
    fn accept(self: Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            match self.mode.load(Ordering::SeqCst) {
                ENDED => return,
                REFUSE => continue,
                _ => {}
            }
            if let Ok(client) = client {
                // A target that is gone ends the connection, as it would without a proxy.
                drop(self.relay(client));
            }
        }
    }

    fn relay(self: &Arc<Self>, client: TcpStream) -> io::Result<()> {
        let server = TcpStream::connect((Ipv4Addr::LOCALHOST, self.target))?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        self.open.lock().unwrap_or_else(PoisonError::into_inner).extend([client.try_clone()?, server.try_clone()?]);
        relay::start(self.clone(), client.try_clone()?, server.try_clone()?);
        relay::start(self.clone(), server, client);
        Ok(())
    }

    fn swallows(&self) -> bool {
        self.mode.load(Ordering::SeqCst) == SWALLOW
    }

    fn delay(&self) -> Duration {
        Duration::from_nanos(self.delay_nanos.load(Ordering::SeqCst))
    }

    fn cut(&self) {
        for stream in self.open.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // It may be closed already.
            drop(stream.shutdown(Shutdown::Both));
        }
    }
}

//! Scripted HTTP server.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Time and status of a response.
pub(crate) type ScriptedResponse = (Instant, u16);

/// Statistics of the server.
#[derive(Default)]
pub(crate) struct ServerStats {
    pub(crate) connections: AtomicU64,
    pub(crate) requests: AtomicU64,
    in_flight: AtomicU64,
    pub(crate) max_in_flight: AtomicU64,
    /// Head and body of the first request.
    pub(crate) first: Mutex<Option<String>>,
}

pub(crate) struct ScriptedServer {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<ServerStats>,
    _stop: oneshot::Sender<()>,
}

/// Wraps a connection in TLS, or leaves it as it is.
pub(crate) trait ConnectionWrapper: Clone + Send + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send;
    fn wrap(self, stream: tokio::net::TcpStream) -> impl Future<Output = Option<Self::Stream>> + Send;
}

#[derive(Clone)]
pub(crate) struct Plaintext;

impl ConnectionWrapper for Plaintext {
    type Stream = tokio::net::TcpStream;
    async fn wrap(self, stream: tokio::net::TcpStream) -> Option<Self::Stream> {
        Some(stream)
    }
}

impl ScriptedServer {
    /// Starts a server that calls `respond` for every request.
    pub(crate) fn start(respond: impl FnMut(Instant) -> ScriptedResponse + Send + 'static) -> Self {
        Self::start_with(Plaintext, respond)
    }

    pub(crate) fn start_with(
        wrap: impl ConnectionWrapper,
        respond: impl FnMut(Instant) -> ScriptedResponse + Send + 'static,
    ) -> Self {
        let seen = Arc::new(ServerStats::default());
        let (address, bound) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let state = (Arc::new(Mutex::new(respond)), seen.clone());
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                address.send(listener.local_addr().unwrap()).unwrap();
                let accept = async {
                    loop {
                        let (stream, _) = listener.accept().await.unwrap();
                        stream.set_nodelay(true).unwrap();
                        let ((respond, seen), wrap) = (state.clone(), wrap.clone());
                        tokio::spawn(async move {
                            if let Some(stream) = wrap.wrap(stream).await {
                                seen.connections.fetch_add(1, Ordering::Relaxed);
                                // The client may disconnect.
                                drop(serve(stream, &*respond, &seen).await);
                            }
                        });
                    }
                };
                tokio::select! { () = accept => {}, _ = stopped => {} }
            });
        });
        Self { address: bound.recv().unwrap(), seen, _stop: stop }
    }

    /// A server with a fixed parallelism and service time, and a bounded queue; with a full queue it responds 503.
    ///
    /// The queue is computed, not slept: a late timer neither frees nor takes capacity.
    pub(crate) fn with_capacity(slots: usize, service: Duration, max_queued: u32) -> Self {
        let mut free = vec![Instant::now(); slots];
        Self::start(move |now| {
            let next = free.iter_mut().min().unwrap();
            let begin = now.max(*next);
            if begin - now > service * max_queued / slots as u32 {
                return (now, 503);
            }
            *next = begin + service;
            (*next, 200)
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/api/orders?draft=1", self.address)
    }

    pub(crate) fn requests(&self) -> u64 {
        self.seen.requests.load(Ordering::Relaxed)
    }
}

/// Serves requests on one connection until the client closes it.
async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    respond: &Mutex<impl FnMut(Instant) -> ScriptedResponse>,
    seen: &ServerStats,
) -> std::io::Result<()> {
    let mut received = Vec::new();
    loop {
        let Some(request) = read_request(&mut stream, &mut received).await? else { return Ok(()) };
        seen.requests.fetch_add(1, Ordering::Relaxed);
        seen.first.lock().get_or_insert(request);
        let in_flight = seen.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        seen.max_in_flight.fetch_max(in_flight, Ordering::Relaxed);
        let (at, status) = (respond.lock())(Instant::now());
        tokio::time::sleep_until(at.into()).await;
        seen.in_flight.fetch_sub(1, Ordering::Relaxed);
        let text = format!("HTTP/1.1 {status} x\r\ncontent-length: 2\r\nlocation: http://192.0.2.1/\r\n\r\nok");
        stream.write_all(text.as_bytes()).await?;
    }
}

async fn read_request(
    stream: &mut (impl AsyncRead + Unpin),
    received: &mut Vec<u8>,
) -> std::io::Result<Option<String>> {
    loop {
        if let Some(end) = received.windows(4).position(|part| part == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&received[..end]).to_ascii_lowercase();
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
            let length = end + 4 + length.unwrap_or(0);
            if received.len() >= length {
                let request = String::from_utf8_lossy(&received[..length]).into_owned();
                received.drain(..length);
                return Ok(Some(request));
            }
        }
        if stream.read_buf(received).await? == 0 {
            return Ok(None);
        }
    }
}

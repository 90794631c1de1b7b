//! A small HTTP server that does what it is told with every request.

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

/// When a request is answered, and with which status.
pub(crate) type Answer = (Instant, u16);

/// What it has seen.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) connections: AtomicU64,
    pub(crate) requests: AtomicU64,
    under_way: AtomicU64,
    pub(crate) most_under_way: AtomicU64,
    /// The first request's head and body.
    pub(crate) first: Mutex<Option<String>>,
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Seen>,
    _stop: oneshot::Sender<()>,
}

/// Encrypts a connection, or leaves it as it is.
pub(crate) trait Wrap: Clone + Send + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send;
    fn wrap(self, stream: tokio::net::TcpStream) -> impl Future<Output = Option<Self::Stream>> + Send;
}

#[derive(Clone)]
pub(crate) struct Plain;

impl Wrap for Plain {
    type Stream = tokio::net::TcpStream;
    async fn wrap(self, stream: tokio::net::TcpStream) -> Option<Self::Stream> {
        Some(stream)
    }
}

impl Server {
    /// Asks `answer` about every request when it comes.
    pub(crate) fn start(answer: impl FnMut(Instant) -> Answer + Send + 'static) -> Self {
        Self::start_with(Plain, answer)
    }

    pub(crate) fn start_with(wrap: impl Wrap, answer: impl FnMut(Instant) -> Answer + Send + 'static) -> Self {
        let seen = Arc::new(Seen::default());
        let (address, bound) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let state = (Arc::new(Mutex::new(answer)), seen.clone());
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                address.send(listener.local_addr().unwrap()).unwrap();
                let accept = async {
                    loop {
                        let (stream, _) = listener.accept().await.unwrap();
                        stream.set_nodelay(true).unwrap();
                        let ((answer, seen), wrap) = (state.clone(), wrap.clone());
                        tokio::spawn(async move {
                            if let Some(stream) = wrap.wrap(stream).await {
                                seen.connections.fetch_add(1, Ordering::Relaxed);
                                // A client that hangs up has had enough.
                                drop(serve(stream, &*answer, &seen).await);
                            }
                        });
                    }
                };
                tokio::select! { () = accept => {}, _ = stopped => {} }
            });
        });
        Self { address: bound.recv().unwrap(), seen, _stop: stop }
    }

    /// Answers so many at a time, each after this long, the others in line; who finds so many in line is told 503.
    ///
    /// The line is kept in numbers, not by sleeping: a timer that is late makes no room, and takes none.
    pub(crate) fn with_places(places: usize, service: Duration, most_in_line: u32) -> Self {
        let mut free = vec![Instant::now(); places];
        Self::start(move |now| {
            let next = free.iter_mut().min().unwrap();
            let begin = now.max(*next);
            if begin - now > service * most_in_line / places as u32 {
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

/// One request after the other, as long as the client wants.
async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: &Mutex<impl FnMut(Instant) -> Answer>,
    seen: &Seen,
) -> std::io::Result<()> {
    let mut came = Vec::new();
    loop {
        let Some(request) = next(&mut stream, &mut came).await? else { return Ok(()) };
        seen.requests.fetch_add(1, Ordering::Relaxed);
        seen.first.lock().get_or_insert(request);
        let under_way = seen.under_way.fetch_add(1, Ordering::Relaxed) + 1;
        seen.most_under_way.fetch_max(under_way, Ordering::Relaxed);
        let (at, status) = (answer.lock())(Instant::now());
        tokio::time::sleep_until(at.into()).await;
        seen.under_way.fetch_sub(1, Ordering::Relaxed);
        let text = format!("HTTP/1.1 {status} x\r\ncontent-length: 2\r\nlocation: http://192.0.2.1/\r\n\r\nok");
        stream.write_all(text.as_bytes()).await?;
    }
}

async fn next(stream: &mut (impl AsyncRead + Unpin), came: &mut Vec<u8>) -> std::io::Result<Option<String>> {
    loop {
        if let Some(end) = came.windows(4).position(|part| part == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&came[..end]).to_ascii_lowercase();
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
            let whole = end + 4 + length.unwrap_or(0);
            if came.len() >= whole {
                let request = String::from_utf8_lossy(&came[..whole]).into_owned();
                came.drain(..whole);
                return Ok(Some(request));
            }
        }
        if stream.read_buf(came).await? == 0 {
            return Ok(None);
        }
    }
}

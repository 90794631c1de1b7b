//! Upstream servers for tests; a function produces the responses.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// A server that stops on drop.
pub struct Upstream {
    pub at: SocketAddr,
    /// Head and body of every request received.
    pub seen: Arc<Mutex<Vec<Request<Bytes>>>>,
    /// Number of connections made to it.
    pub connections: Arc<AtomicUsize>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Upstream {
    /// Responds with the result of the function, once the request body has arrived.
    pub fn new<F, A>(response: F) -> Self
    where
        F: Fn(Request<Bytes>) -> A + Send + Sync + Clone + 'static,
        A: Future<Output = Response<Bytes>> + Send,
    {
        let seen: Arc<Mutex<Vec<Request<Bytes>>>> = Arc::default();
        let connections: Arc<AtomicUsize> = Arc::default();
        let (stop, stopped) = oneshot::channel::<()>();
        let (address_sender, at) = std::sync::mpsc::channel();
        let thread = {
            let (seen, connections) = (Arc::clone(&seen), Arc::clone(&connections));
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async move {
                    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                    address_sender.send(listener.local_addr().unwrap()).unwrap();
                    tokio::select! {
                        () = serve(listener, response, seen, connections) => {}
                        _ = stopped => {}
                    }
                });
            })
        };
        Self { at: at.recv().unwrap(), seen, connections, stop: Some(stop), thread: Some(thread) }
    }

    /// Responds to everything immediately with a text.
    pub fn returning(text: &'static str) -> Self {
        Self::new(move |_| async move { Response::new(Bytes::from_static(text.as_bytes())) })
    }

    pub fn requests(&self) -> usize {
        self.seen.lock().len()
    }
}

async fn serve<F, A>(
    listener: TcpListener,
    response: F,
    seen: Arc<Mutex<Vec<Request<Bytes>>>>,
    connections: Arc<AtomicUsize>,
) where
    F: Fn(Request<Bytes>) -> A + Send + Sync + Clone + 'static,
    A: Future<Output = Response<Bytes>> + Send,
{
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        connections.fetch_add(1, Ordering::SeqCst);
        let (response, seen) = (response.clone(), Arc::clone(&seen));
        let service = service_fn(move |request: Request<Incoming>| {
            let (response, seen) = (response.clone(), Arc::clone(&seen));
            async move {
                let (head, body) = request.into_parts();
                let Ok(body) = body.collect().await else { return Ok(Response::new(Full::default())) };
                let request = Request::from_parts(head, body.to_bytes());
                seen.lock().push(request.clone());
                Ok::<_, Infallible>(response(request).await.map(Full::new))
            }
        });
        tokio::spawn(async move {
            drop(auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

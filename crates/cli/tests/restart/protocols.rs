//! Restarts under TLS and HTTP/2 load, with request bodies.

use std::fs;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::certificates::write_certificate;
use super::program::{Program, TEST_TIMEOUT, has_exited, rules, rules_with_tls, wait_until};
use super::upstream::Upstream;

/// Transport of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpTransport {
    Http1Tls,
    /// A new connection, and so a new handshake, per request.
    Http1TlsOnce,
    Http2Tls,
    Http2,
}

impl HttpTransport {
    const fn is_http2(self) -> bool {
        matches!(self, Self::Http2 | Self::Http2Tls)
    }
}

/// A client connection that follows the rules of its protocol.
enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Sender {
    async fn over(
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        transport: HttpTransport,
    ) -> hyper::Result<Self> {
        let io = TokioIo::new(io);
        if transport.is_http2() {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
            tokio::spawn(connection);
            return Ok(Self::Http2(sender));
        }
        let (sender, connection) = http1::handshake(io).await?;
        tokio::spawn(connection);
        Ok(Self::Http1(sender))
    }

    async fn connect(
        at: SocketAddr,
        transport: HttpTransport,
        trust: &Option<Arc<ClientConfig>>,
    ) -> Result<Self, String> {
        let stream = TcpStream::connect(at).await.map_err(|error| format!("not connected: {error}"))?;
        let Some(trust) = trust else {
            return Self::over(stream, transport).await.map_err(|error| format!("no handshake: {error}"));
        };
        let mut trust = ClientConfig::clone(trust);
        trust.alpn_protocols = vec![if transport.is_http2() { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
        let name = ServerName::try_from("localhost").unwrap();
        let tls = TlsConnector::from(Arc::new(trust)).connect(name, stream).await;
        Self::over(tls.map_err(|error| format!("no TLS: {error}"))?, transport)
            .await
            .map_err(|error| format!("no handshake: {error}"))
    }

    async fn is_ready(&mut self) -> bool {
        match self {
            Self::Http1(sender) => sender.ready().await.is_ok(),
            Self::Http2(sender) => sender.ready().await.is_ok(),
        }
    }

    async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>> {
        match self {
            Self::Http1(sender) => sender.try_send_request(request).await,
            Self::Http2(sender) => sender.try_send_request(request).await,
        }
    }
}

/// Clients that POST without a pause until stopped, and check the echoed body.
pub(crate) struct HyperLoad {
    stop: Arc<AtomicBool>,
    done: Vec<Arc<AtomicUsize>>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

impl HyperLoad {
    /// Starts one client per transport.
    pub(crate) fn on(program: &Program, transports: &[HttpTransport]) -> Self {
        let trust = transports
            .iter()
            .any(|transport| *transport != HttpTransport::Http2)
            .then(|| Arc::new(client_config(program)));
        let stop: Arc<AtomicBool> = Arc::default();
        let done: Vec<Arc<AtomicUsize>> = transports.iter().map(|_| Arc::default()).collect();
        let client = |(transport, done): (&HttpTransport, &Arc<AtomicUsize>)| {
            let (transport, at, trust) = (*transport, program.at, trust.clone());
            let (stop, done) = (Arc::clone(&stop), Arc::clone(done));
            thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(post_on(at, transport, trust, &stop, &done))
            })
        };
        let clients = transports.iter().zip(&done).map(client).collect();
        Self { stop, done, clients }
    }

    /// Waits for this many more requests of each client.
    pub(crate) fn wait_for_requests(&self, requests: usize) {
        let count = |done: &Arc<AtomicUsize>| done.load(Ordering::SeqCst);
        let before: Vec<usize> = self.done.iter().map(count).collect();
        wait_until("requests continue", || {
            self.done.iter().zip(&before).all(|(done, before)| count(done) >= before + requests)
        });
    }

    pub(crate) fn stop(self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::SeqCst);
        let failed = self.clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        (self.done.iter().map(|done| done.load(Ordering::SeqCst)).sum(), failed)
    }
}

fn client_config(program: &Program) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    let authority = fs::read(program.folder.join("ca.pem")).unwrap();
    roots.add(CertificateDer::from_pem_slice(&authority).unwrap()).unwrap();
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

async fn post_on(
    at: SocketAddr,
    transport: HttpTransport,
    trust: Option<Arc<ClientConfig>>,
    stop: &AtomicBool,
    done: &AtomicUsize,
) -> Vec<String> {
    let trust = trust.filter(|_| transport != HttpTransport::Http2);
    let mut failed = Vec::new();
    let mut reused: Option<Sender> = None;
    let mut number = 0_usize;
    while !stop.load(Ordering::SeqCst) {
        number += 1;
        // Some bodies are longer than one read.
        let body = Bytes::from(format!("{transport:?} {number} ").repeat(1 + (number % 7) * 1_000));
        match with_test_timeout(post(at, transport, &trust, &mut reused, &body)).await {
            Ok(echoed) if echoed == body => {}
            Ok(echoed) => {
                failed.push(format!("{transport:?} {number}: sent {} bytes, received {}", body.len(), echoed.len()));
            }
            Err(error) => failed.push(format!("{transport:?} {number}: {error}")),
        }
        done.fetch_add(1, Ordering::SeqCst);
        // Limits the load next to the other tests on a busy machine.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    failed
}

async fn with_test_timeout<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    tokio::time::timeout(TEST_TIMEOUT, work).await.unwrap_or_else(|_| Err("it hangs".to_owned()))
}

/// POSTs once; returns the response. Nothing is sent on a connection that the server is closing.
async fn post(
    at: SocketAddr,
    transport: HttpTransport,
    trust: &Option<Arc<ClientConfig>>,
    reused: &mut Option<Sender>,
    body: &Bytes,
) -> Result<Bytes, String> {
    let uri = if transport.is_http2() { "https://localhost/echo" } else { "/echo" };
    let mut request = Request::post(uri)
        .header("host", "localhost")
        .body(Full::new(body.clone()))
        .map_err(|error| error.to_string())?;
    loop {
        let mut sender = match reused.take() {
            Some(sender) => sender,
            None => Sender::connect(at, transport, trust).await?,
        };
        if !sender.is_ready().await {
            // The server announced the end of this connection.
            continue;
        }
        let response = match sender.send(request).await {
            Ok(response) => response,
            Err(mut error) => match error.take_message() {
                // The request was returned unsent.
                Some(unsent) => {
                    request = unsent;
                    continue;
                }
                None => return Err(format!("no response: {}", error.into_error())),
            },
        };
        let status = response.status();
        let echoed = response.into_body().collect().await.map_err(|error| format!("aborted: {error}"))?.to_bytes();
        if transport != HttpTransport::Http1TlsOnce {
            *reused = Some(sender);
        }
        return if status == 200 { Ok(echoed) } else { Err(format!("{status}: {echoed:?}")) };
    }
}

#[test]
fn no_upload_is_lost_by_restarts_under_load_with_tls() {
    let upstream = Upstream::start();
    let tls = rules_with_tls(&upstream, "");
    let mut program = Program::start("tls-restarts", &tls, |folder| write_certificate(folder, "one"));
    let load = HyperLoad::on(
        &program,
        &[HttpTransport::Http1Tls, HttpTransport::Http1TlsOnce, HttpTransport::Http2Tls, HttpTransport::Http2Tls],
    );
    load.wait_for_requests(30);
    for _ in 0..3 {
        program.restart();
        load.wait_for_requests(30);
    }
    let (done, failed) = load.stop();
    assert!(failed.is_empty(), "of {done}: {failed:?}\n{}", program.log());
    program.signal("TERM");
    wait_until("it ends", || has_exited(program.now));
}

#[test]
fn no_upload_is_lost_by_restarts_under_load_of_http2() {
    let upstream = Upstream::start();
    let mut program = Program::start("h2-restarts", &rules(&upstream, ""), |_| {});
    let load = HyperLoad::on(&program, &[HttpTransport::Http2; 4]);
    load.wait_for_requests(30);
    for _ in 0..3 {
        program.restart();
        load.wait_for_requests(30);
    }
    let (done, failed) = load.stop();
    assert!(failed.is_empty(), "of {done}: {failed:?}\n{}", program.log());
    program.signal("TERM");
    wait_until("it ends", || has_exited(program.now));
}

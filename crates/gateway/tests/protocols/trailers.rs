//! Trailers, in which gRPC reports the status of a call.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, Version};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};

use super::support::raw::Client;
use super::support::{TestGateway, proxy_yaml};

/// Data, followed by a trailer.
struct WithTrailer(Vec<Frame<Bytes>>);

impl WithTrailer {
    fn new(data: &[&'static str], name: &'static str, value: &str) -> Self {
        let mut frames: Vec<_> = data.iter().map(|it| Frame::data(Bytes::from_static(it.as_bytes()))).collect();
        let mut trailers = HeaderMap::new();
        trailers.insert(name, value.parse().unwrap());
        frames.push(Frame::trailers(trailers));
        frames.reverse();
        Self(frames)
    }
}

impl Body for WithTrailer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop().map(Ok))
    }
}

/// A server that echoes the body, and returns the received trailer in its own.
async fn echo(request: Request<Incoming>) -> Result<Response<WithTrailer>, hyper::Error> {
    let (head, body) = request.into_parts();
    let collected = body.collect().await?;
    let sent = collected.trailers().and_then(|it| it.get("x-sum")).map_or("none", |it| it.to_str().unwrap()).to_owned();
    assert_eq!(collected.to_bytes(), "hello");
    let mut response = Response::new(WithTrailer::new(&["hel", "lo"], "grpc-status", &sent));
    if head.version == Version::HTTP_11 {
        response.headers_mut().insert("trailer", "grpc-status".parse().unwrap());
    } else {
        assert_eq!(
            (&head.headers["te"], head.uri.authority().unwrap().as_str()),
            (&"trailers".parse().unwrap(), "shop")
        );
    }
    Ok(response)
}

async fn serve(listener: TcpListener) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            drop(server.serve_connection(TokioIo::new(stream), service_fn(echo)).await);
        });
    }
}

fn request(version: Version) -> Request<WithTrailer> {
    let mut request = Request::new(WithTrailer::new(&["he", "llo"], "x-sum", "5"));
    *request.method_mut() = http::Method::POST;
    *request.version_mut() = version;
    *request.uri_mut() = if version == Version::HTTP_2 { "http://shop/call" } else { "/call" }.parse().unwrap();
    request.headers_mut().insert("te", "trailers".parse().unwrap());
    if version == Version::HTTP_11 {
        request.headers_mut().insert("host", "shop".parse().unwrap());
        request.headers_mut().insert("trailer", "x-sum".parse().unwrap());
    }
    request
}

async fn send_request(at: SocketAddr, version: Version) -> Response<Incoming> {
    let stream = TokioIo::new(TcpStream::connect(at).await.unwrap());
    if version == Version::HTTP_2 {
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        return sender.send_request(request(version)).await.unwrap();
    }
    let (mut sender, connection) = http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    sender.send_request(request(version)).await.unwrap()
}

#[test]
fn trailers_pass_in_both_directions() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let upstream = listener.local_addr().unwrap();
    runtime.spawn(serve(listener));
    for protocol in ["http1", "http2"] {
        let yaml = proxy_yaml(&[upstream], "").replace("servers:", &format!("protocol: {protocol}, servers:"));
        let gateway = TestGateway::from_yaml(&yaml);
        for version in [Version::HTTP_11, Version::HTTP_2] {
            let (status, body) = runtime.block_on(async {
                let response = send_request(gateway.at, version).await;
                (response.status(), response.into_body().collect().await.unwrap())
            });
            assert_eq!(status, 200);
            let trailers = body.trailers().cloned().unwrap_or_default();
            let name = format!("{version:?} before {protocol}");
            // Only announced trailers are sent to an HTTP/1 server.
            let sum = if version == Version::HTTP_2 && protocol == "http1" { "none" } else { "5" };
            // An HTTP/2 server announces none, and an HTTP/1 client is sent none.
            let has_trailers = version == Version::HTTP_2 || protocol == "http1";
            assert_eq!(body.to_bytes(), "hello", "{name}");
            assert_eq!(
                trailers.get("grpc-status").map(|it| it.to_str().unwrap()),
                has_trailers.then_some(sum),
                "{name}"
            );
        }
        runtime.block_on(async { tokio::task::yield_now().await });
    }
}

#[test]
fn an_http1_client_can_use_an_http2_upstream() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let upstream = listener.local_addr().unwrap();
    runtime.spawn(serve(listener));
    let gateway = TestGateway::from_yaml(&proxy_yaml(&[upstream], "").replace("servers:", "protocol: http2, servers:"));
    let mut client = Client::connect(gateway.at);
    for _ in 0..3 {
        client.send(
            "POST /call HTTP/1.1\r\nHost: shop\r\nTE: trailers\r\nConnection: TE\r\nContent-Length: 5\r\n\r\nhello",
        );
        let response = client.read_response().unwrap();
        assert_eq!((response.status, response.text().as_str()), (200, "hello"));
    }
}

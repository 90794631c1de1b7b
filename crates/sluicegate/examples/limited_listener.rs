//! A limited listener: two connections are served, one is queued, the next is rejected with 503.
//!
//! `cargo run -p sluicegate --features listener --example limited_listener`
#![allow(clippy::print_stdout, reason = "examples print their results")]

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use sluicegate::listener::LimitedListener;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = LimitedListener::builder()
        .max_connections(2)
        .queue(1)
        .in_flight(1)
        .header_timeout(Duration::from_secs(5))
        .bind("127.0.0.1:0")
        .await?;
    let (address, handle) = (listener.local_addr()?, listener.handle());

    let hello = |ConnectInfo(client): ConnectInfo<SocketAddr>| async move { format!("hello, {}\n", client.ip()) };
    let app = Router::new().route("/", get(hello));
    let (stop, stopped) = oneshot::channel::<()>();
    let server = listener.serve(app).with_graceful_shutdown(async { drop(stopped.await) });
    let server = tokio::spawn(server.into_future());

    // Two connections are served and stay open. The third waits in the queue.
    let mut first = TcpStream::connect(address).await?;
    println!("first: {}", send_request(&mut first).await?);
    let mut second = TcpStream::connect(address).await?;
    println!("second: {}", send_request(&mut second).await?);
    let mut third = TcpStream::connect(address).await?;
    while handle.counts().queued < 1 {
        tokio::task::yield_now().await;
    }

    // The fourth connection is rejected.
    let mut fourth = TcpStream::connect(address).await?;
    let mut response = String::new();
    fourth.read_to_string(&mut response).await?;
    println!("fourth: {}", response.lines().next().unwrap_or_default());
    assert!(response.starts_with("HTTP/1.1 503 "));

    // A closed connection makes room for the queued one.
    drop(first);
    println!("third: {}", send_request(&mut third).await?);

    drop((second, third, fourth));
    drop(stop);
    let report = server.await?;
    let counts = handle.counts();
    println!("{} served, {} rejected, {} aborted", counts.admitted, counts.rejected.total(), report.aborted);
    assert_eq!((counts.admitted, counts.rejected.full, counts.open), (3, 1, 0));
    Ok(())
}

/// Sends a request and returns the first line of the response.
async fn send_request(connection: &mut TcpStream) -> Result<String, Box<dyn Error>> {
    connection.write_all(b"GET / HTTP/1.1\r\nhost: example\r\n\r\n").await?;
    let mut response = vec![0; 1_024];
    let length = connection.read(&mut response).await?;
    let response = String::from_utf8_lossy(&response[..length]);
    Ok(response.lines().next().unwrap_or_default().to_owned())
}

#[test]
fn runs() -> Result<(), Box<dyn Error>> {
    main()
}

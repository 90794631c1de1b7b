//! A server with a front door: two connections are served, one waits, the next is told to come again.
//!
//! `cargo run -p sluicegate --features door --example front_door`
#![allow(clippy::print_stdout, reason = "an example is there to be watched")]

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use sluicegate::door::FrontDoor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let door = FrontDoor::builder()
        .max_connections(2)
        .queue(1)
        .in_flight(1)
        .header_deadline(Duration::from_secs(5))
        .bind("127.0.0.1:0")
        .await?;
    let (address, handle) = (door.local_addr()?, door.handle());

    let hello = |ConnectInfo(client): ConnectInfo<SocketAddr>| async move { format!("hello, {}\n", client.ip()) };
    let app = Router::new().route("/", get(hello));
    let (stop, stopped) = oneshot::channel::<()>();
    let server = door.serve(app).with_graceful_shutdown(async { drop(stopped.await) });
    let server = tokio::spawn(server.into_future());

    // Two are served, and stay. The third waits for one of them.
    let mut first = TcpStream::connect(address).await?;
    println!("first: {}", ask(&mut first).await?);
    let mut second = TcpStream::connect(address).await?;
    println!("second: {}", ask(&mut second).await?);
    let mut third = TcpStream::connect(address).await?;
    while handle.counts().queued < 1 {
        tokio::task::yield_now().await;
    }

    // There is no place for a fourth.
    let mut fourth = TcpStream::connect(address).await?;
    let mut told = String::new();
    fourth.read_to_string(&mut told).await?;
    println!("fourth: {}", told.lines().next().unwrap_or_default());
    assert!(told.starts_with("HTTP/1.1 503 "));

    // Whoever leaves makes room.
    drop(first);
    println!("third: {}", ask(&mut third).await?);

    drop((second, third, fourth));
    drop(stop);
    let report = server.await?;
    let counts = handle.counts();
    println!("{} served, {} refused, {} cut off", counts.entered, counts.refused.total(), report.aborted);
    assert_eq!((counts.entered, counts.refused.full, counts.open), (3, 1, 0));
    Ok(())
}

/// Asks once, and answers the first line of what comes back.
async fn ask(connection: &mut TcpStream) -> Result<String, Box<dyn Error>> {
    connection.write_all(b"GET / HTTP/1.1\r\nhost: door\r\n\r\n").await?;
    let mut answer = vec![0; 1_024];
    let length = connection.read(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer[..length]);
    Ok(answer.lines().next().unwrap_or_default().to_owned())
}

#[test]
fn runs() -> Result<(), Box<dyn Error>> {
    main()
}

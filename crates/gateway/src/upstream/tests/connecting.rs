//! Tests of plain TCP connections: established, refused, and never answered.

use std::net::SocketAddr;
use std::time::Duration;

use sluicegate_config::settings::{self, UpstreamTimeouts};
use sluicegate_engine::clock::{Clock, ClockHandle, ManualClock};
use sluicegate_net::MaybeTlsStream;
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::super::connect::ServerConnector;
use super::super::error::ConnectError;
use super::super::{Server, address::ServerAddress};
use super::{plain, upstream, wait_until, with_timeout};

const SECOND: Duration = Duration::from_secs(1);

fn server(url: String, clock: impl Into<ClockHandle>) -> std::sync::Arc<Server> {
    let timeouts = UpstreamTimeouts { connect: 2 * SECOND, ..UpstreamTimeouts::default() };
    std::sync::Arc::clone(&upstream(settings::Upstream { timeouts, ..plain([url]) }, clock).servers()[0])
}

/// An address without a listener.
async fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// An address that neither accepts nor refuses connections while this value lives.
struct BlackHole {
    address: SocketAddr,
    _listener: Socket,
    _waiting: Vec<Socket>,
}

impl BlackHole {
    fn open() -> Self {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let connect = |_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            // Connecting is in progress.
            drop(socket.connect(&address));
            socket
        };
        let waiting = (0..8).map(connect).collect();
        Self { address: address.as_socket().unwrap(), _listener: listener, _waiting: waiting }
    }
}

#[tokio::test]
async fn connects_by_address_and_by_name() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for host in ["127.0.0.1", "localhost"] {
        let server = server(format!("http://{host}:{port}/base/"), ClockHandle::system());
        assert_eq!(server.host().to_str().unwrap(), format!("{host}:{port}"));
        assert_eq!((server.base_path(), server.is_tls()), ("/base", false));
        let mut stream = with_timeout(server.connect()).await.unwrap();
        let (mut accepted, _) = with_timeout(listener.accept()).await.unwrap();
        let MaybeTlsStream::Plain(plain) = &stream else { panic!("the connection is not encrypted") };
        assert!(plain.nodelay().unwrap());
        stream.write_all(b"hello").await.unwrap();
        let mut read = [0; 5];
        with_timeout(accepted.read_exact(&mut read)).await.unwrap();
        assert_eq!(&read, b"hello");
    }
}

#[tokio::test]
async fn a_refused_connection_is_reported() {
    let address = closed_port().await;
    let error = with_timeout(server(format!("http://{address}"), ClockHandle::system()).connect()).await.unwrap_err();
    assert!(!error.is_timeout());
    let message = error.to_string();
    assert!(message.starts_with(&format!("cannot connect to {address}: Connection refused")), "{message}");
}

#[tokio::test]
async fn an_unknown_name_is_reported() {
    let error =
        with_timeout(server("http://nobody.invalid".to_owned(), ClockHandle::system()).connect()).await.unwrap_err();
    // Without a name server this may time out instead.
    let message = error.to_string();
    assert!(error.is_timeout() || message.starts_with("cannot resolve nobody.invalid: "), "{message}");
}

#[tokio::test]
async fn connecting_to_a_black_hole_times_out() {
    let clock = ManualClock::new();
    let black_hole = BlackHole::open();
    let server = server(format!("http://{}", black_hole.address), clock.clone());
    let connecting = tokio::spawn(async move { server.connect().await });
    wait_until(|| clock.pending_timers() > 0).await;
    clock.advance(2 * SECOND - Duration::from_nanos(1));
    tokio::task::yield_now().await;
    assert!(!connecting.is_finished());
    clock.advance(Duration::from_nanos(1));
    let error = with_timeout(connecting).await.unwrap().unwrap_err();
    assert!(error.is_timeout());
    assert_eq!(error.to_string(), format!("no connection to {} within 2000 ms", black_hole.address));
    assert_eq!(clock.pending_timers(), 0);
}

#[tokio::test]
async fn every_address_is_tried_and_a_silent_one_does_not_use_up_the_timeout() {
    let clock = ManualClock::new();
    let (black_hole, refusing) = (BlackHole::open(), closed_port().await);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let valid = listener.local_addr().unwrap();
    let (task_clock, addresses) = (clock.clone(), [refusing, black_hole.address, valid]);
    let connecting = tokio::spawn(async move { connect_any(&task_clock, &addresses).await });
    wait_until(|| clock.pending_timers() > 0).await;
    // The refused address took no time; the silent one gets half of the remaining time.
    clock.advance(SECOND);
    let stream = with_timeout(connecting).await.unwrap().unwrap();
    assert_eq!(stream.peer_addr().unwrap(), valid);

    let error = with_timeout(connect_any(&clock, &[refusing, refusing])).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { address, .. } if address == refusing));
    let error = with_timeout(connect_any(&clock, &[])).await.unwrap_err();
    assert_eq!(error.to_string(), "shop resolves to no address");
}

async fn connect_any(clock: &ManualClock, addresses: &[SocketAddr]) -> Result<TcpStream, ConnectError> {
    let connector = ServerConnector {
        tls: None,
        protocol: settings::UpstreamProtocol::Http1,
        timeout: 2 * SECOND,
        clock: clock.clone().into(),
    };
    let shop = ServerAddress::parse("http://shop").unwrap();
    connector.connect_any(&shop, addresses, clock.now() + 2 * SECOND).await
}

#[tokio::test]
async fn connection_permits_are_bounded() {
    let upstream = upstream(
        settings::Upstream { max_connections: Some(2), ..plain(["http://127.0.0.1:1", "http://127.0.0.1:2"]) },
        ClockHandle::system(),
    );
    let [server, other] = upstream.servers() else { panic!("there are two") };
    let (first, _second) = (server.try_permit().unwrap(), server.acquire_permit().await);
    assert!(server.try_permit().is_none());
    assert!(other.try_permit().is_some(), "each server has its own");
    let waiting = tokio::spawn({
        let server = std::sync::Arc::clone(server);
        async move { server.acquire_permit().await }
    });
    with_timeout(async {
        while !first.is_wanted() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(!waiting.is_finished());
    drop(first);
    let third = with_timeout(waiting).await.unwrap();
    assert!(server.try_permit().is_none() && !third.is_wanted());
}

//! Connections in the clear: made, refused, and never answered.

use std::net::SocketAddr;
use std::time::Duration;

use sluicegate_config::settings::{self, UpstreamTimeouts};
use sluicegate_engine::clock::{Clock, ClockHandle, ManualClock};
use sluicegate_listen::Stream;
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::super::connect::Connector;
use super::super::error::ConnectError;
use super::super::{Server, address::Address};
use super::{in_time, plain, until, upstream};

const SECOND: Duration = Duration::from_secs(1);

fn server(url: String, clock: impl Into<ClockHandle>) -> std::sync::Arc<Server> {
    let timeouts = UpstreamTimeouts { connect: 2 * SECOND, ..UpstreamTimeouts::default() };
    std::sync::Arc::clone(&upstream(settings::Upstream { timeouts, ..plain([url]) }, clock).servers()[0])
}

/// An address where nobody listens.
async fn deserted() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// An address that takes no more connections and refuses none, as long as this is kept.
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
            // Under way.
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
        let mut stream = in_time(server.connect()).await.unwrap();
        let (mut accepted, _) = in_time(listener.accept()).await.unwrap();
        let Stream::Plain(plain) = &stream else { panic!("it is in the clear") };
        assert!(plain.nodelay().unwrap());
        stream.write_all(b"hello").await.unwrap();
        let mut read = [0; 5];
        in_time(accepted.read_exact(&mut read)).await.unwrap();
        assert_eq!(&read, b"hello");
    }
}

#[tokio::test]
async fn a_refused_connection_is_said_to_be_refused() {
    let address = deserted().await;
    let error = in_time(server(format!("http://{address}"), ClockHandle::system()).connect()).await.unwrap_err();
    assert!(!error.is_timeout());
    let said = error.to_string();
    assert!(said.starts_with(&format!("cannot connect to {address}: Connection refused")), "{said}");
}

#[tokio::test]
async fn an_unknown_name_is_said_to_be_unknown() {
    let error = in_time(server("http://nobody.invalid".to_owned(), ClockHandle::system()).connect()).await.unwrap_err();
    // Without any name server it may be a matter of time instead.
    let said = error.to_string();
    assert!(error.is_timeout() || said.starts_with("the name nobody.invalid cannot be looked up: "), "{said}");
}

#[tokio::test]
async fn a_black_hole_is_left_when_the_time_is_up() {
    let clock = ManualClock::new();
    let hole = BlackHole::open();
    let server = server(format!("http://{}", hole.address), clock.clone());
    let connecting = tokio::spawn(async move { server.connect().await });
    until(|| clock.alarms() > 0).await;
    clock.advance(2 * SECOND - Duration::from_nanos(1));
    tokio::task::yield_now().await;
    assert!(!connecting.is_finished());
    clock.advance(Duration::from_nanos(1));
    let error = in_time(connecting).await.unwrap().unwrap_err();
    assert!(error.is_timeout());
    assert_eq!(error.to_string(), format!("no connection to {} within 2000 ms", hole.address));
    assert_eq!(clock.alarms(), 0);
}

#[tokio::test]
async fn every_address_is_tried_and_a_silent_one_leaves_time_for_the_others() {
    let clock = ManualClock::new();
    let (hole, refusing) = (BlackHole::open(), deserted().await);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let good = listener.local_addr().unwrap();
    let (task_clock, addresses) = (clock.clone(), [refusing, hole.address, good]);
    let reaching = tokio::spawn(async move { reach(&task_clock, &addresses).await });
    until(|| clock.alarms() > 0).await;
    // The refused one took no time; the silent one has half of what is left.
    clock.advance(SECOND);
    let stream = in_time(reaching).await.unwrap().unwrap();
    assert_eq!(stream.peer_addr().unwrap(), good);

    let error = in_time(reach(&clock, &[refusing, refusing])).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { address, .. } if address == refusing));
    let error = in_time(reach(&clock, &[])).await.unwrap_err();
    assert_eq!(error.to_string(), "the name shop has no address");
}

async fn reach(clock: &ManualClock, addresses: &[SocketAddr]) -> Result<TcpStream, ConnectError> {
    let connector = Connector {
        tls: None,
        protocol: settings::UpstreamProtocol::Http1,
        timeout: 2 * SECOND,
        clock: clock.clone().into(),
    };
    let shop = Address::parse("http://shop").unwrap();
    connector.reach(&shop, addresses, clock.now() + 2 * SECOND).await
}

#[tokio::test]
async fn room_is_bounded_over_all_who_connect() {
    let upstream = upstream(
        settings::Upstream { connections: Some(2), ..plain(["http://127.0.0.1:1", "http://127.0.0.1:2"]) },
        ClockHandle::system(),
    );
    let [server, other] = upstream.servers() else { panic!("there are two") };
    let (first, _second) = (server.room().unwrap(), server.wait_for_room().await);
    assert!(server.room().is_none());
    assert!(other.room().is_some(), "each server has its own");
    let waiting = tokio::spawn({
        let server = std::sync::Arc::clone(server);
        async move { server.wait_for_room().await }
    });
    in_time(async {
        while !first.is_wanted() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(!waiting.is_finished());
    drop(first);
    let third = in_time(waiting).await.unwrap();
    assert!(server.room().is_none() && !third.is_wanted());
}

//! Tests of listening sockets and of accepted connections.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::env;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::process::{Inherited, open_sockets};
use crate::tls::test_certs::TestCerts;

/// Guards against hanging tests.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

fn any_port() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

pub(super) fn open(
    addresses: &[SocketAddr],
    threads: usize,
    mut inherited: Inherited,
) -> Result<Vec<Vec<TcpListener>>, ListenError> {
    let opened = open_sockets(addresses, NonZeroUsize::new(threads).unwrap(), 128, &mut inherited)?;
    let tcp = |socket| match socket {
        Socket::Tcp(socket) => socket,
        Socket::Unix(_) => panic!("of the network"),
    };
    Ok(opened.into_iter().map(|sockets| sockets.into_iter().map(tcp).collect()).collect())
}

fn open_at(address: SocketAddr, threads: usize) -> Result<Vec<TcpListener>, ListenError> {
    open(&[address], threads, Inherited::none()).map(|mut all| all.remove(0))
}

/// Opens and closes an address that is about to become free. Another test that spawns a process holds copies of
/// all sockets until the exec.
fn open_when_free(address: SocketAddr) {
    let start = Instant::now();
    while let Err(error) = open_at(address, 2) {
        assert!(start.elapsed() < TEST_TIMEOUT, "{error}");
        std::thread::yield_now();
    }
}

/// Accepts the queued connections; returns the index of the socket that each arrived at.
fn accept_queued(sockets: &[TcpListener]) -> Vec<usize> {
    let accepted_clients = |(index, socket): (usize, &TcpListener)| {
        let mut count = 0;
        loop {
            match socket.accept() {
                Ok(_) => count += 1,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        vec![index; count]
    };
    sockets.iter().enumerate().flat_map(accepted_clients).collect()
}

#[test]
fn each_thread_has_a_socket_at_the_same_port() {
    let sockets = open_at(any_port(), 4).unwrap();
    assert_eq!(sockets.len(), 4);
    let address = sockets[0].local_addr().unwrap();
    assert!(sockets.iter().all(|socket| socket.local_addr().unwrap() == address));

    let clients: Vec<_> = (0..64).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut accepted_clients = accept_queued(&sockets);
    assert_eq!(accepted_clients.len(), clients.len());
    accepted_clients.dedup();
    assert!(accepted_clients.len() > 1, "the kernel distributes clients over the sockets");
}

#[test]
fn connections_have_nodelay_set() {
    let sockets = open_at(any_port(), 1).unwrap();
    let _client = TcpStream::connect(sockets[0].local_addr().unwrap()).unwrap();
    assert!(SockRef::from(&sockets[0].accept().unwrap().0).tcp_nodelay().unwrap());
}

#[test]
fn an_address_in_use_is_refused_even_if_shareable() {
    let server_io = open_at("127.0.0.3:0".parse().unwrap(), 2).unwrap();
    let address = server_io[0].local_addr().unwrap();
    let error = open_at(address, 2).unwrap_err();
    assert!(matches!(error, ListenError::AddressInUse { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        format!("cannot listen at {address}: address already in use; stop the other program, or choose another port"),
    );
    drop(server_io);
    open_when_free(address);
}

#[test]
fn a_port_is_free_although_old_connections_linger() {
    let sockets = open_at("127.0.0.4:0".parse().unwrap(), 2).unwrap();
    let address = sockets[0].local_addr().unwrap();
    let _client = TcpStream::connect(address).unwrap();
    let server = sockets.iter().find_map(|socket| socket.accept().ok()).unwrap();
    drop(sockets);
    // With a draining connection of an earlier process, and with a half-closed one.
    open_when_free(address);
    drop(server);
    open_when_free(address);
}

#[test]
fn overlapping_addresses_use_the_most_specific_socket() {
    if TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    let attempt = |_| {
        let port = open_at("[::]:0".parse().unwrap(), 1).unwrap()[0].local_addr().unwrap().port();
        let addresses = ["[::]", "0.0.0.0", "127.0.0.5"].map(|ip| format!("{ip}:{port}").parse().unwrap());
        // Another test may have been given the port meanwhile.
        let opened = open(&addresses, 2, Inherited::none()).ok()?;
        Some((port, opened))
    };
    let (port, opened) = (0..1_000).find_map(attempt).unwrap();
    for (at, ip) in ["[::1]", "127.0.0.1", "127.0.0.5"].iter().enumerate() {
        let _client = TcpStream::connect(format!("{ip}:{port}")).unwrap();
        let accepted_clients: Vec<_> = opened.iter().map(|sockets| accept_queued(sockets).len()).collect();
        assert_eq!(accepted_clients.iter().position(|count| *count == 1), Some(at), "{ip}: {accepted_clients:?}");
    }
}

#[test]
fn a_duplicate_address_is_refused() {
    let addresses =
        ["127.0.0.1:0", "127.0.0.1:9", "127.0.0.1:0", "127.0.0.1:9"].map(|address| address.parse().unwrap());
    let error = open(&addresses, 1, Inherited::none()).unwrap_err().to_string();
    assert!(error.starts_with("127.0.0.1:9 is listed more than once"), "{error}");
}

#[test]
fn an_address_of_another_machine_is_refused() {
    let error = open_at("192.0.2.1:8080".parse().unwrap(), 1).unwrap_err();
    assert!(matches!(error, ListenError::NotHere { .. }));
    assert!(error.to_string().contains("0.0.0.0:8080 listens on all of them"), "{error}");
}

/// With the mode left by the umask, only the process's own user could connect.
#[test]
fn unix_socket_access_is_decided_by_its_directory() {
    let folder = PrivateDir::new("modes").unwrap();
    let path = folder.path().join("s.sock");
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
    let mut process = Process::standalone();
    let sockets = process.listen_unix(&path, NonZeroUsize::MIN).unwrap();
    assert_eq!(mode(), 0o666);
    // Also if the path was left by a dead process, with another mode.
    drop((sockets, process));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let start = Instant::now();
    let mut process = Process::standalone();
    // Another test that spawns a process holds a copy of the socket for a moment.
    while let Err(error) = process.listen_unix(&path, NonZeroUsize::MIN) {
        assert!(start.elapsed() < TEST_TIMEOUT, "{error}");
        std::thread::yield_now();
    }
    assert_eq!(mode(), 0o666);
}

/// The child process of the tests below: prints the sockets it would listen at, and accepts one connection from
/// each.
#[test]
#[ignore = "runs in a child process of other tests"]
fn child() {
    let Ok(wanted) = env::var("TEST_LISTEN") else { return };
    let threads: NonZeroUsize = env::var("TEST_THREADS").unwrap().parse().unwrap();
    let wanted: Vec<SocketAddr> = wanted.split(',').map(|address| address.parse().unwrap()).collect();
    let opened = Inherited::from_env().map_err(|error| error.to_string()).and_then(|inherited| {
        assert!(env::var_os("LISTEN_FDS").is_none(), "a claimed socket is not passed on");
        open(&wanted, threads.get(), inherited).map_err(|error| error.to_string())
    });
    match opened {
        Err(error) => println!("<{error}>"),
        Ok(all) => all.iter().for_each(|sockets| {
            let address = sockets[0].local_addr().unwrap();
            assert!(sockets.iter().all(|socket| socket.local_addr().unwrap() == address));
            println!("<{address} {} {}>", sockets.len(), accept_queued(sockets).len());
        }),
    }
}

/// Output of a child that inherits these sockets and wants to listen at those addresses.
fn run_child(passed: &[&TcpListener], wanted: &[SocketAddr], threads: usize, env: &[(&str, &str)]) -> Vec<String> {
    use command_fds::{CommandFdExt, FdMapping};

    let wanted: Vec<_> = wanted.iter().map(SocketAddr::to_string).collect();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", "tests::child"]);
    command.env("TEST_LISTEN", wanted.join(",")).env("TEST_THREADS", threads.to_string());
    command.env("LISTEN_FDS", passed.len().to_string()).envs(env.iter().copied());
    let mapping = |(child_fd, socket): (i32, &&TcpListener)| FdMapping {
        parent_fd: socket.try_clone().unwrap().into(),
        child_fd,
    };
    command.fd_mappings((3..).zip(passed).map(mapping).collect()).unwrap();
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = text.split('<').skip(1).map(|rest| rest.split_once('>').unwrap().0.to_owned()).collect();
    assert!(!lines.is_empty(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    lines
}

#[test]
fn every_inherited_socket_is_used() {
    let sockets = open_at(any_port(), 3).unwrap();
    let passed: Vec<_> = sockets.iter().collect();
    let address = sockets[0].local_addr().unwrap();
    let run = |threads| {
        let clients: Vec<_> = (0..32).map(|_| TcpStream::connect(address).unwrap()).collect();
        let lines = run_child(&passed, &[address], threads, &[]);
        assert_eq!(accept_queued(&sockets).len(), 0, "every client is accepted");
        drop(clients);
        lines
    };
    assert_eq!(run(3), [format!("{address} 3 32")]);
    assert_eq!(run(1), [format!("{address} 3 32")], "more than threads");
    assert_eq!(run(5), [format!("{address} 5 32")], "fewer than threads");
}

#[test]
fn inherited_sockets_go_to_the_best_matching_address() {
    let (one, two) = (open_at(any_port(), 2).unwrap(), open_at(any_port(), 1).unwrap());
    let (first, second) = (one[0].local_addr().unwrap(), two[0].local_addr().unwrap());
    let passed = [&one[0], &two[0], &one[1]];
    let lines = run_child(&passed, &[any_port(), first], 1, &[]);
    assert_eq!(lines, [format!("{second} 1 0"), format!("{first} 2 0")], "a wildcard port is assigned last");
    let lines = run_child(&passed, &[second], 1, &[]);
    assert_eq!(lines, [format!("{second} 1 0")], "unclaimed sockets are closed");
    let lines = run_child(&passed, &["127.0.0.2:0".parse().unwrap()], 2, &[]);
    assert!(lines[0].starts_with("127.0.0.2:") && lines[0].ends_with(" 2 0"), "{lines:?}: none at this address");
}

#[test]
fn a_dual_stack_socket_covers_ipv4() {
    let Ok(both) = TcpListener::bind("[::]:0") else { return };
    let port = both.local_addr().unwrap().port();
    let lines = run_child(&[&both], &[(Ipv4Addr::UNSPECIFIED, port).into()], 1, &[]);
    assert_eq!(lines, [format!("[::]:{port} 1 0")]);
    let lines = run_child(&[&both], &[(Ipv4Addr::LOCALHOST, port).into()], 1, &[]);
    assert!(lines[0].contains("address already in use") || lines[0].starts_with("127.0.0.1:"), "{lines:?}");
}

#[test]
fn invalid_inherited_sockets_are_reported() {
    let socket = open_at(any_port(), 1).unwrap().remove(0);
    let run = |env: &[(&str, &str)]| run_child(&[&socket], &[any_port()], 1, env).remove(0);
    assert!(run(&[("LISTEN_FDS", "many")]).starts_with("LISTEN_FDS is 'many': it must be the number"));
    assert!(run(&[("LISTEN_FDS", "99999999")]).starts_with("LISTEN_FDS is '99999999'"));
    assert!(run(&[("LISTEN_FDS", "-1")]).starts_with("LISTEN_FDS is '-1'"));
    let address = socket.local_addr().unwrap().to_string();
    assert!(!run(&[("LISTEN_PID", "1")]).starts_with(&address), "for another process");

    let connected = TcpStream::connect(socket.local_addr().unwrap()).unwrap();
    let connected = TcpListener::from(std::os::fd::OwnedFd::from(connected));
    let lines = run_child(&[&socket, &connected], &[any_port()], 1, &[]).remove(0);
    assert!(lines.starts_with("file descriptor 4 in LISTEN_FDS is not a listening socket"), "{lines}");
}

fn peer(address: &str) -> SocketAddr {
    address.parse().unwrap()
}

#[tokio::test]
async fn a_plain_acceptor_accepts_immediately() {
    let acceptor = Acceptor::new(any_port(), None).unwrap();
    assert!(acceptor.is_plain());
    let assert_send = |acceptor: &Acceptor, io: tokio::net::TcpStream| {
        fn is_send(_: impl Send) {}
        is_send(acceptor.accept(io, any_port()));
    };
    let _ = assert_send;
    let (server_io, _client_io) = tokio::io::duplex(64);
    let accepted = acceptor.accept(server_io, peer("[::ffff:192.0.2.1]:5")).await.unwrap();
    assert_eq!((accepted.client, accepted.http2), (peer("192.0.2.1:5"), None));
    assert!(matches!(accepted.stream, MaybeTlsStream::Plain(_)));
    assert_eq!(acceptor.reload().await.unwrap(), CertReload::Unchanged);
}

#[tokio::test]
async fn proxy_headers_are_accepted_from_trusted_proxies_only() {
    let is_trusted = |peer| matches!(peer, IpAddr::V4(peer) if peer.octets()[0] == 10);
    let acceptor = Acceptor::plain().with_proxy_protocol(is_trusted);
    assert!(!acceptor.is_plain());
    let accept_from = async |from: &str, bytes: &[u8]| {
        let (server_io, mut client_io) = tokio::io::duplex(256);
        client_io.write_all(bytes).await.unwrap();
        client_io.shutdown().await.unwrap();
        let accepted = acceptor.accept(server_io, peer(from)).await;
        match accepted {
            Err(error) => Err(error.to_string()),
            Ok(mut accepted) => {
                let mut rest = String::new();
                accepted.stream.read_to_string(&mut rest).await.unwrap();
                Ok((accepted.client.to_string(), rest))
            }
        }
    };
    let line = b"PROXY TCP4 192.0.2.1 198.51.100.1 51234 443\r\nGET /";
    let expected = Ok(("192.0.2.1:51234".to_owned(), "GET /".to_owned()));
    assert_eq!(accept_from("10.1.2.3:9", line).await, expected);
    assert_eq!(accept_from("[::ffff:10.1.2.3]:9", line).await, expected, "a mapped address is the same proxy");
    assert!(accept_from("192.0.2.9:9", line).await.unwrap_err().starts_with("192.0.2.9:9 is not a trusted proxy"));
    assert_eq!(accept_from("10.1.2.3:9", b"PROXY UNKNOWN\r\n").await, Ok(("10.1.2.3:9".to_owned(), String::new())));
    assert!(
        accept_from("10.1.2.3:9", b"GET / HTTP/1.1\r\n")
            .await
            .unwrap_err()
            .contains("does not start with a PROXY header")
    );
    assert!(accept_from("10.1.2.3:9", b"").await.unwrap_err().contains("closed before the PROXY header"));
}

#[test]
fn an_acceptor_without_its_certificate_is_refused() {
    let files = TlsFiles::new("/nowhere".as_ref(), "none.pem", "none.key", None);
    let error = Acceptor::new(any_port(), Some(&files)).map(drop).unwrap_err().to_string();
    assert!(error.starts_with("127.0.0.1:0: cannot read /nowhere/none.pem: "), "{error}");
}

/// Accepts one connection from a real socket and responds; returns the client and the negotiated protocol.
async fn serve_one(
    acceptor: &Acceptor,
    socket: &tokio::net::TcpListener,
) -> Result<(SocketAddr, Option<bool>), String> {
    let (stream, from) = socket.accept().await.unwrap();
    let mut accepted = acceptor.accept(stream, from).await.map_err(|error| error.to_string())?;
    assert!(matches!(accepted.stream, MaybeTlsStream::Tls(_)));
    let mut head = [0; 4_096];
    let _ = accepted.stream.read(&mut head).await.unwrap();
    accepted.stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi").await.unwrap();
    accepted.stream.shutdown().await.unwrap();
    Ok((accepted.client, accepted.http2))
}

#[tokio::test]
async fn real_clients_connect_with_proxy_protocol_and_tls() {
    let certs = TestCerts::new(&["a"]);
    let acceptor = Acceptor::new(any_port(), Some(&certs.files("a"))).unwrap();
    let acceptor = acceptor.with_proxy_protocol(|peer| peer.is_loopback());
    let socket = tokio::net::TcpListener::bind(any_port()).await.unwrap();
    let address = socket.local_addr().unwrap();

    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--max-time", "60", "--http1.1", "--haproxy-protocol", "--cacert"]);
    curl.arg(certs.path("a.pem")).arg(format!("https://localhost:{}/", address.port()));
    let client = tokio::task::spawn_blocking(move || curl.output().unwrap());
    let (address_seen, http2) =
        tokio::time::timeout(TEST_TIMEOUT, serve_one(&acceptor, &socket)).await.unwrap().unwrap();
    let output = client.await.unwrap();
    assert_eq!((output.stdout.as_slice(), http2), (&b"hi"[..], Some(false)), "{output:?}");
    assert!(address_seen.ip().is_loopback());

    // openssl as the client of a proxy played by this test.
    let relay = TcpListener::bind(any_port()).unwrap();
    let mut openssl = Command::new("openssl");
    openssl.args(["s_client", "-quiet", "-alpn", "h2", "-verify_return_error", "-CAfile"]).arg(certs.path("a.pem"));
    openssl.args(["-connect", &relay.local_addr().unwrap().to_string()]);
    let mut openssl = openssl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let relayed = std::thread::spawn(move || {
        let (mut from, _) = relay.accept().unwrap();
        let mut to = TcpStream::connect(address).unwrap();
        to.write_all(b"PROXY TCP6 2001:db8::7 2001:db8::1 4711 443\r\n").unwrap();
        let (mut upload, mut download) = (to.try_clone().unwrap(), from.try_clone().unwrap());
        let forward = std::thread::spawn(move || drop(io::copy(&mut download, &mut to)));
        drop(io::copy(&mut upload, &mut from));
        drop(from.shutdown(std::net::Shutdown::Both));
        forward.join().unwrap();
    });
    let mut stdin = openssl.stdin.take().unwrap();
    stdin.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let served = tokio::time::timeout(TEST_TIMEOUT, serve_one(&acceptor, &socket)).await.unwrap();
    assert_eq!(served, Ok((peer("[2001:db8::7]:4711"), Some(true))));
    drop(stdin);
    let mut response = String::new();
    openssl.stdout.take().unwrap().read_to_string(&mut response).unwrap();
    openssl.wait().unwrap();
    relayed.join().unwrap();
    assert!(response.ends_with("hi"), "{response}");
}

#[tokio::test]
async fn plaintext_clients_are_rejected_by_tls() {
    let certs = TestCerts::new(&["a"]);
    let acceptor = Acceptor::new(any_port(), Some(&certs.files("a")));
    let (server_io, mut client_io) = tokio::io::duplex(4_096);
    client_io.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let error = acceptor.unwrap().accept(server_io, peer("192.0.2.1:5")).await.map(drop).unwrap_err();
    assert!(error.to_string().starts_with("the TLS handshake failed: "), "{error}");
}

//! Sockets as they are opened, and connections that come in at them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::env;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sluicegate_config::settings;
use sluicegate_http::identity::TrustedProxies;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::inherited::Inherited;
use crate::sockets;
use crate::stream::Stream;
use crate::tls::made::Made;

/// Only a guard against hanging.
const GUARD: Duration = Duration::from_secs(60);

fn any_port() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

pub(super) fn open(
    addresses: &[SocketAddr],
    threads: usize,
    mut inherited: Inherited,
) -> Result<Vec<Vec<TcpListener>>, ListenError> {
    let opened = sockets::open(addresses, NonZeroUsize::new(threads).unwrap(), 128, &mut inherited)?;
    let tcp = |socket| match socket {
        Socket::Tcp(socket) => socket,
        Socket::Unix(_) => panic!("of the network"),
    };
    Ok(opened.into_iter().map(|sockets| sockets.into_iter().map(tcp).collect()).collect())
}

fn open_at(address: SocketAddr, threads: usize) -> Result<Vec<TcpListener>, ListenError> {
    open(&[address], threads, Inherited::none()).map(|mut all| all.remove(0))
}

/// Opens and closes an address that nobody listens at any more. Another test that starts a process at this moment has
/// a copy of all sockets until that process has become another program.
fn open_when_free(address: SocketAddr) {
    let begun = Instant::now();
    while let Err(error) = open_at(address, 2) {
        assert!(begun.elapsed() < GUARD, "{error}");
        std::thread::yield_now();
    }
}

/// Takes what waits in the queues, and says at which socket each came in.
fn waiting(sockets: &[TcpListener]) -> Vec<usize> {
    let taken = |(index, socket): (usize, &TcpListener)| {
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
    sockets.iter().enumerate().flat_map(taken).collect()
}

#[test]
fn each_thread_has_a_socket_at_the_same_port() {
    let sockets = open_at(any_port(), 4).unwrap();
    assert_eq!(sockets.len(), 4);
    let address = sockets[0].local_addr().unwrap();
    assert!(sockets.iter().all(|socket| socket.local_addr().unwrap() == address));

    let clients: Vec<_> = (0..64).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut taken = waiting(&sockets);
    assert_eq!(taken.len(), clients.len());
    taken.dedup();
    assert!(taken.len() > 1, "the system spreads clients over the sockets");
}

#[test]
fn connections_do_not_wait_for_more_to_send() {
    let sockets = open_at(any_port(), 1).unwrap();
    let _client = TcpStream::connect(sockets[0].local_addr().unwrap()).unwrap();
    assert!(SockRef::from(&sockets[0].accept().unwrap().0).tcp_nodelay().unwrap());
}

#[test]
fn an_address_that_is_taken_is_refused_also_where_it_could_be_shared() {
    let ours = open_at("127.0.0.3:0".parse().unwrap(), 2).unwrap();
    let address = ours[0].local_addr().unwrap();
    let error = open_at(address, 2).unwrap_err();
    assert!(matches!(error, ListenError::Taken { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        format!("cannot listen at {address}: somebody else does; stop that program, or choose another port"),
    );
    drop(ours);
    open_when_free(address);
}

#[test]
fn a_port_is_free_although_old_connections_linger() {
    let sockets = open_at("127.0.0.4:0".parse().unwrap(), 2).unwrap();
    let address = sockets[0].local_addr().unwrap();
    let _client = TcpStream::connect(address).unwrap();
    let server = sockets.iter().find_map(|socket| socket.accept().ok()).unwrap();
    drop(sockets);
    // With a connection of an earlier process that drains, and with one that is half closed.
    open_when_free(address);
    drop(server);
    open_when_free(address);
}

#[test]
fn addresses_may_overlap_and_the_most_exact_one_gets_the_connection() {
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
        let taken: Vec<_> = opened.iter().map(|sockets| waiting(sockets).len()).collect();
        assert_eq!(taken.iter().position(|count| *count == 1), Some(at), "{ip}: {taken:?}");
    }
}

#[test]
fn an_address_that_is_listed_twice_is_refused() {
    let addresses =
        ["127.0.0.1:0", "127.0.0.1:9", "127.0.0.1:0", "127.0.0.1:9"].map(|address| address.parse().unwrap());
    let error = open(&addresses, 1, Inherited::none()).unwrap_err().to_string();
    assert!(error.starts_with("127.0.0.1:9 is listed more than once"), "{error}");
}

#[test]
fn an_address_of_another_machine_is_refused() {
    let error = open_at("192.0.2.1:8080".parse().unwrap(), 1).unwrap_err();
    assert!(matches!(error, ListenError::NotHere { .. }));
    assert!(error.to_string().contains("0.0.0.0:8080 stands for all of them"), "{error}");
}

/// With the mode that the process's mask left them, only its own user could connect.
#[test]
fn who_may_connect_to_a_unix_socket_is_up_to_its_folder() {
    let folder = PrivateFolder::new("modes").unwrap();
    let path = folder.path().join("s.sock");
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
    let mut process = Process::alone();
    let sockets = process.listen_unix(&path, NonZeroUsize::MIN).unwrap();
    assert_eq!(mode(), 0o666);
    // Also where the name was left behind by a process that is gone, with another mode.
    drop((sockets, process));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let begun = Instant::now();
    let mut process = Process::alone();
    // Another test that starts a process has a copy of the socket for a moment.
    while let Err(error) = process.listen_unix(&path, NonZeroUsize::MIN) {
        assert!(begun.elapsed() < GUARD, "{error}");
        std::thread::yield_now();
    }
    assert_eq!(mode(), 0o666);
}

/// The part of the tests below that is played by another process: it says at which sockets it would listen, and takes
/// one connection from each.
#[test]
#[ignore = "is run by other tests, in a process of its own"]
fn child() {
    let Ok(wanted) = env::var("TEST_LISTEN") else { return };
    let threads: NonZeroUsize = env::var("TEST_THREADS").unwrap().parse().unwrap();
    let wanted: Vec<SocketAddr> = wanted.split(',').map(|address| address.parse().unwrap()).collect();
    let opened = Inherited::from_env().map_err(|error| error.to_string()).and_then(|inherited| {
        assert!(env::var_os("LISTEN_FDS").is_none(), "what is taken is not passed on");
        open(&wanted, threads.get(), inherited).map_err(|error| error.to_string())
    });
    match opened {
        Err(error) => println!("<{error}>"),
        Ok(all) => all.iter().for_each(|sockets| {
            let address = sockets[0].local_addr().unwrap();
            assert!(sockets.iter().all(|socket| socket.local_addr().unwrap() == address));
            println!("<{address} {} {}>", sockets.len(), waiting(sockets).len());
        }),
    }
}

/// What a process says that gets these sockets and wants to listen at those addresses.
fn ask_child(handed: &[&TcpListener], wanted: &[SocketAddr], threads: usize, env: &[(&str, &str)]) -> Vec<String> {
    use command_fds::{CommandFdExt, FdMapping};

    let wanted: Vec<_> = wanted.iter().map(SocketAddr::to_string).collect();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", "tests::child"]);
    command.env("TEST_LISTEN", wanted.join(",")).env("TEST_THREADS", threads.to_string());
    command.env("LISTEN_FDS", handed.len().to_string()).envs(env.iter().copied());
    let mapping = |(child_fd, socket): (i32, &&TcpListener)| FdMapping {
        parent_fd: socket.try_clone().unwrap().into(),
        child_fd,
    };
    command.fd_mappings((3..).zip(handed).map(mapping).collect()).unwrap();
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said: Vec<_> = text.split('<').skip(1).map(|rest| rest.split_once('>').unwrap().0.to_owned()).collect();
    assert!(!said.is_empty(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn every_socket_that_was_handed_over_is_used() {
    let sockets = open_at(any_port(), 3).unwrap();
    let handed: Vec<_> = sockets.iter().collect();
    let address = sockets[0].local_addr().unwrap();
    let ask = |threads| {
        let clients: Vec<_> = (0..32).map(|_| TcpStream::connect(address).unwrap()).collect();
        let said = ask_child(&handed, &[address], threads, &[]);
        assert_eq!(waiting(&sockets).len(), 0, "nobody waits in vain");
        drop(clients);
        said
    };
    assert_eq!(ask(3), [format!("{address} 3 32")]);
    assert_eq!(ask(1), [format!("{address} 3 32")], "more than threads");
    assert_eq!(ask(5), [format!("{address} 5 32")], "fewer than threads");
}

#[test]
fn sockets_go_to_whom_they_fit_best() {
    let (one, two) = (open_at(any_port(), 2).unwrap(), open_at(any_port(), 1).unwrap());
    let (first, second) = (one[0].local_addr().unwrap(), two[0].local_addr().unwrap());
    let handed = [&one[0], &two[0], &one[1]];
    let said = ask_child(&handed, &[any_port(), first], 1, &[]);
    assert_eq!(said, [format!("{second} 1 0"), format!("{first} 2 0")], "a port of any number comes last");
    let said = ask_child(&handed, &[second], 1, &[]);
    assert_eq!(said, [format!("{second} 1 0")], "what nobody wants is closed");
    let said = ask_child(&handed, &["127.0.0.2:0".parse().unwrap()], 2, &[]);
    assert!(said[0].starts_with("127.0.0.2:") && said[0].ends_with(" 2 0"), "{said:?}: none at this address");
}

#[test]
fn a_socket_for_both_families_does_for_all_of_ipv4() {
    let Ok(both) = TcpListener::bind("[::]:0") else { return };
    let port = both.local_addr().unwrap().port();
    let said = ask_child(&[&both], &[(Ipv4Addr::UNSPECIFIED, port).into()], 1, &[]);
    assert_eq!(said, [format!("[::]:{port} 1 0")]);
    let said = ask_child(&[&both], &[(Ipv4Addr::LOCALHOST, port).into()], 1, &[]);
    assert!(said[0].contains("somebody else does") || said[0].starts_with("127.0.0.1:"), "{said:?}");
}

#[test]
fn what_was_handed_over_wrongly_is_told() {
    let socket = open_at(any_port(), 1).unwrap().remove(0);
    let ask = |env: &[(&str, &str)]| ask_child(&[&socket], &[any_port()], 1, env).remove(0);
    assert!(ask(&[("LISTEN_FDS", "many")]).starts_with("LISTEN_FDS is 'many': it must be the number"));
    assert!(ask(&[("LISTEN_FDS", "99999999")]).starts_with("LISTEN_FDS is '99999999'"));
    assert!(ask(&[("LISTEN_FDS", "-1")]).starts_with("LISTEN_FDS is '-1'"));
    let address = socket.local_addr().unwrap().to_string();
    assert!(!ask(&[("LISTEN_PID", "1")]).starts_with(&address), "meant for another process");

    let connected = TcpStream::connect(socket.local_addr().unwrap()).unwrap();
    let connected = TcpListener::from(std::os::fd::OwnedFd::from(connected));
    let said = ask_child(&[&socket, &connected], &[any_port()], 1, &[]).remove(0);
    assert!(said.starts_with("file 4 was handed over in LISTEN_FDS but is no listening socket"), "{said}");
}

fn listener(tls: Option<settings::Certificate>, proxy_protocol: bool) -> settings::Listener {
    settings::Listener { address: any_port(), tls, proxy_protocol }
}

fn peer(address: &str) -> SocketAddr {
    address.parse().unwrap()
}

#[tokio::test]
async fn a_plain_entrance_is_passed_at_once() {
    let entrance = Entrance::new(&listener(None, false), &TrustedProxies::none(), "".as_ref()).unwrap();
    assert!(entrance.is_plain());
    let of_threads = |entrance: &Entrance, io: tokio::net::TcpStream| {
        fn is_send(_: impl Send) {}
        is_send(entrance.enter(io, any_port()));
    };
    let _ = of_threads;
    let (ours, _theirs) = tokio::io::duplex(64);
    let entered = entrance.enter(ours, peer("[::ffff:192.0.2.1]:5")).await.unwrap();
    assert_eq!((entered.client, entered.http2), (peer("192.0.2.1:5"), None));
    assert!(matches!(entered.stream, Stream::Plain(_)));
    assert_eq!(entrance.reload().await.unwrap(), Renewal::Unchanged);
}

#[tokio::test]
async fn a_proxy_line_is_believed_from_trusted_proxies_only() {
    let trusted = TrustedProxies::parse(["10.0.0.0/8"]).unwrap();
    let entrance = Entrance::new(&listener(None, true), &trusted, "".as_ref()).unwrap();
    assert!(!entrance.is_plain());
    let enter = async |from: &str, bytes: &[u8]| {
        let (ours, mut theirs) = tokio::io::duplex(256);
        theirs.write_all(bytes).await.unwrap();
        theirs.shutdown().await.unwrap();
        let entered = entrance.enter(ours, peer(from)).await;
        match entered {
            Err(error) => Err(error.to_string()),
            Ok(mut entered) => {
                let mut rest = String::new();
                entered.stream.read_to_string(&mut rest).await.unwrap();
                Ok((entered.client.to_string(), rest))
            }
        }
    };
    let line = b"PROXY TCP4 192.0.2.1 198.51.100.1 51234 443\r\nGET /";
    let got = Ok(("192.0.2.1:51234".to_owned(), "GET /".to_owned()));
    assert_eq!(enter("10.1.2.3:9", line).await, got);
    assert_eq!(enter("[::ffff:10.1.2.3]:9", line).await, got, "a mapped address is the same proxy");
    assert!(enter("192.0.2.9:9", line).await.unwrap_err().starts_with("192.0.2.9:9 is no trusted proxy"));
    assert_eq!(enter("10.1.2.3:9", b"PROXY UNKNOWN\r\n").await, Ok(("10.1.2.3:9".to_owned(), String::new())));
    assert!(enter("10.1.2.3:9", b"GET / HTTP/1.1\r\n").await.unwrap_err().contains("does not begin with a PROXY line"));
    assert!(enter("10.1.2.3:9", b"").await.unwrap_err().contains("closed before the PROXY line"));
}

#[test]
fn an_entrance_for_nobody_is_refused() {
    let error = Entrance::new(&listener(None, true), &TrustedProxies::none(), "".as_ref()).map(drop).unwrap_err();
    assert!(error.to_string().contains("name the proxies in trusted_proxies"), "{error}");
    let files =
        settings::Certificate { certificate: "none.pem".to_owned(), key: "none.key".to_owned(), client_ca: None };
    let error = Entrance::new(&listener(Some(files), false), &TrustedProxies::none(), "/nowhere".as_ref());
    let error = error.map(drop).unwrap_err().to_string();
    assert!(error.starts_with("127.0.0.1:0: cannot read /nowhere/none.pem: "), "{error}");
}

/// Lets in one connection of a real socket and answers it; says who came, and what was agreed on.
async fn serve_one(
    entrance: &Entrance,
    socket: &tokio::net::TcpListener,
) -> Result<(SocketAddr, Option<bool>), String> {
    let (stream, from) = socket.accept().await.unwrap();
    let mut entered = entrance.enter(stream, from).await.map_err(|error| error.to_string())?;
    assert!(matches!(entered.stream, Stream::Tls(_)));
    let mut head = [0; 4_096];
    let _ = entered.stream.read(&mut head).await.unwrap();
    entered.stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi").await.unwrap();
    entered.stream.shutdown().await.unwrap();
    Ok((entered.client, entered.http2))
}

#[tokio::test]
async fn real_clients_get_in_by_proxy_line_and_tls() {
    let made = Made::new(&["a"]);
    let entrance = Entrance::new(&listener(Some(made.files("a")), true), &TrustedProxies::loopback(), made.folder());
    let entrance = entrance.unwrap();
    let socket = tokio::net::TcpListener::bind(any_port()).await.unwrap();
    let address = socket.local_addr().unwrap();

    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--max-time", "60", "--http1.1", "--haproxy-protocol", "--cacert"]);
    curl.arg(made.path("a.pem")).arg(format!("https://localhost:{}/", address.port()));
    let client = tokio::task::spawn_blocking(move || curl.output().unwrap());
    let (came, http2) = tokio::time::timeout(GUARD, serve_one(&entrance, &socket)).await.unwrap().unwrap();
    let output = client.await.unwrap();
    assert_eq!((output.stdout.as_slice(), http2), (&b"hi"[..], Some(false)), "{output:?}");
    assert!(came.ip().is_loopback());

    // openssl as the client of a proxy that we play.
    let relay = TcpListener::bind(any_port()).unwrap();
    let mut openssl = Command::new("openssl");
    openssl.args(["s_client", "-quiet", "-alpn", "h2", "-verify_return_error", "-CAfile"]).arg(made.path("a.pem"));
    openssl.args(["-connect", &relay.local_addr().unwrap().to_string()]);
    let mut openssl = openssl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let relayed = std::thread::spawn(move || {
        let (mut from, _) = relay.accept().unwrap();
        let mut to = TcpStream::connect(address).unwrap();
        to.write_all(b"PROXY TCP6 2001:db8::7 2001:db8::1 4711 443\r\n").unwrap();
        let (mut back, mut forth) = (to.try_clone().unwrap(), from.try_clone().unwrap());
        let forward = std::thread::spawn(move || drop(io::copy(&mut forth, &mut to)));
        drop(io::copy(&mut back, &mut from));
        drop(from.shutdown(std::net::Shutdown::Both));
        forward.join().unwrap();
    });
    let mut stdin = openssl.stdin.take().unwrap();
    stdin.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let served = tokio::time::timeout(GUARD, serve_one(&entrance, &socket)).await.unwrap();
    assert_eq!(served, Ok((peer("[2001:db8::7]:4711"), Some(true))));
    drop(stdin);
    let mut answer = String::new();
    openssl.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    openssl.wait().unwrap();
    relayed.join().unwrap();
    assert!(answer.ends_with("hi"), "{answer}");
}

#[tokio::test]
async fn who_does_not_speak_tls_does_not_get_in() {
    let made = Made::new(&["a"]);
    let entrance = Entrance::new(&listener(Some(made.files("a")), false), &TrustedProxies::none(), made.folder());
    let (ours, mut theirs) = tokio::io::duplex(4_096);
    theirs.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let error = entrance.unwrap().enter(ours, peer("192.0.2.1:5")).await.map(drop).unwrap_err();
    assert!(error.to_string().starts_with("the TLS handshake failed: "), "{error}");
}

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process;
use std::time::Duration;

use sluicegate_engine::clock::{ClockHandle, ManualClock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, watch};

use super::child::READY_TIMEOUT;
use super::*;
use crate::process::Inherited;
use crate::tests::open;

const THREADS: NonZeroUsize = NonZeroUsize::new(2).unwrap();

/// The successor in the tests below. The last argument selects its behaviour; the test runner takes it for the
/// name of a test that does not exist.
#[test]
#[ignore = "runs in a child process of other tests"]
fn child() {
    let behaviour = env::args().next_back().unwrap_or_default();
    if env::var_os("SLUICEGATE_NOTIFY_SOCKET").is_none() {
        return;
    }
    let inherited = Inherited::from_env().unwrap();
    let addresses = inherited.addresses();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let notices = ServiceNotifier::from_env();
    match behaviour.as_str() {
        "ends" => process::exit(7),
        "hangs" => loop {
            std::thread::park();
        },
        "boasts" => {
            notices.notify(ServiceNotice::Ready).unwrap();
            process::exit(0);
        }
        "passes its sockets on" => {
            let sockets = open(&addresses, THREADS.get(), inherited).unwrap().remove(0);
            notices.notify(ServiceNotice::Ready).unwrap();
            let (next, clock) = (program("serves"), ClockHandle::system());
            runtime.block_on(start_successor(&next, &sockets, &notices, b"", &clock)).unwrap();
            process::exit(0);
        }
        "serves" => runtime.block_on(async {
            let (_never, stop) = watch::channel(false);
            let sockets = open(&addresses, THREADS.get(), inherited).unwrap().remove(0);
            notices.notify(ServiceNotice::Ready).unwrap();
            let serving = sockets.into_iter().map(|socket| tokio::spawn(serve(socket, stop.clone())));
            for task in serving.collect::<Vec<_>>() {
                task.await.unwrap();
            }
        }),
        other => panic!("{other}"),
    }
}

/// Replies with the process id until it is stopped; then leaves queued connections to the successor. The process
/// exits if a client requests it. Sockets stay nonblocking: both processes share them.
async fn serve(socket: TcpListener, mut stop: watch::Receiver<bool>) {
    let socket = tokio::net::TcpListener::from_std(socket).unwrap();
    let mut replies = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            _ = stop.changed() => break,
            accepted = socket.accept() => drop(replies.spawn(reply(accepted.unwrap().0))),
        }
    }
    drop(socket);
    replies.join_all().await;
}

async fn reply(mut stream: tokio::net::TcpStream) {
    let command = stream.read_u8().await.unwrap();
    stream.write_all(process::id().to_string().as_bytes()).await.unwrap();
    if command == b'!' {
        ServiceNotifier::from_env().notify(ServiceNotice::Stopping).unwrap();
        // Written bytes are still sent.
        process::exit(0);
    }
}

fn request(mut stream: &TcpStream, command: &[u8; 1]) -> String {
    let mut reply_text = String::new();
    stream.write_all(command).unwrap();
    stream.read_to_string(&mut reply_text).unwrap();
    reply_text
}

fn program(behaviour: &str) -> Executable {
    let arguments = ["--ignored", "--exact", "--nocapture", "process::restart::tests::child", behaviour];
    let file = env::current_exe().unwrap();
    Executable { file, arguments: arguments.map(OsString::from).into() }
}

fn sockets() -> (SocketAddr, Vec<TcpListener>) {
    let sockets = open(&[(Ipv4Addr::LOCALHOST, 0).into()], THREADS.get(), Inherited::none()).unwrap().remove(0);
    (sockets[0].local_addr().unwrap(), sockets)
}

/// Waits until a process is gone from the process table.
fn wait_reaped(process: u32) {
    let path = format!("/proc/{process}");
    while Path::new(&path).exists() {
        std::thread::yield_now();
    }
}

/// A notification socket like systemd's.
fn service(folder: &PrivateDir) -> (UnixDatagram, ServiceNotifier) {
    let path = folder.path().join("service");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    (socket, ServiceNotifier::new(Some(path.into()), None))
}

fn received(socket: &UnixDatagram) -> String {
    let mut datagram = [0; 256];
    let length = socket.recv(&mut datagram).unwrap();
    String::from_utf8(datagram[..length].to_vec()).unwrap()
}

#[tokio::test]
async fn successor_takes_over_without_losing_queued_connections() {
    let folder = PrivateDir::new("test").unwrap();
    let (systemd, notices) = service(&folder);
    let (address, sockets) = sockets();
    // These connections wait in the queues of both sockets; nothing here accepts them.
    let early: Vec<_> = (0..50).map(|_| TcpStream::connect(address).unwrap()).collect();
    let successor = start_successor(&program("serves"), &sockets, &notices, b"", &ClockHandle::system()).await.unwrap();
    let between: Vec<_> = (0..50).map(|_| TcpStream::connect(address).unwrap()).collect();
    drop(sockets);
    let late: Vec<_> = (0..50).map(|_| TcpStream::connect(address).unwrap()).collect();

    let process = successor.pid.to_string();
    for stream in early.iter().chain(&between).chain(&late) {
        assert_eq!(request(stream, b"?"), process);
    }
    assert_eq!(received(&systemd), format!("MAINPID={process}"), "notified by the old process");
    assert_eq!(request(&TcpStream::connect(address).unwrap(), b"!"), process);
    assert_eq!(received(&systemd), "STOPPING=1", "notified by the successor");
    wait_reaped(successor.pid);
}

#[tokio::test]
async fn no_connection_is_lost_under_load() {
    const CLIENTS: usize = 4;
    let (address, sockets) = sockets();
    let (stop, stopped) = watch::channel(false);
    let copy = |socket: &TcpListener| socket.try_clone().unwrap();
    let old: Vec<_> = sockets.iter().map(copy).map(|socket| tokio::spawn(serve(socket, stopped.clone()))).collect();
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let own_pid = process::id().to_string();
    let client = || {
        let (sender, own_pid) = (sender.clone(), own_pid.clone());
        // Each client reconnects until the successor has replied often enough.
        move || {
            let mut by_successor = 0;
            while by_successor < 100 {
                let reply_text = request(&TcpStream::connect(address).unwrap(), b"?");
                by_successor += u32::from(reply_text != own_pid);
                sender.send(reply_text).unwrap();
            }
        }
    };
    let clients: Vec<_> = (0..CLIENTS).map(|_| tokio::task::spawn_blocking(client())).collect();
    drop(sender);

    for _ in 0..100 {
        assert_eq!(receiver.recv().await.unwrap(), own_pid);
    }
    let successor =
        start_successor(&program("serves"), &sockets, &ServiceNotifier::default(), b"", &ClockHandle::system())
            .await
            .unwrap();
    stop.send(true).unwrap();
    drop(sockets);
    for task in old {
        task.await.unwrap();
    }
    for client in clients {
        client.await.expect("every request gets a response");
    }
    let successor_pid = successor.pid.to_string();
    while let Some(reply_text) = receiver.recv().await {
        assert!(reply_text == own_pid || reply_text == successor_pid, "{reply_text}");
    }
    assert_eq!(request(&TcpStream::connect(address).unwrap(), b"!"), successor_pid);
    wait_reaped(successor.pid);
}

#[tokio::test]
async fn a_successor_can_have_a_successor() {
    let folder = PrivateDir::new("test").unwrap();
    let (systemd, notices) = service(&folder);
    let (address, sockets) = sockets();
    let early: Vec<_> = (0..50).map(|_| TcpStream::connect(address).unwrap()).collect();
    let successor = start_successor(&program("passes its sockets on"), &sockets, &notices, b"", &ClockHandle::system())
        .await
        .unwrap();
    drop(sockets);
    // Both notify at about the same time.
    let notices = [received(&systemd), received(&systemd)];
    let first = format!("MAINPID={}", successor.pid);
    let last = notices.iter().find(|text| **text != first).and_then(|text| text.strip_prefix("MAINPID=")).unwrap();
    assert!(notices.contains(&first));
    wait_reaped(successor.pid);
    for stream in &early {
        assert_eq!(request(stream, b"?"), last);
    }
    assert_eq!(request(&TcpStream::connect(address).unwrap(), b"!"), last);
    assert_eq!(received(&systemd), "STOPPING=1");
}

#[tokio::test]
async fn a_successor_that_exits_changes_nothing() {
    let (address, sockets) = sockets();
    for (behaviour, status) in [("ends", "exit status: 7"), ("boasts", "exit status: 0")] {
        let result =
            start_successor(&program(behaviour), &sockets, &ServiceNotifier::default(), b"", &ClockHandle::system())
                .await;
        match result {
            Err(error) => assert!(error.to_string().contains(status), "{error}"),
            // It had reported readiness, and its exit was not visible yet.
            Ok(successor) => {
                assert_eq!(behaviour, "boasts");
                wait_reaped(successor.pid);
            }
        }
    }
    let _client = TcpStream::connect(address).unwrap();
    let result = sockets.iter().any(|socket| socket.accept().is_ok());
    assert!(result, "the old sockets are unchanged");
}

/// Hung successors that hold these sockets. A process that another test is about to start also holds them for a
/// moment, but does not have this name yet.
fn hung_processes_holding(sockets: &[TcpListener]) -> Vec<u32> {
    let link = |socket: &TcpListener| fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
    let socket = link(&sockets[0]);
    let hangs = |process: &u32| {
        let words = fs::read(format!("/proc/{process}/cmdline"));
        words.is_ok_and(|words| words.ends_with(b"\0hangs\0"))
    };
    let has = |process: &u32| {
        let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        files.into_iter().any(|file| fs::read_link(file.path()).is_ok_and(|link| link == socket))
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    all.filter(hangs).filter(has).collect()
}

#[tokio::test]
async fn a_successor_that_is_never_ready_is_stopped() {
    let (_, sockets) = sockets();
    let clock = ManualClock::new();
    let handle = ClockHandle::new(clock.clone());
    let (program, notices) = (program("hangs"), ServiceNotifier::default());
    let advance_clock = async {
        while hung_processes_holding(&sockets).is_empty() {
            tokio::task::yield_now().await;
        }
        clock.advance(READY_TIMEOUT - Duration::from_nanos(1));
        tokio::task::yield_now().await;
        let started = hung_processes_holding(&sockets);
        assert_eq!(started.len(), 1, "the timeout has not passed");
        clock.advance(Duration::from_nanos(1));
        started[0]
    };
    let (result, started) = tokio::join!(start_successor(&program, &sockets, &notices, b"", &handle), advance_clock);
    assert_eq!(
        result.unwrap_err().to_string(),
        "the new process was not ready within 30 s and was stopped; the old process continues to serve",
    );
    wait_reaped(started);
}

#[tokio::test]
async fn dropping_the_restart_future_leaves_no_process() {
    let (_, sockets) = sockets();
    let (program, notices, clock) =
        (program("hangs"), ServiceNotifier::default(), ClockHandle::new(ManualClock::new()));
    let started = async {
        loop {
            tokio::task::yield_now().await;
            if let Some(&started) = hung_processes_holding(&sockets).first() {
                break started;
            }
        }
    };
    let started = tokio::select! {
        result = start_successor(&program, &sockets, &notices, b"", &clock) => panic!("{result:?}"),
        started = started => started,
    };
    wait_reaped(started);
}

#[tokio::test]
async fn a_missing_executable_is_reported() {
    let program = Executable { file: "/nowhere/sluicegate".into(), arguments: Vec::new() };
    let (_, sockets) = sockets();
    let error = start_successor(&program, &sockets, &ServiceNotifier::default(), b"", &ClockHandle::system())
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("cannot restart: /nowhere/sluicegate does not start: No such file"), "{text}");
}

#[test]
fn current_executable_is_known() {
    let program = Executable::current().unwrap();
    assert_eq!(program.file.canonicalize().unwrap(), env::current_exe().unwrap());
    assert_eq!(program.arguments, env::args_os().skip(1).collect::<Vec<_>>());
}

#[test]
fn systemd_is_notified() {
    let folder = PrivateDir::new("test").unwrap();
    let (systemd, notices) = service(&folder);
    notices.notify(ServiceNotice::Ready).unwrap();
    assert_eq!(received(&systemd), "READY=1");
    notices.notify(ServiceNotice::Reloading).unwrap();
    let text = received(&systemd);
    let micros = text.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").and_then(|micros| micros.parse::<u64>().ok());
    assert!(micros.is_some_and(|micros| micros > 0), "{text}");
    notices.notify(ServiceNotice::Ready).unwrap();
    assert_eq!(received(&systemd), "READY=1");
    notices.notify(ServiceNotice::Stopping).unwrap();
    assert_eq!(received(&systemd), "STOPPING=1");
}

#[test]
fn abstract_socket_names_are_supported() {
    let name = format!("sluicegate-test-{}", process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let systemd = UnixDatagram::bind_addr(&address).unwrap();
    ServiceNotifier::new(Some(format!("@{name}").into()), None).notify(ServiceNotice::Ready).unwrap();
    assert_eq!(received(&systemd), "READY=1");
    assert!(ServiceNotifier::new(Some("vsock:2:1".into()), None).notify(ServiceNotice::Ready).is_err());
    assert!(ServiceNotifier::new(Some("/nowhere/notify".into()), None).notify(ServiceNotice::Ready).is_err());
    assert!(ServiceNotifier::default().notify(ServiceNotice::Ready).is_ok(), "no notification socket");
}

#[test]
fn the_predecessor_only_receives_readiness() {
    let folder = PrivateDir::new("test").unwrap();
    let predecessor = UnixDatagram::bind(folder.path().join("predecessor")).unwrap();
    predecessor.set_nonblocking(true).unwrap();
    let (systemd, _) = service(&folder);
    let name = |name: &str| Some(OsString::from(folder.path().join(name)));
    let notices = ServiceNotifier::new(name("predecessor"), name("service"));
    notices.notify(ServiceNotice::Ready).unwrap();
    assert_eq!(received(&predecessor), "READY=1");
    notices.notify(ServiceNotice::Reloading).unwrap();
    assert!(received(&systemd).starts_with("RELOADING=1"));
    notices.notify(ServiceNotice::Ready).unwrap();
    assert_eq!(received(&systemd), "READY=1");
    assert!(predecessor.recv(&mut [0]).is_err());

    let notifier = ServiceNotifier::new(name("predecessor"), Some(OsString::new()));
    notifier.notify(ServiceNotice::Ready).unwrap();
    assert_eq!(received(&predecessor), "READY=1");
    notifier.notify(ServiceNotice::Stopping).unwrap();
    assert!(predecessor.recv(&mut [0]).is_err(), "systemd is not running");
}

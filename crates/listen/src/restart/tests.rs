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

use super::successor::PATIENCE;
use super::*;
use crate::inherited::Inherited;
use crate::tests::open;

const THREADS: NonZeroUsize = NonZeroUsize::new(2).unwrap();

/// The part of the tests below that is played by the successor. How it behaves is told by the last argument, which
/// the test runner takes for the name of a test that is not there.
#[test]
#[ignore = "is run by other tests, in a process of its own"]
fn child() {
    let behaviour = env::args().next_back().unwrap_or_default();
    if env::var_os("SLUICEGATE_NOTIFY_SOCKET").is_none() {
        return;
    }
    let inherited = Inherited::from_env().unwrap();
    let addresses = inherited.addresses();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let notices = Notices::from_env();
    match behaviour.as_str() {
        "ends" => process::exit(7),
        "hangs" => loop {
            std::thread::park();
        },
        "boasts" => {
            notices.tell(Notice::Ready).unwrap();
            process::exit(0);
        }
        "hands on" => {
            let sockets = open(&addresses, THREADS.get(), inherited).unwrap().remove(0);
            notices.tell(Notice::Ready).unwrap();
            let (next, clock) = (program("serves"), ClockHandle::system());
            runtime.block_on(take_over(&next, &sockets, &notices, b"", &clock)).unwrap();
            process::exit(0);
        }
        "serves" => runtime.block_on(async {
            let (_never, stop) = watch::channel(false);
            let sockets = open(&addresses, THREADS.get(), inherited).unwrap().remove(0);
            notices.tell(Notice::Ready).unwrap();
            let serving = sockets.into_iter().map(|socket| tokio::spawn(serve(socket, stop.clone())));
            for task in serving.collect::<Vec<_>>() {
                task.await.unwrap();
            }
        }),
        other => panic!("{other}"),
    }
}

/// Tells everybody which process they reached, until it is told to stop; then it leaves whoever waits to the successor.
/// The process ends when a client asks for it. Sockets stay as they are, nonblocking: both processes have the same.
async fn serve(socket: TcpListener, mut stop: watch::Receiver<bool>) {
    let socket = tokio::net::TcpListener::from_std(socket).unwrap();
    let mut answering = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            _ = stop.changed() => break,
            accepted = socket.accept() => drop(answering.spawn(answer(accepted.unwrap().0))),
        }
    }
    drop(socket);
    answering.join_all().await;
}

async fn answer(mut stream: tokio::net::TcpStream) {
    let wish = stream.read_u8().await.unwrap();
    stream.write_all(process::id().to_string().as_bytes()).await.unwrap();
    if wish == b'!' {
        Notices::from_env().tell(Notice::Stopping).unwrap();
        // What is written is sent all the same.
        process::exit(0);
    }
}

fn ask(mut stream: &TcpStream, wish: &[u8; 1]) -> String {
    let mut answer = String::new();
    stream.write_all(wish).unwrap();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn program(behaviour: &str) -> Program {
    let arguments = ["--ignored", "--exact", "--nocapture", "restart::tests::child", behaviour];
    let file = env::current_exe().unwrap();
    Program { file, arguments: arguments.map(OsString::from).into() }
}

fn sockets() -> (SocketAddr, Vec<TcpListener>) {
    let sockets = open(&[(Ipv4Addr::LOCALHOST, 0).into()], THREADS.get(), Inherited::none()).unwrap().remove(0);
    (sockets[0].local_addr().unwrap(), sockets)
}

/// Waits until a process is no more, not even as an entry in the system's list.
fn until_forgotten(process: u32) {
    let path = format!("/proc/{process}");
    while Path::new(&path).exists() {
        std::thread::yield_now();
    }
}

/// A place for notices, as systemd has it.
fn service(folder: &PrivateFolder) -> (UnixDatagram, Notices) {
    let path = folder.path().join("service");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    (socket, Notices::new(Some(path.into()), None))
}

fn heard(socket: &UnixDatagram) -> String {
    let mut datagram = [0; 256];
    let length = socket.recv(&mut datagram).unwrap();
    String::from_utf8(datagram[..length].to_vec()).unwrap()
}

#[tokio::test]
async fn a_successor_takes_over_and_nobody_who_waits_is_lost() {
    let folder = PrivateFolder::new("test").unwrap();
    let (systemd, notices) = service(&folder);
    let (address, sockets) = sockets();
    // They wait in the queues of both sockets, which nobody here accepts from.
    let early: Vec<_> = (0..50).map(|_| TcpStream::connect(address).unwrap()).collect();
    let successor = take_over(&program("serves"), &sockets, &notices, b"", &ClockHandle::system()).await.unwrap();
    let between: Vec<_> = (0..50).map(|_| TcpStream::connect(address).unwrap()).collect();
    drop(sockets);
    let late: Vec<_> = (0..50).map(|_| TcpStream::connect(address).unwrap()).collect();

    let process = successor.process.to_string();
    for stream in early.iter().chain(&between).chain(&late) {
        assert_eq!(ask(stream, b"?"), process);
    }
    assert_eq!(heard(&systemd), format!("MAINPID={process}"), "told by the process it still is");
    assert_eq!(ask(&TcpStream::connect(address).unwrap(), b"!"), process);
    assert_eq!(heard(&systemd), "STOPPING=1", "told by the successor");
    until_forgotten(successor.process);
}

#[tokio::test]
async fn under_load_nobody_is_lost() {
    const CLIENTS: usize = 4;
    let (address, sockets) = sockets();
    let (stop, stopped) = watch::channel(false);
    let copy = |socket: &TcpListener| socket.try_clone().unwrap();
    let old: Vec<_> = sockets.iter().map(copy).map(|socket| tokio::spawn(serve(socket, stopped.clone()))).collect();
    let (tell, mut told) = mpsc::unbounded_channel();
    let ours = process::id().to_string();
    let client = || {
        let (tell, ours) = (tell.clone(), ours.clone());
        // Each comes again and again, until the successor has answered it often.
        move || {
            let mut by_successor = 0;
            while by_successor < 100 {
                let answer = ask(&TcpStream::connect(address).unwrap(), b"?");
                by_successor += u32::from(answer != ours);
                tell.send(answer).unwrap();
            }
        }
    };
    let clients: Vec<_> = (0..CLIENTS).map(|_| tokio::task::spawn_blocking(client())).collect();
    drop(tell);

    for _ in 0..100 {
        assert_eq!(told.recv().await.unwrap(), ours);
    }
    let successor =
        take_over(&program("serves"), &sockets, &Notices::default(), b"", &ClockHandle::system()).await.unwrap();
    stop.send(true).unwrap();
    drop(sockets);
    for task in old {
        task.await.unwrap();
    }
    for client in clients {
        client.await.expect("every request is answered");
    }
    let theirs = successor.process.to_string();
    while let Some(answer) = told.recv().await {
        assert!(answer == ours || answer == theirs, "{answer}");
    }
    assert_eq!(ask(&TcpStream::connect(address).unwrap(), b"!"), theirs);
    until_forgotten(successor.process);
}

#[tokio::test]
async fn a_successor_can_have_a_successor() {
    let folder = PrivateFolder::new("test").unwrap();
    let (systemd, notices) = service(&folder);
    let (address, sockets) = sockets();
    let early: Vec<_> = (0..50).map(|_| TcpStream::connect(address).unwrap()).collect();
    let successor = take_over(&program("hands on"), &sockets, &notices, b"", &ClockHandle::system()).await.unwrap();
    drop(sockets);
    // Both tell at about the same time.
    let told = [heard(&systemd), heard(&systemd)];
    let first = format!("MAINPID={}", successor.process);
    let last = told.iter().find(|text| **text != first).and_then(|text| text.strip_prefix("MAINPID=")).unwrap();
    assert!(told.contains(&first));
    until_forgotten(successor.process);
    for stream in &early {
        assert_eq!(ask(stream, b"?"), last);
    }
    assert_eq!(ask(&TcpStream::connect(address).unwrap(), b"!"), last);
    assert_eq!(heard(&systemd), "STOPPING=1");
}

#[tokio::test]
async fn a_successor_that_ends_changes_nothing() {
    let (address, sockets) = sockets();
    for (behaviour, status) in [("ends", "exit status: 7"), ("boasts", "exit status: 0")] {
        let taken = take_over(&program(behaviour), &sockets, &Notices::default(), b"", &ClockHandle::system()).await;
        match taken {
            Err(error) => assert!(error.to_string().contains(status), "{error}"),
            // It had said so, and its end was not to be seen yet.
            Ok(successor) => {
                assert_eq!(behaviour, "boasts");
                until_forgotten(successor.process);
            }
        }
    }
    let _client = TcpStream::connect(address).unwrap();
    let taken = sockets.iter().any(|socket| socket.accept().is_ok());
    assert!(taken, "the old sockets are as they were");
}

/// The successors that hang and have these sockets. A process that another test is about to start has them as well for
/// a moment, but is not called so yet.
fn hanging_with(sockets: &[TcpListener]) -> Vec<u32> {
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
async fn a_successor_that_says_nothing_is_stopped() {
    let (_, sockets) = sockets();
    let clock = ManualClock::new();
    let handle = ClockHandle::new(clock.clone());
    let (program, notices) = (program("hangs"), Notices::default());
    let turn = async {
        while hanging_with(&sockets).is_empty() {
            tokio::task::yield_now().await;
        }
        clock.advance(PATIENCE - Duration::from_nanos(1));
        tokio::task::yield_now().await;
        let started = hanging_with(&sockets);
        assert_eq!(started.len(), 1, "it has until then");
        clock.advance(Duration::from_nanos(1));
        started[0]
    };
    let (taken, started) = tokio::join!(take_over(&program, &sockets, &notices, b"", &handle), turn);
    assert_eq!(
        taken.unwrap_err().to_string(),
        "the new process did not serve within 30 s and was stopped; the old one goes on",
    );
    until_forgotten(started);
}

#[tokio::test]
async fn whoever_gives_up_waiting_leaves_no_process_behind() {
    let (_, sockets) = sockets();
    let (program, notices, clock) = (program("hangs"), Notices::default(), ClockHandle::new(ManualClock::new()));
    let started = async {
        loop {
            tokio::task::yield_now().await;
            if let Some(&started) = hanging_with(&sockets).first() {
                break started;
            }
        }
    };
    let started = tokio::select! {
        taken = take_over(&program, &sockets, &notices, b"", &clock) => panic!("{taken:?}"),
        started = started => started,
    };
    until_forgotten(started);
}

#[tokio::test]
async fn a_program_that_is_not_there_is_told() {
    let program = Program { file: "/nowhere/sluicegate".into(), arguments: Vec::new() };
    let (_, sockets) = sockets();
    let error = take_over(&program, &sockets, &Notices::default(), b"", &ClockHandle::system()).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("cannot restart: /nowhere/sluicegate does not start: No such file"), "{text}");
}

#[test]
fn this_process_knows_its_program() {
    let program = Program::of_this_process().unwrap();
    assert_eq!(program.file.canonicalize().unwrap(), env::current_exe().unwrap());
    assert_eq!(program.arguments, env::args_os().skip(1).collect::<Vec<_>>());
}

#[test]
fn systemd_is_told() {
    let folder = PrivateFolder::new("test").unwrap();
    let (systemd, notices) = service(&folder);
    notices.tell(Notice::Ready).unwrap();
    assert_eq!(heard(&systemd), "READY=1");
    notices.tell(Notice::Reloading).unwrap();
    let text = heard(&systemd);
    let micros = text.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").and_then(|micros| micros.parse::<u64>().ok());
    assert!(micros.is_some_and(|micros| micros > 0), "{text}");
    notices.tell(Notice::Ready).unwrap();
    assert_eq!(heard(&systemd), "READY=1");
    notices.tell(Notice::Stopping).unwrap();
    assert_eq!(heard(&systemd), "STOPPING=1");
}

#[test]
fn names_that_are_no_paths_are_known() {
    let name = format!("sluicegate-test-{}", process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let systemd = UnixDatagram::bind_addr(&address).unwrap();
    Notices::new(Some(format!("@{name}").into()), None).tell(Notice::Ready).unwrap();
    assert_eq!(heard(&systemd), "READY=1");
    assert!(Notices::new(Some("vsock:2:1".into()), None).tell(Notice::Ready).is_err());
    assert!(Notices::new(Some("/nowhere/notify".into()), None).tell(Notice::Ready).is_err());
    assert!(Notices::default().tell(Notice::Ready).is_ok(), "nobody wants to know");
}

#[test]
fn a_predecessor_hears_only_that_its_successor_is_ready() {
    let folder = PrivateFolder::new("test").unwrap();
    let predecessor = UnixDatagram::bind(folder.path().join("predecessor")).unwrap();
    predecessor.set_nonblocking(true).unwrap();
    let (systemd, _) = service(&folder);
    let name = |name: &str| Some(OsString::from(folder.path().join(name)));
    let notices = Notices::new(name("predecessor"), name("service"));
    notices.tell(Notice::Ready).unwrap();
    assert_eq!(heard(&predecessor), "READY=1");
    notices.tell(Notice::Reloading).unwrap();
    assert!(heard(&systemd).starts_with("RELOADING=1"));
    notices.tell(Notice::Ready).unwrap();
    assert_eq!(heard(&systemd), "READY=1");
    assert!(predecessor.recv(&mut [0]).is_err());

    let alone = Notices::new(name("predecessor"), Some(OsString::new()));
    alone.tell(Notice::Ready).unwrap();
    assert_eq!(heard(&predecessor), "READY=1");
    alone.tell(Notice::Stopping).unwrap();
    assert!(predecessor.recv(&mut [0]).is_err(), "there is no systemd to tell");
}

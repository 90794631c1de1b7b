//! Bad input to the built program, over real sockets: each is answered with a clear error or ends its connection,
//! nothing is taken, the next client is served, and memory does not grow.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod program;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use program::{GUARD, Program, ran, until};

const FILE: &str = "
server:
  rls: 127.0.0.1:0
  http: 127.0.0.1:0
  resp: 127.0.0.1:0
  max_keys: 1000
  threads: 2
rules:
  - { name: logins, key: account, limits: [3/1h] }
  - { name: addresses, side: descriptor, key: \"descriptor['remote_address']\", limits: [3/1h] }
";

fn connect(at: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(GUARD)).unwrap();
    stream.set_write_timeout(Some(GUARD)).unwrap();
    stream
}

/// What comes back for these bytes, after which nothing more is said, until the connection ends.
fn exchange(at: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(at);
    if stream.write_all(bytes).is_ok() {
        drop(stream.shutdown(Shutdown::Write));
    }
    rest(stream)
}

/// What is still to come. Whoever is cut off while sending may be told nothing.
fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut told = Vec::new();
    match stream.read_to_end(&mut told) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
    told
}

/// A call over HTTP: its status and body.
fn post(program: &Program, path: &str, kind: &str, body: &str) -> (u16, String) {
    let head = format!("POST {path} HTTP/1.1\r\nHost: decisions\r\nConnection: close\r\nContent-Type: {kind}\r\n");
    let call = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    let mut stream = connect(program.place("HTTP"));
    stream.write_all(call.as_bytes()).unwrap();
    let told = String::from_utf8(rest(stream)).unwrap();
    let (head, body) = told.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{told:?}"));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn check(program: &Program, body: &str) -> (u16, String) {
    post(program, "/v1/check", "application/json", body)
}

#[test]
fn calls() {
    let program = Program::start(FILE);
    let named =
        |account: &str, more: &str| format!(r#"{{"rule":"logins","attributes":{{"account":"{account}"}}{more}}}"#);
    let deep = format!(r#"{{"rule":{}1{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
    for (body, status, told) in [
        (named("", ""), 400, "empty"),
        (named("a\\u0000b", ""), 400, "control character"),
        (named("a\\r\\nb", ""), 400, "control character"),
        (named("alice", r#","cost":-1"#), 400, "whole number"),
        (named("alice", r#","cost":0.5"#), 400, "whole number"),
        (named("alice", r#","cost":1e308"#), 400, "whole number"),
        (named("alice", r#","cost":1,"cost":2"#), 400, "twice"),
        (named("alice", r#","rule":"logins""#), 400, "twice"),
        (named("alice", r#"},"attributes":{"account":"bob""#), 400, ""),
        (named("alice", r#","cots":1"#), 400, "cost"),
        (deep, 400, "expected text"),
        ("[".repeat(10_000), 400, ""),
        (String::new(), 400, ""),
        (named("alice", "")[..20].to_owned(), 400, ""),
        (r#"{"rule":"logni"}"#.to_owned(), 404, "logins"),
        // Never is not later, and takes nothing.
        (named("alice", r#","cost":4"#), 200, r#""verdict":"never""#),
        (named("alice", r#","cost":18446744073709551615"#), 200, r#""verdict":"never""#),
        (named("alice", r#","cost":0"#), 200, r#""verdict":"allowed""#),
    ] {
        let (got, text) = check(&program, &body);
        assert_eq!(got, status, "{body:.100}: {text}");
        assert!(text.contains(told), "{body:.100}: {text}");
        let (_, left) = check(&program, &named("alice", r#","cost":0"#));
        assert!(left.contains(r#""remaining":3"#), "{body:.100} took something: {left}");
    }
    // What is said to be too large is not waited for.
    let mut stream = connect(program.place("HTTP"));
    let head =
        "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1048577\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let told = String::from_utf8(rest(stream)).unwrap();
    assert!(told.starts_with("HTTP/1.1 413 ") && told.contains("too-large"), "{told}");
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""] {
        let (status, text) = post(&program, "/v1/check", kind, &named("alice", ""));
        assert_eq!(status, 415, "{kind}: {text}");
    }
    // What would be special elsewhere is a name like any other, and each counts for itself.
    let long = "k".repeat(1_000_000);
    for account in ["{}", "{a}b", "{a}", "a:b", "a*", "\\u00e9", "\\ud83d\\ude00", &long] {
        let (status, text) = check(&program, &named(account, ""));
        assert_eq!(status, 200, "{account:.100}: {text:.200}");
        assert!(text.contains(r#""remaining":2"#), "{account:.100}: {text:.200}");
    }
    let (_, left) = check(&program, &named("alice", ""));
    assert!(left.contains(r#""remaining":2"#), "{left}");
}

/// A field of a protobuf message that has a length.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut message = vec![number << 3 | 2];
    varint(&mut message, bytes.len() as u64);
    message.extend_from_slice(bytes);
    message
}

/// A field of a protobuf message that is a number.
fn number(field: u8, number: u64) -> Vec<u8> {
    let mut message = vec![field << 3];
    varint(&mut message, number);
    message
}

fn varint(message: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        message.push(number as u8 | 0x80);
        number >>= 7;
    }
    message.push(number as u8);
}

/// A message as gRPC frames it.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], &length[..], message].concat()
}

/// Asks over gRPC: the status of the call, what it says, and the message.
fn ask(program: &Program, body: &[u8]) -> (String, String, Vec<u8>) {
    let [sent, head, got] = ["sent", "head", "got"].map(|name| program.folder.join(name));
    fs::write(&sent, body).unwrap();
    fs::write(&got, "").unwrap();
    let place = program.place("Envoy's rate limit service");
    let mut command = Command::new("curl");
    command.args(["--silent", "--http2-prior-knowledge", "--max-time", "60", "-H", "Content-Type: application/grpc"]);
    command.args(["-H", "TE: trailers", "--data-binary"]).arg(format!("@{}", sent.display()));
    command.arg("--dump-header").arg(&head).arg("--output").arg(&got);
    ran(command.arg(format!("http://{place}/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit")));
    let heads = fs::read_to_string(&head).unwrap();
    let told = |name: &str| heads.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("").trim().to_owned();
    (told("grpc-status:"), told("grpc-message:"), fs::read(&got).unwrap())
}

#[test]
fn rls() {
    let program = Program::start(FILE);
    let domain = field(1, b"edge");
    let entry = field(1, &[field(1, b"remote_address"), field(2, b"10.0.0.1")].concat());
    let descriptor = field(2, &entry);
    let good = [domain.clone(), descriptor.clone()].concat();
    let look =
        r#"{"domain":"edge","descriptors":[{"entries":[{"key":"remote_address","value":"10.0.0.1"}],"hitsAddend":0}]}"#;
    let with_unit = |unit| {
        let limit = field(2, &[number(1, 10), number(2, unit)].concat());
        [domain.clone(), field(2, &[entry.clone(), limit].concat())].concat()
    };
    for (message, said) in [
        (descriptor.clone(), "domain"),
        (domain.clone(), "descriptor"),
        (Vec::new(), "domain"),
        ([domain.clone(), descriptor.repeat(10_000)].concat(), "descriptors"),
        ([domain.clone(), field(2, &field(1, b"").repeat(10_000))].concat(), "entries"),
        ([domain.clone(), field(2, b"")].concat(), "entries"),
        (with_unit(99), "unit"),
        (with_unit(0), "unit"),
        (good[..good.len() - 1].to_vec(), ""),
        (vec![0xff; 100], ""),
        ([good.clone(), vec![0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]].concat(), ""),
        // Text that is not UTF-8.
        ([field(1, b"\xff\xfe"), descriptor.clone()].concat(), ""),
        // Groups within groups without end.
        ([good.clone(), vec![0x0b; 100_000]].concat(), ""),
    ] {
        let (status, told, body) = ask(&program, &framed(&message));
        assert_eq!((status.as_str(), body.len()), ("3", 0), "{said}: {told}");
        assert!(told.to_lowercase().contains(said), "{said}: {told}");
        let (_, left) = post(&program, "/json", "application/json", look);
        assert!(left.contains(r#""limitRemaining":3"#), "{said} took something: {left}");
    }
    // Messages that end too early, are longer than they say, or are said to be compressed or huge.
    let mut two = framed(&good);
    two.extend(framed(&good));
    for (frame, name) in [
        (framed(&good)[..10].to_vec(), "cut"),
        (Vec::new(), "nothing"),
        (two, "two"),
        ([&[1], &framed(&good)[1..]].concat(), "compressed"),
        (vec![0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3], "huge"),
    ] {
        let (status, told, body) = ask(&program, &frame);
        assert!(!matches!(status.as_str(), "" | "0"), "{name}: {status} {told}");
        assert!(body.is_empty(), "{name}");
        let (_, left) = post(&program, "/json", "application/json", look);
        assert!(left.contains(r#""limitRemaining":3"#), "{name} took something: {left}");
    }
    // More than there ever is: refused, and nothing is taken.
    let most = [good.clone(), number(3, u64::from(u32::MAX))].concat();
    let (status, told, body) = ask(&program, &framed(&most));
    assert_eq!((status.as_str(), &body[5..7]), ("0", &[0x08, 2][..]), "{told}: over the limit");
    let (_, left) = post(&program, "/json", "application/json", look);
    assert!(left.contains(r#""limitRemaining":3"#), "{left}");
    let (status, told, body) = ask(&program, &framed(&good));
    assert_eq!((status.as_str(), &body[5..7]), ("0", &[0x08, 1][..]), "{told}: admitted");
}

#[test]
fn resp() {
    let program = Program::start(FILE);
    let at = program.place("RESP");
    let words = |words: &[&[u8]]| {
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            command.extend(format!("${}\r\n", word.len()).into_bytes());
            command.extend_from_slice(word);
            command.extend_from_slice(b"\r\n");
        }
        command
    };
    let look = words(&[b"SLUICE.PEEK", b"logins", b"account", b"alice"]);
    let ping = words(&[b"PING"]);
    // Those that cannot be understood end the connection: nobody knows where the next command begins.
    let line_without_end = vec![b'a'; 100_000];
    let typed_quotes = b"PING \"\r\n".to_vec();
    for (bytes, error) in [
        (b"*1\r\n$999999999\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$-2\r\n".to_vec(), "invalid bulk length"),
        (b"*1\r\n$99999999999999999999\r\n".to_vec(), "invalid bulk length"),
        (b"*999999999\r\n".to_vec(), "invalid multibulk length"),
        (b"*99999999999999999999\r\n".to_vec(), "invalid multibulk length"),
        (b"*x\r\n".to_vec(), "invalid multibulk length"),
        (b"*1\r\n$4\r\nPINGxx".to_vec(), "CRLF"),
        (b"*1\r\n$4\nPING\n".to_vec(), "invalid bulk length"),
        (b"*1\r\nPING\r\n".to_vec(), "expected '$'"),
        (line_without_end, "too big inline request"),
        (typed_quotes, "unbalanced quotes"),
    ] {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
        let told = exchange(at, &[&bytes[..], &ping].concat());
        let told = String::from_utf8_lossy(&told);
        assert!(told.starts_with("-ERR Protocol error: ") && told.contains(error), "{shown:?}: {told:?}");
        assert!(!told.contains("PONG"), "{shown:?}: {told:?}");
    }
    // Those that can be understood and make no sense are refused, and the connection goes on.
    let long = vec![b'k'; 1 << 20];
    let check = |account: &[u8]| words(&[b"SLUICE.CHECK", b"logins", b"account", account]);
    for (bytes, error) in [
        (b"*-2\r\n".to_vec(), ""),
        (b"*0\r\n\r\n\r\n".to_vec(), ""),
        (b"\x00\xff\x16\x03\x01\x02 \x80\r\n".to_vec(), "-ERR unknown command"),
        (words(&[b""]), "-ERR unknown command"),
        (words(&[b"\r\n\x00"]), "-ERR unknown command"),
        (words(&[b"CL.THROTTLE", b"a", b"1", b"0", b"60"]), "-Cell error"),
        (words(&[b"CL.THROTTLE", b"a", b"-1", b"1", b"60"]), "-Cell error"),
        (words(&[b"CL.THROTTLE", b"a", b"1", b"1.5", b"60"]), "-Cell error"),
        (words(&[b"CL.THROTTLE", b"a", b"1", b"1", b"0"]), "-Cell error"),
        (words(&[b"CL.THROTTLE", b"a"]), "-Cell error"),
        (check(b"\xff"), "-ERR"),
        (check(b""), "-ERR"),
        (words(&[b"SLUICE.CHECK", b"logins"]), "-ERR"),
        (words(&[b"SLUICE.CHECK", b"logins", b"COST", b"-1", b"account", b"alice"]), "-ERR"),
        (words(&[b"SLUICE.CHECK", b"logins", b"COST", b"0.5", b"account", b"alice"]), "-ERR"),
        (words(&[b"SLUICE.CHECK", b"logins", b"account", b"alice", b"account", b"bob"]), "-ERR"),
        (words(&[b"SLUICE.CHECK", b"nobody", b"account", b"alice"]), "-ERR"),
        // Never, and not later.
        (words(&[b"SLUICE.CHECK", b"logins", b"COST", b"4", b"account", b"alice"]), "*8\r\n:0\r\n:3\r\n:3\r\n:-1\r\n"),
    ] {
        let told = exchange(at, &[&bytes[..], &ping, &look].concat());
        let told = String::from_utf8_lossy(&told);
        let shown = String::from_utf8_lossy(&bytes);
        assert!(told.starts_with(error) && told.contains("+PONG\r\n"), "{shown:?}: {told:?}");
        assert!(told.contains("+PONG\r\n*8\r\n:1\r\n:3\r\n:3\r\n"), "{shown:?} took something: {told:?}");
    }
    let told = exchange(at, &words(&[b"CL.THROTTLE", &long, b"1", b"1", b"60"]));
    assert!(told.is_empty() || told.starts_with(b"-ERR Protocol error: invalid bulk length"));
    for key in [&b""[..], b"{}", b"\0", b"a\r\nb", b"\xff\xfe", &long[..1_000_000]] {
        let told = exchange(at, &words(&[b"CL.THROTTLE", key, b"4", b"1", b"3600"]));
        assert_eq!(told, b"*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:3600\r\n");
    }
}

#[test]
fn resp_before_the_password() {
    let program = Program::start("server: { resp: { address: 127.0.0.1:0, secret: secret } }");
    let at = program.place("RESP");
    for (bytes, told) in [
        ("CL.THROTTLE a 1 1 60\r\n", "-NOAUTH"),
        ("PING\r\n", "-NOAUTH"),
        ("COMMAND\r\n", "-NOAUTH"),
        ("nonsense\r\n", "-NOAUTH"),
        ("HELLO 3\r\n", "-NOAUTH"),
        ("AUTH wrong\r\n", "-WRONGPASS"),
        ("HELLO 3 AUTH default wrong\r\n", "-WRONGPASS"),
        ("*11\r\n", "-ERR Protocol error: unauthenticated multibulk length"),
        ("*1\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length"),
    ] {
        let got = exchange(at, bytes.as_bytes());
        assert!(got.starts_with(told.as_bytes()), "{bytes:?}: {}", String::from_utf8_lossy(&got));
    }
    let right = format!("CL.THROTTLE a 0 1 60\r\nAUTH {}\r\nCL.THROTTLE a 0 1 60\r\n", program::SECRET);
    let got = String::from_utf8(exchange(at, right.as_bytes())).unwrap();
    assert_eq!(got, "-NOAUTH Authentication required.\r\n+OK\r\n*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n");
}

/// A million commands, and nobody reads the replies: they wait with the client, not in memory. When it reads at
/// last, all of them are answered.
#[test]
fn unread_replies_cost_no_memory() {
    const COMMANDS: usize = 1_000_000;
    /// What a connection may cost in KiB: a megabyte of replies, what is read at once, and what the allocator keeps.
    const ALLOWED: u64 = 16 << 10;

    let mut program = Program::start(FILE);
    let at = program.place("RESP");
    let one = b"*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\nk\r\n$7\r\n2000000\r\n$1\r\n1\r\n$2\r\n60\r\n";
    // The table of keys takes its memory with the first of them.
    exchange(at, &one.repeat(1_000));
    let before = program.memory();

    let mut stream = connect(at);
    let mut writing = stream.try_clone().unwrap();
    // It has stopped taking commands when none went for so long.
    writing.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let commands = one.repeat(COMMANDS);
    let mut sent = 0;
    let stopped = loop {
        match writing.write(&commands[sent..]) {
            Ok(more) if sent + more < commands.len() => sent += more,
            Ok(_) => break false,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break true,
            Err(error) => panic!("{error}"),
        }
    };
    assert!(stopped, "all commands were taken, though nobody reads the replies");
    assert!(program.memory() < before + ALLOWED, "{} KiB, before {before}", program.memory());
    // Others are served meanwhile.
    assert_eq!(exchange(at, b"PING\r\n"), b"+PONG\r\n");

    writing.set_write_timeout(Some(GUARD)).unwrap();
    let sending = thread::spawn(move || {
        writing.write_all(&commands[sent..]).unwrap();
        writing.shutdown(Shutdown::Write).unwrap();
    });
    let (mut replies, mut buffer) = (0, vec![0; 1 << 16]);
    loop {
        match stream.read(&mut buffer).unwrap() {
            0 => break,
            read => replies += buffer[..read].iter().filter(|byte| **byte == b'*').count(),
        }
    }
    sending.join().unwrap();
    assert_eq!(replies, COMMANDS);
    let after = program.memory();
    assert!(after < before + ALLOWED, "{after} KiB, before {before}");

    // Whoever goes without reading leaves nothing behind.
    for _ in 0..50 {
        let mut stream = connect(at);
        stream.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
        let commands = one.repeat(20_000);
        drop(stream.write_all(&commands));
    }
    until("they are gone", || program.memory() < after + ALLOWED);
    assert!(program.is_running());
    assert_eq!(exchange(at, b"PING\r\n"), b"+PONG\r\n");
}

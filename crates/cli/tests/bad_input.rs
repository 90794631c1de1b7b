//! Invalid input to the built program over real sockets: each gets a clear error or ends its connection, consumes no
//! quota, does not affect the next client, and does not grow memory.

use crate::program;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use program::{Program, TEST_TIMEOUT, run_command, wait_until};

const FILE: &str = "
server:
  rls: 127.0.0.1:0
  http: 127.0.0.1:0
  resp: 127.0.0.1:0
  max_keys: 1000
  threads: 2
rules:
  - { name: logins, key: account, limits: [3/1h] }
  - { name: addresses, direction: descriptor, key: \"descriptor['remote_address']\", limits: [3/1h] }
";

fn connect(at: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream
}

/// Sends these bytes, shuts down the write side, and reads until the connection ends.
fn exchange(at: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(at);
    if stream.write_all(bytes).is_ok() {
        drop(stream.shutdown(Shutdown::Write));
    }
    read_to_end(stream)
}

/// Reads until the end. A client that is cut off while sending may receive nothing.
fn read_to_end(mut stream: TcpStream) -> Vec<u8> {
    let mut reply = Vec::new();
    match stream.read_to_end(&mut reply) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
    reply
}

/// HTTP call; returns status and body.
fn post(program: &Program, path: &str, kind: &str, body: &str) -> (u16, String) {
    let head = format!("POST {path} HTTP/1.1\r\nHost: decisions\r\nConnection: close\r\nContent-Type: {kind}\r\n");
    let call = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    let mut stream = connect(program.address("HTTP"));
    stream.write_all(call.as_bytes()).unwrap();
    let reply = String::from_utf8(read_to_end(stream)).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{reply:?}"));
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
    for (body, status, expected) in [
        (named("", ""), 400, "empty"),
        (named("a\\u0000b", ""), 400, "control character"),
        (named("a\\r\\nb", ""), 400, "control character"),
        (named("alice", r#","cost":-1"#), 400, "whole number"),
        (named("alice", r#","cost":0.5"#), 400, "whole number"),
        (named("alice", r#","cost":1e308"#), 400, "whole number"),
        (named("alice", r#","cost":1,"cost":2"#), 400, "duplicate"),
        (named("alice", r#","rule":"logins""#), 400, "duplicate"),
        (named("alice", r#"},"attributes":{"account":"bob""#), 400, ""),
        (named("alice", r#","cots":1"#), 400, "cost"),
        (deep, 400, "expected"),
        ("[".repeat(10_000), 400, ""),
        (String::new(), 400, ""),
        (named("alice", "")[..20].to_owned(), 400, ""),
        (r#"{"rule":"logni"}"#.to_owned(), 404, "logins"),
        // "Never" differs from "later" and consumes no quota.
        (named("alice", r#","cost":4"#), 200, r#""verdict":"never""#),
        (named("alice", r#","cost":18446744073709551615"#), 200, r#""verdict":"never""#),
        (named("alice", r#","cost":0"#), 200, r#""verdict":"allowed""#),
    ] {
        let (got, text) = check(&program, &body);
        assert_eq!(got, status, "{body:.100}: {text}");
        assert!(text.contains(expected), "{body:.100}: {text}");
        let (_, left) = check(&program, &named("alice", r#","cost":0"#));
        assert!(left.contains(r#""remaining":3"#), "{body:.100} consumed quota: {left}");
    }
    // A body announced as too large is not read.
    let mut stream = connect(program.address("HTTP"));
    let head =
        "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1048577\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let reply = String::from_utf8(read_to_end(stream)).unwrap();
    assert!(reply.starts_with("HTTP/1.1 413 ") && reply.contains("too-large"), "{reply}");
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""] {
        let (status, text) = post(&program, "/v1/check", kind, &named("alice", ""));
        assert_eq!(status, 415, "{kind}: {text}");
    }
    // Names with special characters are ordinary names, each with its own count.
    let long = "k".repeat(1_000_000);
    for account in ["{}", "{a}b", "{a}", "a:b", "a*", "\\u00e9", "\\ud83d\\ude00", &long] {
        let (status, text) = check(&program, &named(account, ""));
        assert_eq!(status, 200, "{account:.100}: {text:.200}");
        assert!(text.contains(r#""remaining":2"#), "{account:.100}: {text:.200}");
    }
    let (_, left) = check(&program, &named("alice", ""));
    assert!(left.contains(r#""remaining":2"#), "{left}");
}

/// A length-delimited protobuf field.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut message = vec![number << 3 | 2];
    varint(&mut message, bytes.len() as u64);
    message.extend_from_slice(bytes);
    message
}

/// A varint protobuf field.
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

/// A gRPC message frame.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], &length[..], message].concat()
}

/// gRPC call; returns status, status message and response message.
fn grpc_call(program: &Program, body: &[u8]) -> (String, String, Vec<u8>) {
    let [sent, head, got] = ["sent", "head", "got"].map(|name| program.folder.join(name));
    fs::write(&sent, body).unwrap();
    fs::write(&got, "").unwrap();
    let address = program.address("RLS");
    let mut command = Command::new("curl");
    command.args(["--silent", "--http2-prior-knowledge", "--max-time", "60", "-H", "Content-Type: application/grpc"]);
    command.args(["-H", "TE: trailers", "--data-binary"]).arg(format!("@{}", sent.display()));
    command.arg("--dump-header").arg(&head).arg("--output").arg(&got);
    run_command(command.arg(format!("http://{address}/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit")));
    let heads = fs::read_to_string(&head).unwrap();
    let header = |name: &str| heads.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("").trim().to_owned();
    (header("grpc-status:"), header("grpc-message:"), fs::read(&got).unwrap())
}

#[test]
fn rls() {
    let program = Program::start(FILE);
    let domain = field(1, b"edge");
    let entry = field(1, &[field(1, b"remote_address"), field(2, b"10.0.0.1")].concat());
    let descriptor = field(2, &entry);
    let valid = [domain.clone(), descriptor.clone()].concat();
    let look =
        r#"{"domain":"edge","descriptors":[{"entries":[{"key":"remote_address","value":"10.0.0.1"}],"hitsAddend":0}]}"#;
    let with_unit = |unit| {
        let limit = field(2, &[number(1, 10), number(2, unit)].concat());
        [domain.clone(), field(2, &[entry.clone(), limit].concat())].concat()
    };
    for (request, expected) in [
        (descriptor.clone(), "domain"),
        (domain.clone(), "descriptor"),
        (Vec::new(), "domain"),
        ([domain.clone(), descriptor.repeat(10_000)].concat(), "descriptors"),
        ([domain.clone(), field(2, &field(1, b"").repeat(10_000))].concat(), "entries"),
        ([domain.clone(), field(2, b"")].concat(), "entries"),
        (with_unit(99), "unit"),
        (with_unit(0), "unit"),
        (valid[..valid.len() - 1].to_vec(), ""),
        (vec![0xff; 100], ""),
        ([valid.clone(), vec![0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]].concat(), ""),
        // Invalid UTF-8.
        ([field(1, b"\xff\xfe"), descriptor.clone()].concat(), ""),
        // Endlessly nested groups.
        ([valid.clone(), vec![0x0b; 100_000]].concat(), ""),
    ] {
        let (status, message, body) = grpc_call(&program, &framed(&request));
        assert_eq!((status.as_str(), body.len()), ("3", 0), "{expected}: {message}");
        assert!(message.to_lowercase().contains(expected), "{expected}: {message}");
        let (_, left) = post(&program, "/json", "application/json", look);
        assert!(left.contains(r#""limitRemaining":3"#), "{expected} consumed quota: {left}");
    }
    // Messages that are truncated, longer than announced, or announced as compressed or huge.
    let mut two = framed(&valid);
    two.extend(framed(&valid));
    for (frame, name) in [
        (framed(&valid)[..10].to_vec(), "cut"),
        (Vec::new(), "nothing"),
        (two, "two"),
        ([&[1], &framed(&valid)[1..]].concat(), "compressed"),
        (vec![0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3], "huge"),
    ] {
        let (status, message, body) = grpc_call(&program, &frame);
        assert!(!matches!(status.as_str(), "" | "0"), "{name}: {status} {message}");
        assert!(body.is_empty(), "{name}");
        let (_, left) = post(&program, "/json", "application/json", look);
        assert!(left.contains(r#""limitRemaining":3"#), "{name} consumed quota: {left}");
    }
    // More than the limit allows: refused, and no quota is consumed.
    let max_hits = [valid.clone(), number(3, u64::from(u32::MAX))].concat();
    let (status, message, body) = grpc_call(&program, &framed(&max_hits));
    assert_eq!((status.as_str(), &body[5..7]), ("0", &[0x08, 2][..]), "{message}: over the limit");
    let (_, left) = post(&program, "/json", "application/json", look);
    assert!(left.contains(r#""limitRemaining":3"#), "{left}");
    let (status, message, body) = grpc_call(&program, &framed(&valid));
    assert_eq!((status.as_str(), &body[5..7]), ("0", &[0x08, 1][..]), "{message}: admitted");
}

#[test]
fn resp() {
    let program = Program::start(FILE);
    let at = program.address("RESP");
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
    // Unparsable input ends the connection: the start of the next command is unknown.
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
        let reply = exchange(at, &[&bytes[..], &ping].concat());
        let reply = String::from_utf8_lossy(&reply);
        assert!(reply.starts_with("-ERR Protocol error: ") && reply.contains(error), "{shown:?}: {reply:?}");
        assert!(!reply.contains("PONG"), "{shown:?}: {reply:?}");
    }
    // Well-formed but invalid commands are refused, and the connection continues.
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
        (words(&[b"SLUICE.CHECK", b"unknown", b"account", b"alice"]), "-ERR"),
        // "Never", not "later".
        (words(&[b"SLUICE.CHECK", b"logins", b"COST", b"4", b"account", b"alice"]), "*8\r\n:0\r\n:3\r\n:3\r\n:-1\r\n"),
    ] {
        let reply = exchange(at, &[&bytes[..], &ping, &look].concat());
        let reply = String::from_utf8_lossy(&reply);
        let shown = String::from_utf8_lossy(&bytes);
        assert!(reply.starts_with(error) && reply.contains("+PONG\r\n"), "{shown:?}: {reply:?}");
        assert!(reply.contains("+PONG\r\n*8\r\n:1\r\n:3\r\n:3\r\n"), "{shown:?} consumed quota: {reply:?}");
    }
    let reply = exchange(at, &words(&[b"CL.THROTTLE", &long, b"1", b"1", b"60"]));
    assert!(reply.is_empty() || reply.starts_with(b"-ERR Protocol error: invalid bulk length"));
    for key in [&b""[..], b"{}", b"\0", b"a\r\nb", b"\xff\xfe", &long[..1_000_000]] {
        let reply = exchange(at, &words(&[b"CL.THROTTLE", key, b"4", b"1", b"3600"]));
        assert_eq!(reply, b"*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:3600\r\n");
    }
}

#[test]
fn resp_before_the_password() {
    let program = Program::start("server: { resp: { address: 127.0.0.1:0, secret_file: secret } }");
    let at = program.address("RESP");
    for (bytes, expected) in [
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
        assert!(got.starts_with(expected.as_bytes()), "{bytes:?}: {}", String::from_utf8_lossy(&got));
    }
    let right = format!("CL.THROTTLE a 0 1 60\r\nAUTH {}\r\nCL.THROTTLE a 0 1 60\r\n", program::SECRET);
    let got = String::from_utf8(exchange(at, right.as_bytes())).unwrap();
    assert_eq!(got, "-NOAUTH Authentication required.\r\n+OK\r\n*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n");
}

/// A million commands without reading replies: the backlog stays with the client, not in memory. Once the client
/// reads, all commands get a reply.
#[test]
fn unread_replies_cost_no_memory() {
    const COMMANDS: usize = 1_000_000;
    /// Maximum cost of a connection in KiB: a megabyte of replies, the read buffer, and memory retained by the
    /// allocator.
    const MAX_KIB_PER_CONNECTION: u64 = 16 << 10;

    let mut program = Program::start(FILE);
    let at = program.address("RESP");
    let one = b"*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\nk\r\n$7\r\n2000000\r\n$1\r\n1\r\n$2\r\n60\r\n";
    // The key table allocates its memory with the first key.
    exchange(at, &one.repeat(1_000));
    let before = program.memory_kib();

    let mut stream = connect(at);
    let mut writing = stream.try_clone().unwrap();
    // The server has stopped reading if no write succeeds for this long.
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
    assert!(stopped, "all commands were read although the replies are not");
    assert!(program.memory_kib() < before + MAX_KIB_PER_CONNECTION, "{} KiB, before {before}", program.memory_kib());
    // Other clients are served meanwhile.
    assert_eq!(exchange(at, b"PING\r\n"), b"+PONG\r\n");

    writing.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
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
    let after = program.memory_kib();
    assert!(after < before + MAX_KIB_PER_CONNECTION, "{after} KiB, before {before}");

    // Clients that disconnect without reading leave nothing behind.
    for _ in 0..50 {
        let mut stream = connect(at);
        stream.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
        let commands = one.repeat(20_000);
        drop(stream.write_all(&commands));
    }
    wait_until("the memory is released", || program.memory_kib() < after + MAX_KIB_PER_CONNECTION);
    assert!(program.is_running());
    assert_eq!(exchange(at, b"PING\r\n"), b"+PONG\r\n");
}

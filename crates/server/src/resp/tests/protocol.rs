//! Handshake and connection commands.

use super::{RespServer, command};

/// An inline command and its reply.
pub(super) type LineAndReply = (&'static str, &'static str);

pub(super) async fn assert_replies(server: &RespServer, cases: &[LineAndReply]) {
    let mut client = server.connect();
    for (line, expected) in cases {
        client.line(line, expected).await;
    }
}

const HELLO_3: &str = "%7\r\n$6\r\nserver\r\n$10\r\nsluicegate\r\n$7\r\nversion\r\n$5\r\n7.2.0\r\n$5\r\nproto\r\n:3\r\n\
                       $2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n\
                       $7\r\nmodules\r\n*0\r\n";
const HELLO_2: &str = "*14\r\n$6\r\nserver\r\n$10\r\nsluicegate\r\n$7\r\nversion\r\n$5\r\n7.2.0\r\n$5\r\nproto\r\n:2\r\n\
                       $2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n\
                       $7\r\nmodules\r\n*0\r\n";

#[tokio::test]
async fn replies_match_redis() {
    assert_replies(
        &RespServer::new(),
        &[
            ("PING", "+PONG\r\n"),
            ("ping hi", "$2\r\nhi\r\n"),
            ("PING a b", "-ERR wrong number of arguments for 'ping' command\r\n"),
            ("ECHO \"a b\"", "$3\r\na b\r\n"),
            ("ECHO", "-ERR wrong number of arguments for 'echo' command\r\n"),
            ("SELECT 0", "+OK\r\n"),
            ("SELECT 1", "-ERR DB index is out of range\r\n"),
            ("SELECT x", "-ERR value is not an integer or out of range\r\n"),
            ("CLIENT GETNAME", "$-1\r\n"),
            ("CLIENT SETNAME worker-1", "+OK\r\n"),
            ("CLIENT GETNAME", "$8\r\nworker-1\r\n"),
            (
                "CLIENT SETNAME \"a b\"",
                "-ERR Client names cannot contain spaces, newlines or special characters.\r\n",
            ),
            ("CLIENT SETINFO LIB-NAME redis-py", "+OK\r\n"),
            ("CLIENT SETINFO lib-ver 5.0", "+OK\r\n"),
            ("CLIENT SETINFO color red", "-ERR Unrecognized option 'color'\r\n"),
            ("CLIENT ID", ":1\r\n"),
            ("CLIENT INFO", "$52\r\nid=1 name=worker-1 flags=N db=0 user=default resp=2\n\r\n"),
            ("CLIENT LIST", "$52\r\nid=1 name=worker-1 flags=N db=0 user=default resp=2\n\r\n"),
            ("CLIENT NO-EVICT on", "+OK\r\n"),
            ("CLIENT NO-TOUCH off", "+OK\r\n"),
            ("CLIENT REPLY ON", "+OK\r\n"),
            ("CLIENT REPLY OFF", "-ERR only CLIENT REPLY ON is supported\r\n"),
            ("CLIENT ID 1", "-ERR wrong number of arguments for 'client|id' command\r\n"),
            (
                "CLIENT KILL x",
                "-ERR unknown subcommand 'KILL'. CLIENT supports getname, id, info, list, no-evict, no-touch, reply, \
                 setinfo, setname.\r\n",
            ),
            ("CONFIG GET save appendonly", "*4\r\n$10\r\nappendonly\r\n$2\r\nno\r\n$4\r\nsave\r\n$0\r\n\r\n"),
            ("CONFIG GET nothing", "*0\r\n"),
            ("CONFIG SET a b", "-ERR unknown subcommand 'SET'. CONFIG supports get.\r\n"),
            ("COMMAND HELP", "-ERR unknown subcommand 'HELP'. COMMAND supports count, docs, getkeys, info, list.\r\n"),
            ("CLUSTER SLOTS", "-ERR This instance has cluster support disabled\r\n"),
            ("TIME", "*2\r\n$10\r\n1767226600\r\n$1\r\n0\r\n"),
            ("COMMAND COUNT", ":20\r\n"),
            ("COMMAND GETKEYS CL.THROTTLE k 1 1 1", "*1\r\n$1\r\nk\r\n"),
            ("COMMAND GETKEYS PING", "-ERR The command has no key arguments\r\n"),
            (
                "COMMAND INFO nope throttle",
                "*2\r\n$-1\r\n*10\r\n$8\r\nthrottle\r\n:-5\r\n*2\r\n+write\r\n+fast\r\n:1\r\n:1\r\n:1\r\n*0\r\n*0\r\n*1\r\n*6\r\n\
                 $5\r\nflags\r\n*3\r\n+RW\r\n+access\r\n+update\r\n$12\r\nbegin_search\r\n*4\r\n$4\r\ntype\r\n$5\r\nindex\r\n\
                 $4\r\nspec\r\n*2\r\n$5\r\nindex\r\n:1\r\n$9\r\nfind_keys\r\n*4\r\n$4\r\ntype\r\n$5\r\nrange\r\n$4\r\nspec\r\n\
                 *6\r\n$7\r\nlastkey\r\n:0\r\n$7\r\nkeystep\r\n:1\r\n$5\r\nlimit\r\n:0\r\n*0\r\n",
            ),
            ("GET a b", "-ERR unknown command 'GET', with args beginning with: 'a' 'b' \r\n"),
            ("\"a\\r\\nb\"", "-ERR unknown command 'a  b', with args beginning with: \r\n"),
            (
                "AUTH x",
                "-ERR AUTH <password> called without any password configured for the default user. Are you sure your \
                 configuration is correct?\r\n",
            ),
            ("AUTH default anything", "+OK\r\n"),
            ("AUTH other anything", "-WRONGPASS invalid username-password pair or user is disabled.\r\n"),
            ("HELLO", HELLO_2),
            ("HELLO 4", "-NOPROTO unsupported protocol version\r\n"),
            ("HELLO x", "-ERR Protocol version is not an integer or out of range\r\n"),
            ("HELLO 3 SETNAME", "-ERR Syntax error in HELLO option 'SETNAME'\r\n"),
            ("HELLO 3 SETNAME second", HELLO_3),
            ("CLIENT GETNAME", "$6\r\nsecond\r\n"),
            ("CONFIG GET save", "%1\r\n$4\r\nsave\r\n$0\r\n\r\n"),
            ("CL.THROTTLE k 1 1 1", "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:1\r\n"),
            ("RESET", "+RESET\r\n"),
            ("CLIENT GETNAME", "$-1\r\n"),
            ("QUIT", "+OK\r\n"),
        ],
    )
    .await;
}

#[tokio::test]
async fn info_reports_that_loading_is_done() {
    let server = RespServer::new();
    let mut client = server.connect();
    client.send("HELLO 3\r\nINFO\r\nINFO replication\r\nQUIT\r\n").await;
    let text = String::from_utf8(client.read_to_end().await).unwrap();
    assert!(text.contains("=") && text.contains("txt:# Server\r\nredis_version:7.2.0\r\n"), "{text}");
    assert!(text.contains("loading:0\r\n") && text.contains("role:master\r\n"), "{text}");
    assert!(text.ends_with("=52\r\ntxt:# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n+OK\r\n"), "{text}");
}

#[tokio::test]
async fn unauthenticated_clients_are_refused() {
    let refused = "-NOAUTH Authentication required.\r\n";
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    let hello_first = "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
                       <user> <pass> option can be used to authenticate the client and select the RESP protocol version \
                       at the same time\r\n";
    let server = RespServer::with_secret(Some("correct horse"));
    assert_replies(
        &server,
        &[
            ("PING", refused),
            ("CL.THROTTLE k 1 1 1", refused),
            ("SLUICE.CHECK per-account account a", refused),
            ("COMMAND", refused),
            ("INFO", refused),
            ("CLIENT LIST", refused),
            ("NOTHING", refused),
            ("HELLO", hello_first),
            ("HELLO 3", hello_first),
            ("AUTH nope", wrong),
            ("AUTH default nope", wrong),
            ("AUTH other \"correct horse\"", wrong),
            ("AUTH a b c", "-ERR syntax error\r\n"),
            ("HELLO 3 AUTH default nope", wrong),
            ("PING", refused),
            ("AUTH \"correct horse\"", "+OK\r\n"),
            ("PING", "+PONG\r\n"),
            ("AUTH nope", wrong),
            ("PING", "+PONG\r\n"),
            ("RESET", "+RESET\r\n"),
            ("PING", refused),
            ("AUTH default \"correct horse\"", "+OK\r\n"),
            ("CL.THROTTLE k 1 1 1 0", "*5\r\n:0\r\n:2\r\n:2\r\n:-1\r\n:0\r\n"),
        ],
    )
    .await;
    let mut client = server.connect();
    client.send("HELLO 3 AUTH default \"correct horse\"\r\nPING\r\nQUIT\r\n").await;
    let text = String::from_utf8(client.read_to_end().await).unwrap();
    assert!(text.starts_with("%7\r\n") && text.ends_with("+PONG\r\n+OK\r\n"), "{text}");
}

#[tokio::test]
async fn unauthenticated_input_is_bounded() {
    let server = RespServer::with_secret(Some("correct horse"));
    for (bytes, error) in [
        ("*11\r\n", "-ERR Protocol error: unauthenticated multibulk length\r\n"),
        ("*2\r\n$4\r\nAUTH\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length\r\n"),
    ] {
        let mut client = server.connect();
        client.send(bytes).await;
        assert_eq!(String::from_utf8(client.read_to_end().await).unwrap(), error);
    }
}

#[tokio::test]
async fn a_protocol_error_closes_the_connection() {
    for (bytes, error) in [
        ("*x\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
        ("*1025\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
        ("*99999999999999999999\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
        ("*1\r\n:1\r\n", "-ERR Protocol error: expected '$', got ':'\r\n"),
        ("*1\r\n\r\n", "-ERR Protocol error: expected '$', got '\\r'\r\n"),
        ("*1\r\n$999999999\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        ("*1\r\n$-1\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        ("*1\r\n$65536\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        ("*1\r\n$4\r\nPINGxx", "-ERR Protocol error: expected CRLF after a bulk string\r\n"),
        ("*1\r\n$4\rxPING", "-ERR Protocol error: invalid bulk length\r\n"),
        ("PING \"x\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"),
        ("PING \"x\"y\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"),
        // A browser.
        ("POST / HTTP/1.1\r\nHost: x\r\n\r\n", ""),
    ] {
        let server = RespServer::new();
        let mut client = server.connect();
        client.send(format!("PING\r\n{bytes}")).await;
        let _ = client.try_send(b"\r\nPING\r\nPING\r\n").await;
        let rest = String::from_utf8(client.read_to_end().await).unwrap();
        assert_eq!(rest, format!("+PONG\r\n{error}"), "{bytes}");
    }
}

#[tokio::test]
async fn empty_arrays_and_lines_are_skipped() {
    let server = RespServer::new();
    let mut client = server.connect();
    client.send("*-2\r\n*0\r\n*-1\r\n\r\n\n  \r\nPING\r\n").await;
    client.expect("+PONG\r\n").await;
}

#[tokio::test]
async fn pipelined_replies_keep_their_order() {
    let server = RespServer::new();
    let mut client = server.connect();
    let mut bytes = Vec::new();
    let mut expected = String::new();
    for number in 0..1_000 {
        let word = format!("{number}");
        bytes.extend(command(&[b"ECHO", word.as_bytes()]));
        expected.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    client.send(&bytes).await;
    client.expect(expected).await;
}

#[tokio::test]
async fn keys_are_any_bytes() {
    let server = RespServer::new();
    let mut client = server.connect();
    let long = vec![b'k'; 60_000];
    for key in [b"".as_slice(), b"\0", b"\r\n", b"{tag}", b"\xff\xfe", &long] {
        for expected in ["*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:1\r\n", "*5\r\n:1\r\n:1\r\n:0\r\n:1\r\n:1\r\n"] {
            client.send(command(&[b"CL.THROTTLE", key, b"0", b"1", b"1"])).await;
            client.expect(expected).await;
        }
    }
}

impl super::RespClient {
    /// Sends more bytes, even if the server has closed the connection.
    async fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        tokio::io::AsyncWriteExt::write_all(&mut self.io, bytes).await
    }
}

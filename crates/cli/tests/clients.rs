//! Other people's clients against the built program: each connects as it comes, without special settings.
//!
//! redis-py and ioredis hold the conversations in `clients/`, once over a bare connection, once with a password,
//! once with a password and TLS. `scripts/clients` installs them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod program;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use program::{Program, SECRET, installed, make_certificates, ran};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, IntoConnectionInfo, Value};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

const RULES: &str = "rules: [{ name: logins, key: account, limits: [3/1h] }]";

/// How a client comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Bare,
    Password,
    Encrypted,
}

impl Way {
    fn start(self) -> Program {
        match self {
            Self::Bare => Program::start(&format!("server: {{ resp: 127.0.0.1:0 }}\n{RULES}")),
            Self::Password => {
                Program::start(&format!("server: {{ resp: {{ address: 127.0.0.1:0, secret: secret }} }}\n{RULES}"))
            }
            Self::Encrypted => Program::start_with(
                &format!(
                    "server:\n  resp:\n    address: 127.0.0.1:0\n    secret: secret\n    tls: {{ certificate: \
                     server.pem, key: server.key }}\n{RULES}"
                ),
                make_certificates,
            ),
        }
    }

    /// The words of a script that is told where to go.
    fn words(self, program: &Program) -> Vec<String> {
        let at = program.place("RESP");
        let mut words = vec![at.ip().to_string(), at.port().to_string()];
        if self != Self::Bare {
            words.push(SECRET.to_owned());
        }
        if self == Self::Encrypted {
            words.push(program.folder.join("ca.pem").display().to_string());
        }
        words
    }

    /// A program of Redis, told where to go.
    fn redis_tool(self, name: &str, program: &Program) -> Command {
        let at = program.place("RESP");
        let mut command = Command::new(name);
        command.args(["-h", &at.ip().to_string(), "-p", &at.port().to_string()]);
        if self != Self::Bare {
            command.args(["-a", SECRET]);
        }
        if self == Self::Encrypted {
            command.args(["--tls", "--cacert"]).arg(program.folder.join("ca.pem"));
        }
        command
    }
}

fn script(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

#[test]
fn redis_py() {
    for way in [Way::Bare, Way::Password, Way::Encrypted] {
        let program = way.start();
        let told = ran(Command::new(installed("bin/python")).arg(script("redis_py.py")).args(way.words(&program)));
        assert_eq!(told, "all was as it should be\n", "{way:?}");
    }
}

#[test]
fn ioredis() {
    for way in [Way::Bare, Way::Password, Way::Encrypted] {
        let program = way.start();
        let mut command = Command::new(installed("bin/node"));
        command.env("NODE_PATH", installed("node_modules")).arg(script("ioredis.js")).args(way.words(&program));
        assert_eq!(ran(&mut command), "all was as it should be\n", "{way:?}");
    }
}

#[test]
fn redis_cli() {
    for way in [Way::Bare, Way::Password, Way::Encrypted] {
        let program = way.start();
        for (version, key) in [("-2", "second"), ("-3", "third")] {
            let tell =
                |words: &str| ran(way.redis_tool("redis-cli", &program).arg(version).args(words.split_whitespace()));
            assert_eq!(tell("PING"), "PONG\n");
            assert_eq!(tell(&format!("CL.THROTTLE {key} 15 30 60 1")), "0\n16\n15\n-1\n2\n");
            assert_eq!(tell(&format!("CL.THROTTLE {key}:one 0 1 3600")), "0\n1\n0\n-1\n3600\n");
            assert_eq!(tell(&format!("CL.THROTTLE {key}:one 0 1 3600")), "1\n1\n0\n3600\n3600\n");
            assert!(tell("CL.THROTTLE a 1 0 60").contains("Zero rates are not supported"));
            assert!(tell(&format!("SLUICE.CHECK logins account {key}")).starts_with("1\n3\n2\n"));
            assert!(tell("INFO server").contains("redis_version:"));
            assert!(tell("COMMAND DOCS cl.throttle").contains("redis-cell"));
        }
    }
}

/// What people pipe into redis-cli arrives as it should, however much it is.
#[test]
fn redis_cli_pipes() {
    let program = Way::Bare.start();
    let commands = "CL.THROTTLE piped 99999 1 1200\r\n".repeat(10_000);
    let file = program.folder.join("commands");
    std::fs::write(&file, commands).unwrap();
    let mut command = Way::Bare.redis_tool("redis-cli", &program);
    let output = command.arg("--pipe").stdin(std::fs::File::open(&file).unwrap()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    // It ends by an ECHO of its own.
    assert!(told.contains("errors: 0, replies: 10000"), "{told}");
    let left =
        ran(Way::Bare.redis_tool("redis-cli", &program).args(["CL.THROTTLE", "piped", "99999", "1", "1200", "0"]));
    assert!(left.starts_with("0\n100000\n90000\n"), "{left}");
}

#[test]
fn redis_benchmark() {
    for way in [Way::Bare, Way::Password, Way::Encrypted] {
        let program = way.start();
        for pipelined in ["1", "16"] {
            let mut command = way.redis_tool("redis-benchmark", &program);
            command.args(["-n", "2000", "-c", "20", "-r", "100000", "-q", "-P", pipelined]);
            let told = ran(command.args(["CL.THROTTLE", "key:__rand_int__", "100", "100", "60"]));
            assert!(told.contains("requests per second"), "{told}");
            assert!(!told.to_lowercase().contains("error"), "{told}");
        }
        let mut command = way.redis_tool("redis-benchmark", &program);
        let told = ran(command.args(["-n", "500", "-q", "-t", "ping"]));
        assert!(told.contains("PING_MBULK"), "{told}");
    }
}

fn redis_rs_url(at: SocketAddr, way: Way, protocol: &str) -> String {
    let password = if way == Way::Bare { String::new() } else { format!(":{SECRET}@") };
    format!("redis://{password}{at}/{protocol}")
}

fn numbers(told: &Value) -> Vec<i64> {
    redis::from_redis_value(told.clone()).unwrap()
}

#[test]
fn redis_rs() {
    for way in [Way::Bare, Way::Password] {
        let program = way.start();
        for protocol in ["", "?protocol=resp3"] {
            let client = redis::Client::open(redis_rs_url(program.place("RESP"), way, protocol)).unwrap();
            let mut connection = client.get_connection().unwrap();
            let mut throttle = |key: &str, rest: &[i64]| {
                let told = redis::cmd("CL.THROTTLE").arg(format!("{protocol}{key}")).arg(rest).query(&mut connection);
                numbers(&told.unwrap())
            };
            assert_eq!(throttle("documented", &[15, 30, 60, 1]), [0, 16, 15, -1, 2]);
            assert_eq!(throttle("single", &[0, 1, 3_600]), [0, 1, 0, -1, 3_600]);
            assert_eq!(throttle("single", &[0, 1, 3_600]), [1, 1, 0, 3_600, 3_600]);
            assert_eq!(throttle("looked", &[4, 1, 3_600, 0]), [0, 5, 5, -1, 0]);
            let zero: Result<Value, _> = redis::cmd("CL.THROTTLE").arg("a").arg(&[1, 0, 60]).query(&mut connection);
            assert!(zero.unwrap_err().to_string().contains("Zero rates"));

            let mut pipeline = redis::pipe();
            for _ in 0..1_000 {
                pipeline.cmd("CL.THROTTLE").arg(format!("{protocol}many")).arg(&[999, 1, 3_600]);
            }
            let told: Vec<Value> = pipeline.query(&mut connection).unwrap();
            let remaining: Vec<i64> = told.iter().map(|told| numbers(told)[2]).collect();
            assert_eq!(remaining, (0..1_000).rev().collect::<Vec<_>>());

            let bye: String = redis::cmd("QUIT").query(&mut connection).unwrap();
            assert_eq!(bye, "OK");
            let mut again = client.get_connection().unwrap();
            let pong: String = redis::cmd("PING").query(&mut again).unwrap();
            assert_eq!(pong, "PONG");
        }
    }
    let program = Way::Password.start();
    let stranger = redis::Client::open(redis_rs_url(program.place("RESP"), Way::Bare, "")).unwrap();
    let told = stranger.get_connection().and_then(|mut it| redis::cmd("CL.THROTTLE").arg("a").query::<Value>(&mut it));
    assert!(told.unwrap_err().to_string().contains("NOAUTH"));
}

/// redis-rs over TLS, on a stream of its own making, as programs do that bring their own rustls.
#[test]
fn redis_rs_over_tls() {
    let program = Way::Encrypted.start();
    let at = program.place("RESP");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(program.folder.join("ca.pem")).unwrap()).unwrap();
    let config =
        ClientConfig::builder_with_provider(ring::default_provider().into()).with_safe_default_protocol_versions();
    let config = Arc::new(config.unwrap().with_root_certificates(roots).with_no_client_auth());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for protocol in ["", "?protocol=resp3"] {
            let info = redis_rs_url(at, Way::Encrypted, protocol).into_connection_info().unwrap();
            let stream = TcpStream::connect(at).await.unwrap();
            let stream = TlsConnector::from(Arc::clone(&config)).connect("localhost".try_into().unwrap(), stream).await;
            // A machine may be busy.
            let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
            let connecting = MultiplexedConnection::new_with_config(info.redis_settings(), stream.unwrap(), config);
            let (mut connection, reading) = connecting.await.unwrap();
            let reading = tokio::spawn(reading);
            let mut pipeline = redis::pipe();
            for _ in 0..1_000 {
                pipeline.cmd("CL.THROTTLE").arg(format!("{protocol}many")).arg(&[999, 1, 3_600]);
            }
            let told: Vec<Value> = pipeline.query_async(&mut connection).await.unwrap();
            let remaining: Vec<i64> = told.iter().map(|told| numbers(told)[2]).collect();
            assert_eq!(remaining, (0..1_000).rev().collect::<Vec<_>>());
            reading.abort();
        }
    });
}

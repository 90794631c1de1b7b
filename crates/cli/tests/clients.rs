//! Third-party clients against the built program, with their default settings.
//!
//! redis-py and ioredis run the scripts in `clients/` over a plain connection, with a password, and with a
//! password and TLS. `scripts/install-clients` installs them.

use crate::program;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use program::{Program, SECRET, installed_client, make_certificates, run_command};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, IntoConnectionInfo, Value};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

const RULES: &str = "rules: [{ name: logins, key: account, limits: [3/1h] }]";

/// Transport of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Bare,
    Password,
    Encrypted,
}

impl Transport {
    fn start(self) -> Program {
        match self {
            Self::Bare => Program::start(&format!("server: {{ resp: 127.0.0.1:0 }}\n{RULES}")),
            Self::Password => {
                Program::start(&format!("server: {{ resp: {{ address: 127.0.0.1:0, secret_file: secret }} }}\n{RULES}"))
            }
            Self::Encrypted => Program::start_with(
                &format!(
                    "server:\n  resp:\n    address: 127.0.0.1:0\n    secret_file: secret\n    tls: {{ certificate: \
                     server.pem, key: server.key }}\n{RULES}"
                ),
                make_certificates,
            ),
        }
    }

    /// Arguments of a client script.
    fn script_args(self, program: &Program) -> Vec<String> {
        let at = program.address("RESP");
        let mut words = vec![at.ip().to_string(), at.port().to_string()];
        if self != Self::Bare {
            words.push(SECRET.to_owned());
        }
        if self == Self::Encrypted {
            words.push(program.folder.join("ca.pem").display().to_string());
        }
        words
    }

    /// A Redis command-line tool with its connection arguments.
    fn redis_tool(self, name: &str, program: &Program) -> Command {
        let at = program.address("RESP");
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
    for way in [Transport::Bare, Transport::Password, Transport::Encrypted] {
        let program = way.start();
        let output = run_command(
            Command::new(installed_client("bin/python")).arg(script("redis_py.py")).args(way.script_args(&program)),
        );
        assert_eq!(output, "all was as it should be\n", "{way:?}");
    }
}

#[test]
fn ioredis() {
    for way in [Transport::Bare, Transport::Password, Transport::Encrypted] {
        let program = way.start();
        let mut command = Command::new(installed_client("bin/node"));
        command
            .env("NODE_PATH", installed_client("node_modules"))
            .arg(script("ioredis.js"))
            .args(way.script_args(&program));
        assert_eq!(run_command(&mut command), "all was as it should be\n", "{way:?}");
    }
}

#[test]
fn redis_cli() {
    for way in [Transport::Bare, Transport::Password, Transport::Encrypted] {
        let program = way.start();
        for (version, key) in [("-2", "second"), ("-3", "third")] {
            let run = |words: &str| {
                run_command(way.redis_tool("redis-cli", &program).arg(version).args(words.split_whitespace()))
            };
            assert_eq!(run("PING"), "PONG\n");
            assert_eq!(run(&format!("CL.THROTTLE {key} 15 30 60 1")), "0\n16\n15\n-1\n2\n");
            assert_eq!(run(&format!("CL.THROTTLE {key}:one 0 1 3600")), "0\n1\n0\n-1\n3600\n");
            assert_eq!(run(&format!("CL.THROTTLE {key}:one 0 1 3600")), "1\n1\n0\n3600\n3600\n");
            assert!(run("CL.THROTTLE a 1 0 60").contains("Zero rates are not supported"));
            assert!(run(&format!("SLUICE.CHECK logins account {key}")).starts_with("1\n3\n2\n"));
            assert!(run("INFO server").contains("redis_version:"));
            assert!(run("COMMAND DOCS cl.throttle").contains("redis-cell"));
        }
    }
}

/// Large input piped into redis-cli is processed completely.
#[test]
fn redis_cli_pipes() {
    let program = Transport::Bare.start();
    let commands = "CL.THROTTLE piped 99999 1 1200\r\n".repeat(10_000);
    let file = program.folder.join("commands");
    std::fs::write(&file, commands).unwrap();
    let mut command = Transport::Bare.redis_tool("redis-cli", &program);
    let output = command.arg("--pipe").stdin(std::fs::File::open(&file).unwrap()).output().unwrap();
    let output = String::from_utf8_lossy(&output.stdout);
    // redis-cli appends an ECHO.
    assert!(output.contains("errors: 0, replies: 10000"), "{output}");
    let left = run_command(Transport::Bare.redis_tool("redis-cli", &program).args([
        "CL.THROTTLE",
        "piped",
        "99999",
        "1",
        "1200",
        "0",
    ]));
    assert!(left.starts_with("0\n100000\n90000\n"), "{left}");
}

#[test]
fn redis_benchmark() {
    for way in [Transport::Bare, Transport::Password, Transport::Encrypted] {
        let program = way.start();
        for pipelined in ["1", "16"] {
            let mut command = way.redis_tool("redis-benchmark", &program);
            command.args(["-n", "2000", "-c", "20", "-r", "100000", "-q", "-P", pipelined]);
            let output = run_command(command.args(["CL.THROTTLE", "key:__rand_int__", "100", "100", "60"]));
            assert!(output.contains("requests per second"), "{output}");
            assert!(!output.to_lowercase().contains("error"), "{output}");
        }
        let mut command = way.redis_tool("redis-benchmark", &program);
        let output = run_command(command.args(["-n", "500", "-q", "-t", "ping"]));
        assert!(output.contains("PING_MBULK"), "{output}");
    }
}

fn redis_rs_url(at: SocketAddr, way: Transport, protocol: &str) -> String {
    let password = if way == Transport::Bare { String::new() } else { format!(":{SECRET}@") };
    format!("redis://{password}{at}/{protocol}")
}

fn numbers(reply: &Value) -> Vec<i64> {
    redis::from_redis_value(reply.clone()).unwrap()
}

#[test]
fn redis_rs() {
    for way in [Transport::Bare, Transport::Password] {
        let program = way.start();
        for protocol in ["", "?protocol=resp3"] {
            let client = redis::Client::open(redis_rs_url(program.address("RESP"), way, protocol)).unwrap();
            let mut connection = client.get_connection().unwrap();
            let mut throttle = |key: &str, rest: &[i64]| {
                let output = redis::cmd("CL.THROTTLE").arg(format!("{protocol}{key}")).arg(rest).query(&mut connection);
                numbers(&output.unwrap())
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
            let replies: Vec<Value> = pipeline.query(&mut connection).unwrap();
            let remaining: Vec<i64> = replies.iter().map(|reply| numbers(reply)[2]).collect();
            assert_eq!(remaining, (0..1_000).rev().collect::<Vec<_>>());

            let bye: String = redis::cmd("QUIT").query(&mut connection).unwrap();
            assert_eq!(bye, "OK");
            let mut again = client.get_connection().unwrap();
            let pong: String = redis::cmd("PING").query(&mut again).unwrap();
            assert_eq!(pong, "PONG");
        }
    }
    let program = Transport::Password.start();
    let unauthenticated = redis::Client::open(redis_rs_url(program.address("RESP"), Transport::Bare, "")).unwrap();
    let output =
        unauthenticated.get_connection().and_then(|mut it| redis::cmd("CL.THROTTLE").arg("a").query::<Value>(&mut it));
    assert!(output.unwrap_err().to_string().contains("NOAUTH"));
}

/// redis-rs over TLS on a custom stream, as programs with their own rustls use it.
#[test]
fn redis_rs_over_tls() {
    let program = Transport::Encrypted.start();
    let at = program.address("RESP");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(program.folder.join("ca.pem")).unwrap()).unwrap();
    let config =
        ClientConfig::builder_with_provider(ring::default_provider().into()).with_safe_default_protocol_versions();
    let config = Arc::new(config.unwrap().with_root_certificates(roots).with_no_client_auth());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for protocol in ["", "?protocol=resp3"] {
            let info = redis_rs_url(at, Transport::Encrypted, protocol).into_connection_info().unwrap();
            let stream = TcpStream::connect(at).await.unwrap();
            let stream = TlsConnector::from(Arc::clone(&config)).connect("localhost".try_into().unwrap(), stream).await;
            // The machine may be busy.
            let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
            let connecting = MultiplexedConnection::new_with_config(info.redis_settings(), stream.unwrap(), config);
            let (mut connection, reading) = connecting.await.unwrap();
            let reading = tokio::spawn(reading);
            let mut pipeline = redis::pipe();
            for _ in 0..1_000 {
                pipeline.cmd("CL.THROTTLE").arg(format!("{protocol}many")).arg(&[999, 1, 3_600]);
            }
            let replies: Vec<Value> = pipeline.query_async(&mut connection).await.unwrap();
            let remaining: Vec<i64> = replies.iter().map(|reply| numbers(reply)[2]).collect();
            assert_eq!(remaining, (0..1_000).rev().collect::<Vec<_>>());
            reading.abort();
        }
    });
}

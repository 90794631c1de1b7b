//! RabbitMQ server.
//!
//! By default RabbitMQ shares three things on a machine: the directories in `/var`, the node name, and
//! `epmd`, the Erlang port mapper daemon, which outlives the nodes. Here each server has its own.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::process::{ServerProcess, StartError, free_ports, with_retries};
use super::temp_dir::TempDir;

/// Inner startup script. The wrapper on `PATH` requires root or a dedicated user.
const PROGRAM: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
const EPMD: &str = "epmd";

/// RabbitMQ server for one test, without plugins and with the default guest user.
#[derive(Debug)]
pub struct RabbitMq {
    // Field order is the order of shutdown.
    server: ServerProcess,
    epmd: ServerProcess,
    temp_dir: TempDir,
    port: u16,
}

impl RabbitMq {
    /// Starts a server and waits until it responds. This takes some seconds.
    pub fn start() -> Result<Self, StartError> {
        with_retries(Self::try_start)
    }

    fn try_start() -> Result<Self, StartError> {
        let temp_dir = TempDir::new("rabbitmq")?;
        let [port, distribution_port, epmd_port] = free_ports()?;
        let home = temp_dir.path();

        let epmd_log = home.join("epmd-log");
        let mut command = Command::new(EPMD);
        command.args(["-address", "127.0.0.1", "-port", &epmd_port.to_string()]);
        let mut epmd = ServerProcess::start(EPMD, &mut command, &epmd_log)?;
        // Request with type `n` (list of names) after its length: the reply begins with the port of `epmd`.
        epmd.wait_for(epmd_port, b"\x00\x01n", &u32::from(epmd_port).to_be_bytes(), &epmd_log)?;

        fs::write(home.join("rabbitmq.conf"), format!("listeners.tcp.default = 127.0.0.1:{port}\n"))?;
        fs::write(home.join("enabled_plugins"), "[].\n")?;
        let log = home.join("log");
        let mut server = ServerProcess::start(PROGRAM, &mut server(home, port, distribution_port, epmd_port), &log)?;
        // The server replies to the protocol header with a method frame on channel zero.
        server.wait_for(port, b"AMQP\x00\x00\x09\x01", b"\x01\x00\x00", &log)?;
        Ok(Self { server, epmd, temp_dir, port })
    }

    /// Listening port on 127.0.0.1.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// `amqp://127.0.0.1:port/%2f`.
    pub fn url(&self) -> String {
        format!("amqp://127.0.0.1:{}/%2f", self.port)
    }

    /// Process ids of the server and of its `epmd`.
    pub fn process_ids(&self) -> [u32; 2] {
        [self.server.id(), self.epmd.id()]
    }

    /// Home directory of all its processes.
    pub fn home_dir(&self) -> &Path {
        self.temp_dir.path()
    }
}

fn server(home: &Path, port: u16, distribution_port: u16, epmd_port: u16) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        // Makes the script `exec` the server: one process, one id.
        .env("detached", "true")
        .env("HOME", home)
        .env("ERL_EPMD_PORT", epmd_port.to_string())
        .env("ERL_EPMD_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_NODENAME", format!("test{port}@localhost"))
        .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_NODE_PORT", port.to_string())
        .env("RABBITMQ_DIST_PORT", distribution_port.to_string())
        .env("RABBITMQ_CONF_ENV_FILE", home.join("none"))
        .env("RABBITMQ_CONFIG_FILE", home.join("rabbitmq.conf"))
        .env("RABBITMQ_ENABLED_PLUGINS_FILE", home.join("enabled_plugins"))
        .env("RABBITMQ_MNESIA_BASE", home.join("mnesia"))
        .env("RABBITMQ_SCHEMA_DIR", home.join("schema"))
        .env("RABBITMQ_LOG_BASE", home)
        .env("RABBITMQ_LOGS", "-")
        .env("RABBITMQ_PID_FILE", home.join("pid"))
        .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "+S 1:1 +sbwt none");
    command
}

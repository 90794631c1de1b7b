//! RabbitMQ.
//!
//! Three things of it are shared on a machine unless told otherwise: the folders in `/var`, the node's name,
//! and `epmd`, the daemon by which Erlang nodes find each other and which outlives them. Here each server has
//! its own of all three.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::folder::Folder;
use super::process::{Process, StartError, free_ports, with_retries};

/// The script below the one on the path, which insists on root or a user of its own.
const PROGRAM: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
const EPMD: &str = "epmd";

/// A RabbitMQ server of a test's own, with no plugin and the usual guest.
#[derive(Debug)]
pub struct RabbitMq {
    // Stopped in this order.
    server: Process,
    epmd: Process,
    folder: Folder,
    port: u16,
}

impl RabbitMq {
    /// Starts one and waits until it answers. That takes some seconds.
    pub fn start() -> Result<Self, StartError> {
        with_retries(Self::try_start)
    }

    fn try_start() -> Result<Self, StartError> {
        let folder = Folder::new("rabbitmq")?;
        let [port, distribution, names] = free_ports()?;
        let home = folder.path();

        let epmd_log = home.join("epmd-log");
        let mut command = Command::new(EPMD);
        command.args(["-address", "127.0.0.1", "-port", &names.to_string()]);
        let mut epmd = Process::start(EPMD, &mut command, &epmd_log)?;
        // A request of two bytes, type `n`, for the names it knows: it answers with its own port first.
        epmd.wait_for(names, b"\x00\x01n", &u32::from(names).to_be_bytes(), &epmd_log)?;

        fs::write(home.join("rabbitmq.conf"), format!("listeners.tcp.default = 127.0.0.1:{port}\n"))?;
        fs::write(home.join("enabled_plugins"), "[].\n")?;
        let log = home.join("log");
        let mut server = Process::start(PROGRAM, &mut server(home, port, distribution, names), &log)?;
        // The server greets whoever speaks its protocol with a method frame on channel zero.
        server.wait_for(port, b"AMQP\x00\x00\x09\x01", b"\x01\x00\x00", &log)?;
        Ok(Self { server, epmd, folder, port })
    }

    /// Where it listens, on 127.0.0.1.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// `amqp://127.0.0.1:port/%2f`.
    pub fn url(&self) -> String {
        format!("amqp://127.0.0.1:{}/%2f", self.port)
    }

    /// The ids of its processes: the server, and its `epmd`.
    pub fn process_ids(&self) -> [u32; 2] {
        [self.server.id(), self.epmd.id()]
    }

    /// The folder all its processes have for their home.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

fn server(home: &Path, port: u16, distribution: u16, names: u16) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        // Makes the script become the server instead of standing beside it: one process, one id.
        .env("detached", "true")
        .env("HOME", home)
        .env("ERL_EPMD_PORT", names.to_string())
        .env("ERL_EPMD_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_NODENAME", format!("test{port}@localhost"))
        .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_NODE_PORT", port.to_string())
        .env("RABBITMQ_DIST_PORT", distribution.to_string())
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

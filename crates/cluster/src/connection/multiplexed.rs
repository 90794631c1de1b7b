//! One multiplexed connection to one server.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, ServerErrorKind, Value};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::address::Address;
use crate::error::{StoreError, StoreErrorKind};
use crate::invocation::{Invocation, Script};

/// Timeout of a command that is not a script.
const COMMAND_TIMEOUT: Duration = Duration::from_millis(500);

/// A connection. Clones share it; it is closed with the last one, also with calls in flight.
#[derive(Clone)]
pub(crate) struct Connection {
    address: Address,
    multiplexed: MultiplexedConnection,
    _io_task: Arc<IoTask>,
    /// Closes with the connection.
    open: watch::Receiver<()>,
}

/// The I/O task. Aborted with its owner.
struct IoTask(JoinHandle<()>);

impl Drop for IoTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Connection {
    /// Runs the I/O task `reading` on the current runtime.
    pub(super) fn new(
        address: Address,
        multiplexed: MultiplexedConnection,
        reading: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let (ended, open) = watch::channel(());
        let task = tokio::spawn(async move {
            reading.await;
            drop(ended);
        });
        Self { address, multiplexed, _io_task: Arc::new(IoTask(task)), open }
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// True if both are the same connection.
    pub(super) fn ptr_eq(&self, other: &Self) -> bool {
        self.open.same_channel(&other.open)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.open.has_changed().is_err()
    }

    /// Completes once the connection is closed, without keeping it open.
    pub(super) fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut open = self.open.clone();
        async move { while open.changed().await.is_ok() {} }
    }

    /// Runs a command that is not a script.
    pub(super) async fn command(&self, words: &[&str]) -> Result<Value, StoreError> {
        let mut command = Cmd::new();
        for word in words {
            command.arg(word);
        }
        match timeout(COMMAND_TIMEOUT, self.send(&command)).await {
            Ok(reply) => Ok(reply?),
            Err(_) => Err(StoreError::new(StoreErrorKind::Timeout, format!("{} does not respond", self.address))),
        }
    }

    /// Loads these scripts into the server, in one round trip.
    pub(super) async fn load_scripts(&self, scripts: &[&'static Script]) -> Result<(), RedisError> {
        if scripts.is_empty() {
            return Ok(());
        }
        let mut pipeline = Pipeline::with_capacity(scripts.len());
        for script in scripts {
            pipeline.cmd("SCRIPT").arg("LOAD").arg(&script.source);
        }
        let mut multiplexed = self.multiplexed.clone();
        for value in multiplexed.send_packed_commands(&pipeline, 0, scripts.len()).await? {
            value.extract_error()?;
        }
        Ok(())
    }

    /// Calls a script by its hash, and by its source if the server does not know it, which also loads it. With
    /// `asking`, also for a slot that this server is only importing.
    pub(super) async fn run(&self, invocation: &Invocation, pending: bool) -> Result<Value, RedisError> {
        match self.evaluate(&command("EVALSHA", &invocation.script.sha, invocation), pending).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                // Between a load and a call the script could be flushed.
                self.evaluate(&command("EVAL", &invocation.script.source, invocation), pending).await
            }
            other => other,
        }
    }

    async fn evaluate(&self, command: &Cmd, pending: bool) -> Result<Value, RedisError> {
        if !pending {
            return self.send(command).await;
        }
        let mut pipeline = Pipeline::with_capacity(2);
        pipeline.cmd("ASKING").add_command(command.clone());
        let mut multiplexed = self.multiplexed.clone();
        let mut values = multiplexed.send_packed_commands(&pipeline, 0, 2).await?;
        // Two replies arrived; the script's is the second.
        values.pop().unwrap_or(Value::Nil).extract_error()
    }

    async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        // A clone keeps the connection open until the reply arrives.
        let this = self.clone();
        let mut multiplexed = this.multiplexed.clone();
        multiplexed.send_packed_command(command).await?.extract_error()
    }
}

fn command(name: &str, script: &str, invocation: &Invocation) -> Cmd {
    let bytes: usize = invocation.keys.iter().chain(&invocation.arguments).map(|bytes| bytes.len()).sum();
    let count = 3 + invocation.keys.len() + invocation.arguments.len();
    let mut command = Cmd::with_capacity(count, script.len() + bytes + 32);
    command.arg(name).arg(script).arg(invocation.keys.len());
    for bytes in invocation.keys.iter().chain(&invocation.arguments) {
        command.arg(&bytes[..]);
    }
    command
}

//! One connection to one server, shared by all calls to it.

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

/// How long a command that is not a script may take.
const PATIENCE: Duration = Duration::from_millis(500);

/// A connection. Clones share it; with the last one it is closed, whatever is still under way.
#[derive(Clone)]
pub(crate) struct Connection {
    address: Address,
    multiplexed: MultiplexedConnection,
    _reading: Arc<Reading>,
    /// Closed when the connection is.
    open: watch::Receiver<()>,
}

/// The task that reads and writes. Aborted with its owner.
struct Reading(JoinHandle<()>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Connection {
    /// Runs `reading` on the current runtime.
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
        Self { address, multiplexed, _reading: Arc::new(Reading(task)), open }
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Whether both are the same connection.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.open.same_channel(&other.open)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.open.has_changed().is_err()
    }

    /// What tells when it is closed, without keeping it open.
    pub(super) fn closing(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut open = self.open.clone();
        async move { while open.changed().await.is_ok() {} }
    }

    /// Runs a command that is not a script.
    pub(super) async fn command(&self, words: &[&str]) -> Result<Value, StoreError> {
        let mut command = Cmd::new();
        for word in words {
            command.arg(word);
        }
        match timeout(PATIENCE, self.send(&command)).await {
            Ok(reply) => Ok(reply?),
            Err(_) => Err(StoreError::new(StoreErrorKind::Silent, format!("{} does not answer", self.address))),
        }
    }

    /// Makes the server know these scripts, in one round trip.
    pub(super) async fn load(&self, scripts: &[&'static Script]) -> Result<(), RedisError> {
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

    /// Calls a script: by its name, and in full if the server does not know it, which then does. With `asking`,
    /// also a slot that this server is only about to get.
    pub(super) async fn run(&self, invocation: &Invocation, asking: bool) -> Result<Value, RedisError> {
        match self.evaluate(&command("EVALSHA", &invocation.script.sha, invocation), asking).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                // Loaded and then called, it could be forgotten in between.
                self.evaluate(&command("EVAL", &invocation.script.source, invocation), asking).await
            }
            other => other,
        }
    }

    async fn evaluate(&self, command: &Cmd, asking: bool) -> Result<Value, RedisError> {
        if !asking {
            return self.send(command).await;
        }
        let mut pipeline = Pipeline::with_capacity(2);
        pipeline.cmd("ASKING").add_command(command.clone());
        let mut multiplexed = self.multiplexed.clone();
        let mut values = multiplexed.send_packed_commands(&pipeline, 0, 2).await?;
        // Two replies were waited for; the script's is the second.
        values.pop().unwrap_or(Value::Nil).extract_error()
    }

    async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        // A clone holds the connection open until the reply is there.
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

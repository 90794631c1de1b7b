//! Connection to a store with one primary: a single server, or the one named by sentinels.

use redis::Value;
use tokio::sync::watch;

use super::address::Address;
use super::connector::{Connector, Login};
use super::multiplexed::Connection;
use super::{OnDisconnect, sentinel, server_check};
use crate::error::{StoreError, StoreErrorKind};
use crate::health::{Counters, SharedCounters};
use crate::invocation::Invocation;

pub(super) struct PrimaryConnection {
    connector: Connector,
    source: PrimarySource,
    current: watch::Sender<CurrentConnection>,
    /// Locked while a connection is made: never two at once.
    connecting: tokio::sync::Mutex<()>,
    counters: SharedCounters,
}

/// Source of the primary's address.
pub(super) enum PrimarySource {
    /// The first of these servers that is a primary.
    FirstOf(Vec<Address>),
    /// The primary of that name according to these sentinels.
    Sentinels { name: String, sentinels: Vec<Address> },
}

#[derive(Clone)]
enum CurrentConnection {
    Connecting,
    Up(Connection),
    Down(StoreError),
}

impl PrimaryConnection {
    pub(super) fn new(connector: Connector, source: PrimarySource, counters: SharedCounters) -> Self {
        let current = watch::Sender::new(CurrentConnection::Connecting);
        Self { connector, source, current, connecting: tokio::sync::Mutex::new(()), counters }
    }

    /// Makes a connection that replaces the current one.
    pub(super) async fn connect(&self, on_disconnect: &OnDisconnect) -> Result<(), StoreError> {
        let _one = self.connecting.lock().await;
        match self.connect_primary().await {
            Ok(connection) => {
                self.counters.set_warnings(connection.address().to_string(), server_check::warnings(&connection).await);
                let closing = connection.closed();
                let previous = self.current.send_replace(CurrentConnection::Up(connection.clone()));
                if !matches!(previous, CurrentConnection::Connecting) {
                    Counters::add(&self.counters.reconnects, 1);
                }
                let (current, on_disconnect) = (self.current.clone(), on_disconnect.clone());
                let address = connection.address().clone();
                tokio::spawn(async move {
                    closing.await;
                    let error =
                        StoreError::new(StoreErrorKind::Unreachable, format!("{address} closed the connection"));
                    if mark_down(&current, |up| up.is_closed(), &error) {
                        on_disconnect(&error);
                    }
                });
                Ok(())
            }
            Err(error) => {
                self.current.send_if_modified(|current| {
                    let down = !matches!(current, CurrentConnection::Up(_));
                    if down {
                        *current = CurrentConnection::Down(error.clone());
                    }
                    down
                });
                Err(error)
            }
        }
    }

    /// True if there is a connection, working or not.
    pub(super) fn is_up(&self) -> bool {
        matches!(*self.current.borrow(), CurrentConnection::Up(_))
    }

    pub(super) async fn call(&self, invocation: &Invocation) -> Result<Value, StoreError> {
        let connection = self.connection().await?;
        connection.run(invocation, false).await.map_err(|error| {
            let error = StoreError::from(error);
            if matches!(error.kind, StoreErrorKind::Unreachable | StoreErrorKind::ReadOnly) {
                // The current primary is looked up again before the next call.
                mark_down(&self.current, |up| up.ptr_eq(&connection), &error);
            }
            error
        })
    }

    /// Drops the connection if the sentinels name another primary: the old one may not know yet, and its writes
    /// are lost. Unreachable sentinels are no reason to drop it.
    pub(super) async fn verify(&self) -> Result<(), StoreError> {
        let PrimarySource::Sentinels { name, sentinels } = &self.source else { return Ok(()) };
        let CurrentConnection::Up(connection) = self.current.borrow().clone() else { return Ok(()) };
        match sentinel::primary(&self.connector, sentinels, name).await {
            Ok(address) if address != *connection.address() => {
                let detail = format!("the sentinels report {address}, not {}", connection.address());
                let error = StoreError::new(StoreErrorKind::ReadOnly, detail);
                mark_down(&self.current, |up| up.ptr_eq(&connection), &error);
                Err(error)
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    async fn connection(&self) -> Result<Connection, StoreError> {
        let mut current = self.current.subscribe();
        let known = current.wait_for(|current| !matches!(current, CurrentConnection::Connecting)).await;
        match known.map(|current| current.clone()) {
            Ok(CurrentConnection::Up(connection)) => Ok(connection),
            Ok(CurrentConnection::Down(error)) => Err(error),
            Ok(CurrentConnection::Connecting) | Err(_) => {
                Err(StoreError::new(StoreErrorKind::Unreachable, "not connected"))
            }
        }
    }

    async fn connect_primary(&self) -> Result<Connection, StoreError> {
        match &self.source {
            PrimarySource::FirstOf(addresses) => {
                let mut failed = None;
                for address in addresses {
                    match self.primary_at(address).await {
                        Ok(connection) => return Ok(connection),
                        Err(error) => failed = Some(error),
                    }
                }
                Err(failed.unwrap_or_else(|| StoreError::new(StoreErrorKind::Unreachable, "no node is configured")))
            }
            PrimarySource::Sentinels { name, sentinels } => {
                let address = sentinel::primary(&self.connector, sentinels, name).await?;
                self.primary_at(&address).await
            }
        }
    }

    /// Connects to the server at `address`, if it is a primary.
    async fn primary_at(&self, address: &Address) -> Result<Connection, StoreError> {
        let connection = self.connector.connect(address, Login::Store).await?;
        if server_check::is_replica(&connection).await == Some(true) {
            return Err(StoreError::new(StoreErrorKind::ReadOnly, format!("{address} is not the primary")));
        }
        Ok(connection)
    }
}

/// Marks the connection selected by `matches` as down, if it is still the current one.
fn mark_down(
    current: &watch::Sender<CurrentConnection>,
    matches: impl Fn(&Connection) -> bool,
    error: &StoreError,
) -> bool {
    current.send_if_modified(|current| match current {
        CurrentConnection::Up(connection) if matches(connection) => {
            *current = CurrentConnection::Down(error.clone());
            true
        }
        _ => false,
    })
}

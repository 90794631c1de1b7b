//! The link to a store with one primary: a single server, or the one that sentinels name.

use redis::Value;
use tokio::sync::watch;

use super::address::Address;
use super::connection::Connection;
use super::connector::{Connector, Login};
use super::{Alarm, inspection, sentinel};
use crate::error::{StoreError, StoreErrorKind};
use crate::health::{Counters, SharedCounters};
use crate::invocation::Invocation;

pub(super) struct PrimaryLink {
    connector: Connector,
    place: Place,
    current: watch::Sender<Current>,
    /// Held while a connection is made: never two at once.
    connecting: tokio::sync::Mutex<()>,
    counters: SharedCounters,
}

/// Where the primary is to be found.
pub(super) enum Place {
    /// The first of these that is one.
    OneOf(Vec<Address>),
    /// Where these sentinels say the one of that name is.
    Sentinels { name: String, sentinels: Vec<Address> },
}

#[derive(Clone)]
enum Current {
    Connecting,
    Up(Connection),
    Down(StoreError),
}

impl PrimaryLink {
    pub(super) fn new(connector: Connector, place: Place, counters: SharedCounters) -> Self {
        let current = watch::Sender::new(Current::Connecting);
        Self { connector, place, current, connecting: tokio::sync::Mutex::new(()), counters }
    }

    /// Makes a connection, in place of the one there was.
    pub(super) async fn connect(&self, alarm: &Alarm) -> Result<(), StoreError> {
        let _one = self.connecting.lock().await;
        match self.find().await {
            Ok(connection) => {
                self.counters.warn(connection.address().to_string(), inspection::warnings(&connection).await);
                let closing = connection.closing();
                let was = self.current.send_replace(Current::Up(connection.clone()));
                if !matches!(was, Current::Connecting) {
                    Counters::add(&self.counters.reconnects, 1);
                }
                let (current, alarm) = (self.current.clone(), alarm.clone());
                let address = connection.address().clone();
                tokio::spawn(async move {
                    closing.await;
                    let error = StoreError::new(StoreErrorKind::Unreachable, format!("{address} hung up"));
                    if take_down(&current, |up| up.is_closed(), &error) {
                        alarm(&error);
                    }
                });
                Ok(())
            }
            Err(error) => {
                self.current.send_if_modified(|current| {
                    let down = !matches!(current, Current::Up(_));
                    if down {
                        *current = Current::Down(error.clone());
                    }
                    down
                });
                Err(error)
            }
        }
    }

    /// Whether there is a connection, working or not.
    pub(super) fn is_up(&self) -> bool {
        matches!(*self.current.borrow(), Current::Up(_))
    }

    pub(super) async fn call(&self, invocation: &Invocation) -> Result<Value, StoreError> {
        let connection = self.connection().await?;
        connection.run(invocation, false).await.map_err(|error| {
            let error = StoreError::from(error);
            if matches!(error.kind, StoreErrorKind::Unreachable | StoreErrorKind::ReadOnly) {
                // Whoever is the primary now is found again before the next call.
                take_down(&self.current, |up| up.is(&connection), &error);
            }
            error
        })
    }

    /// Gives up the connection if the sentinels name another primary by now: the old one may not have heard, and
    /// what it still takes is lost. Sentinels that cannot be asked are no reason to.
    pub(super) async fn verify(&self) -> Result<(), StoreError> {
        let Place::Sentinels { name, sentinels } = &self.place else { return Ok(()) };
        let Current::Up(connection) = self.current.borrow().clone() else { return Ok(()) };
        match sentinel::primary(&self.connector, sentinels, name).await {
            Ok(address) if address != *connection.address() => {
                let detail = format!("the sentinels name {address} and not {}", connection.address());
                let error = StoreError::new(StoreErrorKind::ReadOnly, detail);
                take_down(&self.current, |up| up.is(&connection), &error);
                Err(error)
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    async fn connection(&self) -> Result<Connection, StoreError> {
        let mut current = self.current.subscribe();
        let known = current.wait_for(|current| !matches!(current, Current::Connecting)).await;
        match known.map(|current| current.clone()) {
            Ok(Current::Up(connection)) => Ok(connection),
            Ok(Current::Down(error)) => Err(error),
            Ok(Current::Connecting) | Err(_) => Err(StoreError::new(StoreErrorKind::Unreachable, "not connected")),
        }
    }

    async fn find(&self) -> Result<Connection, StoreError> {
        match &self.place {
            Place::OneOf(addresses) => {
                let mut failed = None;
                for address in addresses {
                    match self.primary_at(address).await {
                        Ok(connection) => return Ok(connection),
                        Err(error) => failed = Some(error),
                    }
                }
                Err(failed.unwrap_or_else(|| StoreError::new(StoreErrorKind::Unreachable, "no node is named")))
            }
            Place::Sentinels { name, sentinels } => {
                let address = sentinel::primary(&self.connector, sentinels, name).await?;
                self.primary_at(&address).await
            }
        }
    }

    /// A connection to the server there, if it is a primary.
    async fn primary_at(&self, address: &Address) -> Result<Connection, StoreError> {
        let connection = self.connector.connect(address, Login::Store).await?;
        if inspection::is_replica(&connection).await == Some(true) {
            return Err(StoreError::new(StoreErrorKind::ReadOnly, format!("{address} is not the primary")));
        }
        Ok(connection)
    }
}

/// Takes down the connection that `which` means, if it is still the current one.
fn take_down(current: &watch::Sender<Current>, which: impl Fn(&Connection) -> bool, error: &StoreError) -> bool {
    current.send_if_modified(|current| match current {
        Current::Up(connection) if which(connection) => {
            *current = Current::Down(error.clone());
            true
        }
        _ => false,
    })
}

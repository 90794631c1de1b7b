//! Asks sentinels who the primary is.

use redis::{Value, from_redis_value};

use super::address::Address;
use super::connection::Connection;
use super::connector::{Connector, Login};
use crate::error::{StoreError, StoreErrorKind};

/// Where the primary of this name is, by the first sentinel that knows.
pub(super) async fn primary(connector: &Connector, sentinels: &[Address], name: &str) -> Result<Address, StoreError> {
    let mut failed = None;
    for sentinel in sentinels {
        match ask(connector, sentinel, name).await {
            Ok(address) => return Ok(address),
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| StoreError::new(StoreErrorKind::Unreachable, "no sentinel is named")))
}

async fn ask(connector: &Connector, sentinel: &Address, name: &str) -> Result<Address, StoreError> {
    let unknown = || {
        let detail = format!("the sentinel at {sentinel} knows no primary `{name}`");
        StoreError::new(StoreErrorKind::Unreachable, detail)
    };
    let connection = connector.connect(sentinel, Login::Nobody).await?;
    let reply = match get(&connection, name).await {
        // This one wants to know who asks.
        Err(error) if error.kind == StoreErrorKind::Refused => {
            get(&connector.connect(sentinel, Login::Sentinel).await?, name).await?
        }
        other => other?,
    };
    let (host, port): (String, u16) = from_redis_value(reply).map_err(|_| unknown())?;
    Ok(Address::new(host, port))
}

async fn get(connection: &Connection, name: &str) -> Result<Value, StoreError> {
    connection.command(&["SENTINEL", "get-master-addr-by-name", name]).await
}

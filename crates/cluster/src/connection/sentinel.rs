//! Queries sentinels for the primary.

use redis::{Value, from_redis_value};

use super::address::Address;
use super::connector::{Connector, Login};
use super::multiplexed::Connection;
use crate::error::{StoreError, StoreErrorKind};

/// Address of the primary of this name, from the first sentinel that knows it.
pub(super) async fn primary(connector: &Connector, sentinels: &[Address], name: &str) -> Result<Address, StoreError> {
    let mut failed = None;
    for sentinel in sentinels {
        match query_sentinel(connector, sentinel, name).await {
            Ok(address) => return Ok(address),
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| StoreError::new(StoreErrorKind::Unreachable, "no sentinel is configured")))
}

async fn query_sentinel(connector: &Connector, sentinel: &Address, name: &str) -> Result<Address, StoreError> {
    let unknown = || {
        let detail = format!("the sentinel at {sentinel} has no primary `{name}`");
        StoreError::new(StoreErrorKind::Unreachable, detail)
    };
    let connection = connector.connect(sentinel, Login::Anonymous).await?;
    let reply = match get_primary(&connection, name).await {
        // This sentinel requires authentication.
        Err(error) if error.kind == StoreErrorKind::AccessDenied => {
            get_primary(&connector.connect(sentinel, Login::Sentinel).await?, name).await?
        }
        other => other?,
    };
    let (host, port): (String, u16) = from_redis_value(reply).map_err(|_| unknown())?;
    Ok(Address::new(host, port))
}

async fn get_primary(connection: &Connection, name: &str) -> Result<Value, StoreError> {
    connection.command(&["SENTINEL", "get-master-addr-by-name", name]).await
}

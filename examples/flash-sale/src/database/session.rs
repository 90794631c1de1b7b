//! Statements on one connection, each of them counted.
//!
//! There is no other way to the database than through here, so nothing can be left out of the count.

use std::sync::Arc;

use sluicegate::pool::{LimitedClass, LimitedConnection};
use sqlx::any::{Any, AnyArguments, AnyRow};
use sqlx::query::Query;
use sqlx::{AnyConnection, Connection, Error, Transaction};

use super::dialect::Dialect;
use super::ledger::Ledger;

/// A value in a statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'v> {
    Text(&'v str),
    Number(i64),
}

/// A connection that holds a place in the bulkhead before the pool.
pub(super) struct Session {
    connection: LimitedConnection<Any>,
    ledger: Arc<Ledger>,
}

/// A transaction. Dropped before it is committed, it is rolled back.
pub(super) struct Unit<'s> {
    transaction: Transaction<'s, Any>,
    ledger: &'s Ledger,
}

impl Session {
    pub(super) async fn open(class: &LimitedClass<Any>, ledger: &Arc<Ledger>) -> Result<Self, Error> {
        Ok(Self { connection: class.acquire().await?, ledger: Arc::clone(ledger) })
    }

    pub(super) async fn begin(&mut self, dialect: Dialect) -> Result<Unit<'_>, Error> {
        self.ledger.note("BEGIN");
        let transaction = match dialect.begin() {
            Some(begin) => self.connection.begin_with(begin).await?,
            None => self.connection.begin().await?,
        };
        Ok(Unit { transaction, ledger: &self.ledger })
    }

    /// How many rows it has touched.
    pub(super) async fn execute(&mut self, statement: &'static str, values: &[Value<'_>]) -> Result<u64, Error> {
        execute(&mut self.connection, &self.ledger, statement, values).await
    }

    pub(super) async fn rows(&mut self, statement: &'static str, values: &[Value<'_>]) -> Result<Vec<AnyRow>, Error> {
        self.ledger.note(statement);
        bound(statement, values).fetch_all(&mut *self.connection).await
    }

    pub(super) async fn row(&mut self, statement: &'static str, values: &[Value<'_>]) -> Result<Option<AnyRow>, Error> {
        self.ledger.note(statement);
        bound(statement, values).fetch_optional(&mut *self.connection).await
    }

    /// For whoever reads the count itself, and must not change it by looking.
    pub(super) async fn uncounted(&mut self, statement: &'static str) -> Result<AnyRow, Error> {
        sqlx::query(statement).fetch_one(&mut *self.connection).await
    }
}

impl Unit<'_> {
    pub(super) async fn execute(&mut self, statement: &'static str, values: &[Value<'_>]) -> Result<u64, Error> {
        execute(&mut self.transaction, self.ledger, statement, values).await
    }

    pub(super) async fn row(&mut self, statement: &'static str, values: &[Value<'_>]) -> Result<Option<AnyRow>, Error> {
        self.ledger.note(statement);
        bound(statement, values).fetch_optional(&mut *self.transaction).await
    }

    pub(super) async fn commit(self) -> Result<(), Error> {
        self.ledger.note("COMMIT");
        self.transaction.commit().await
    }

    pub(super) async fn rollback(self) -> Result<(), Error> {
        self.ledger.note("ROLLBACK");
        self.transaction.rollback().await
    }
}

async fn execute(
    connection: &mut AnyConnection,
    ledger: &Ledger,
    statement: &'static str,
    values: &[Value<'_>],
) -> Result<u64, Error> {
    ledger.note(statement);
    Ok(bound(statement, values).execute(connection).await?.rows_affected())
}

fn bound(statement: &'static str, values: &[Value<'_>]) -> Query<'static, Any, AnyArguments> {
    values.iter().fold(sqlx::query(statement), |query, value| match *value {
        Value::Text(text) => query.bind(text.to_owned()),
        Value::Number(number) => query.bind(number),
    })
}

//! Connection that counts its statements.
//!
//! All access to the database uses this module, so that every statement is counted.

use std::sync::Arc;

use sluicegate::bulkhead::{ClassPool, LimitedConnection};
use sqlx::any::{Any, AnyArguments, AnyRow};
use sqlx::query::Query;
use sqlx::{AnyConnection, Connection, Error, Transaction};

use super::dialect::Dialect;
use super::statement_counter::StatementCounter;

/// Bound value of a statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum SqlValue<'v> {
    Text(&'v str),
    Number(i64),
}

/// Pooled connection with a permit of the bulkhead.
pub(super) struct Session {
    connection: LimitedConnection<Any>,
    counter: Arc<StatementCounter>,
}

/// Transaction; drop without a commit rolls it back.
pub(super) struct TransactionScope<'s> {
    transaction: Transaction<'s, Any>,
    counter: &'s StatementCounter,
}

impl Session {
    pub(super) async fn open(class: &ClassPool<Any>, counter: &Arc<StatementCounter>) -> Result<Self, Error> {
        Ok(Self { connection: class.acquire().await?, counter: Arc::clone(counter) })
    }

    pub(super) async fn begin(&mut self, dialect: Dialect) -> Result<TransactionScope<'_>, Error> {
        self.counter.record("BEGIN");
        let transaction = match dialect.begin() {
            Some(begin) => self.connection.begin_with(begin).await?,
            None => self.connection.begin().await?,
        };
        Ok(TransactionScope { transaction, counter: &self.counter })
    }

    /// Executes a statement and returns the number of affected rows.
    pub(super) async fn execute(&mut self, statement: &'static str, values: &[SqlValue<'_>]) -> Result<u64, Error> {
        execute(&mut self.connection, &self.counter, statement, values).await
    }

    pub(super) async fn rows(
        &mut self,
        statement: &'static str,
        values: &[SqlValue<'_>],
    ) -> Result<Vec<AnyRow>, Error> {
        self.counter.record(statement);
        bind_values(statement, values).fetch_all(&mut *self.connection).await
    }

    pub(super) async fn row(
        &mut self,
        statement: &'static str,
        values: &[SqlValue<'_>],
    ) -> Result<Option<AnyRow>, Error> {
        self.counter.record(statement);
        bind_values(statement, values).fetch_optional(&mut *self.connection).await
    }

    /// Runs a query without counting it, to read the totals.
    pub(super) async fn uncounted(&mut self, statement: &'static str) -> Result<AnyRow, Error> {
        sqlx::query(statement).fetch_one(&mut *self.connection).await
    }
}

impl TransactionScope<'_> {
    pub(super) async fn execute(&mut self, statement: &'static str, values: &[SqlValue<'_>]) -> Result<u64, Error> {
        execute(&mut self.transaction, self.counter, statement, values).await
    }

    pub(super) async fn row(
        &mut self,
        statement: &'static str,
        values: &[SqlValue<'_>],
    ) -> Result<Option<AnyRow>, Error> {
        self.counter.record(statement);
        bind_values(statement, values).fetch_optional(&mut *self.transaction).await
    }

    pub(super) async fn commit(self) -> Result<(), Error> {
        self.counter.record("COMMIT");
        self.transaction.commit().await
    }

    pub(super) async fn rollback(self) -> Result<(), Error> {
        self.counter.record("ROLLBACK");
        self.transaction.rollback().await
    }
}

async fn execute(
    connection: &mut AnyConnection,
    counter: &StatementCounter,
    statement: &'static str,
    values: &[SqlValue<'_>],
) -> Result<u64, Error> {
    counter.record(statement);
    Ok(bind_values(statement, values).execute(connection).await?.rows_affected())
}

fn bind_values(statement: &'static str, values: &[SqlValue<'_>]) -> Query<'static, Any, AnyArguments> {
    values.iter().fold(sqlx::query(statement), |query, value| match *value {
        SqlValue::Text(text) => query.bind(text.to_owned()),
        SqlValue::Number(number) => query.bind(number),
    })
}

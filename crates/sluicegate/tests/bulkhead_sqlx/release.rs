//! Permits are released at the end of statements, connections and transactions, also by errors and cancellation.

use std::time::Duration;

use futures_util::{FutureExt, TryStreamExt};
use sluicegate::bulkhead::{BulkheadCause, Class, refusal};

use super::support::*;

const INSERT: &str = "INSERT INTO orders (item) VALUES ('tea')";

async fn single_permit_database() -> TestDatabase {
    TestDatabase::new(1, &[("work", Class::new().wait(TEST_TIMEOUT))]).await
}

#[tokio::test]
async fn a_stream_holds_its_permit_until_it_ends_or_is_dropped() {
    let database = single_permit_database().await;
    let work = database.class("work");
    let mut rows = sqlx::query(MILLION_ROWS).fetch(&work);
    assert_eq!(in_use(&work), 0, "nothing is taken before it is polled");
    rows.try_next().await.unwrap().unwrap();
    assert_eq!(in_use(&work), 1);
    drop(rows); // halfway
    assert_eq!(in_use(&work), 0);

    let mut rows = sqlx::query("SELECT 1 UNION SELECT 2").fetch(&work);
    while rows.try_next().await.unwrap().is_some() {
        assert_eq!(in_use(&work), 1);
    }
    assert_eq!(in_use(&work), 0, "at its end, although the stream is still there");
    assert!(rows.try_next().await.unwrap().is_none());
}

#[tokio::test]
async fn a_failed_statement_releases_its_permit() {
    let database = single_permit_database().await;
    let work = database.class("work");
    for _ in 0..3 {
        let error = sqlx::query("SELECT nothing FROM nowhere").fetch_all(&work).await.unwrap_err();
        assert!(error.as_database_error().is_some() && refusal(&error).is_none());
        assert!(sqlx::query("SELECT nothing FROM nowhere").fetch_one(&work).await.is_err());
        assert!(sqlx::query("INSERT INTO orders (item) VALUES (NULL)").execute(&work).await.is_err());
    }
    assert_eq!((in_use(&work), work.handle().status().counts.admitted), (0, 9));
}

#[tokio::test]
async fn a_panicked_or_aborted_task_releases_its_permit() {
    let database = single_permit_database().await;
    let work = database.class("work");
    let class = work.clone();
    let panicked = tokio::spawn(async move {
        let mut transaction = class.begin().await.unwrap();
        sqlx::query(INSERT).execute(&mut *transaction).await.unwrap();
        panic!("halfway");
    });
    assert!(panicked.await.unwrap_err().is_panic());
    assert_eq!(in_use(&work), 0);

    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let class = work.clone();
    let aborted = tokio::spawn(async move {
        let mut rows = sqlx::query(MILLION_ROWS).fetch(&class);
        rows.try_next().await.unwrap();
        begun.send(()).unwrap();
        std::future::pending::<()>().await;
    });
    has_begun.await.unwrap();
    assert_eq!(in_use(&work), 1);
    aborted.abort();
    assert!(aborted.await.unwrap_err().is_cancelled());
    assert_eq!(in_use(&work), 0);
    let orders: i64 = sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&work).await.unwrap();
    assert_eq!(orders, 0, "what panicked was rolled back");
}

#[tokio::test]
async fn a_transaction_and_its_statements_hold_one_permit() {
    let database = single_permit_database().await;
    let work = database.class("work");
    let mut transaction = work.begin().await.unwrap();
    for _ in 0..3 {
        sqlx::query(INSERT).execute(&mut *transaction).await.unwrap(); // a second permit would never be granted
    }
    assert_eq!((in_use(&work), work.handle().status().counts.admitted), (1, 1));
    assert!(work.try_acquire().is_none(), "never waits");
    transaction.commit().await.unwrap();
    assert_eq!(in_use(&work), 0);

    let mut transaction = work.begin().await.unwrap();
    sqlx::query("DELETE FROM orders").execute(&mut *transaction).await.unwrap();
    transaction.rollback().await.unwrap();
    let mut transaction = work.begin().await.unwrap();
    sqlx::query("DELETE FROM orders").execute(&mut *transaction).await.unwrap();
    drop(transaction);
    let mut connection = work.acquire().await.unwrap();
    let orders: i64 = sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&mut *connection).await.unwrap();
    assert_eq!((orders, in_use(&work)), (3, 1));
    drop(connection);
    assert_eq!(in_use(&work), 0);
}

#[tokio::test]
async fn a_bulkhead_timeout_is_distinguishable_from_other_errors() {
    let database = TestDatabase::new(2, &[("work", Class::new().max(1).wait(Duration::from_millis(20)))]).await;
    let work = database.class("work");
    let connection = work.acquire().await.unwrap();
    let errors = [
        sqlx::query(INSERT).execute(&work).await.unwrap_err(),
        sqlx::query(INSERT).fetch_one(&work).await.unwrap_err(),
        work.begin().await.unwrap_err(),
        work.acquire().await.unwrap_err(),
    ];
    for error in errors {
        let refusal = refusal(&error).expect("a refusal");
        assert_eq!(refusal.cause, BulkheadCause::NoPermit);
        assert!(refusal.waited >= Duration::from_millis(20), "{refusal}");
    }
    assert_eq!(database.connections_in_use(), 1, "a caller that waits for a permit holds no connection");
    drop(connection);
    for error in [sqlx::Error::PoolTimedOut, sqlx::Error::Io(std::io::ErrorKind::ResourceBusy.into())] {
        assert!(refusal(&error).is_none());
    }
    assert_eq!(work.handle().status().counts.no_permit, 4);
}

#[tokio::test]
async fn a_statement_cancelled_while_queued_leaves_no_trace() {
    let database = single_permit_database().await;
    let work = database.class("work");
    let transaction = work.begin().await.unwrap();
    let mut waits = Box::pin(sqlx::query(INSERT).execute(&work));
    assert!(waits.as_mut().now_or_never().is_none());
    assert_eq!(work.handle().status().waiting, 1);
    drop(waits);
    assert_eq!(work.handle().status().waiting, 0);
    let mut waits = Box::pin(sqlx::query(INSERT).execute(&work));
    assert!(waits.as_mut().now_or_never().is_none());
    drop(transaction); // grants the permit to it
    drop(waits); // and it does not come for it
    assert_eq!(in_use(&work), 0);
    sqlx::query(INSERT).execute(&work).await.unwrap();
    let orders: i64 = sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&work).await.unwrap();
    assert_eq!(orders, 1);
}

#[tokio::test]
async fn a_closed_pool_leaks_no_permits() {
    let database = single_permit_database().await;
    let work = database.class("work");
    database.pool.unlimited().close().await;
    assert!(matches!(sqlx::query(INSERT).execute(&work).await, Err(sqlx::Error::PoolClosed)));
    assert!(matches!(work.begin().await, Err(sqlx::Error::PoolClosed)));
    assert!(work.try_acquire().is_none());
    assert_eq!(in_use(&work), 0);
}

//! However a statement, a connection or a transaction ends: the place comes back.

use std::time::Duration;

use futures_util::{FutureExt, TryStreamExt};
use sluicegate::pool::{Cause, Class, refusal};

use super::support::*;

const INSERT: &str = "INSERT INTO orders (item) VALUES ('tea')";

async fn one_place() -> Database {
    Database::new(1, &[("work", Class::new().wait(GUARD))]).await
}

#[tokio::test]
async fn a_stream_holds_its_place_until_its_end_or_until_it_is_dropped() {
    let database = one_place().await;
    let work = database.class("work");
    let mut rows = sqlx::query(ENDLESS).fetch(&work);
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
async fn a_statement_that_fails_gives_its_place_back() {
    let database = one_place().await;
    let work = database.class("work");
    for _ in 0..3 {
        let error = sqlx::query("SELECT nothing FROM nowhere").fetch_all(&work).await.unwrap_err();
        assert!(error.as_database_error().is_some() && refusal(&error).is_none());
        assert!(sqlx::query("SELECT nothing FROM nowhere").fetch_one(&work).await.is_err());
        assert!(sqlx::query("INSERT INTO orders (item) VALUES (NULL)").execute(&work).await.is_err());
    }
    assert_eq!((in_use(&work), work.entrance().status().counts.entered), (0, 9));
}

#[tokio::test]
async fn a_task_that_panics_or_is_aborted_gives_its_place_back() {
    let database = one_place().await;
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
        let mut rows = sqlx::query(ENDLESS).fetch(&class);
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
async fn a_transaction_holds_one_place_and_its_statements_take_no_other() {
    let database = one_place().await;
    let work = database.class("work");
    let mut transaction = work.begin().await.unwrap();
    for _ in 0..3 {
        sqlx::query(INSERT).execute(&mut *transaction).await.unwrap(); // a second place would never come
    }
    assert_eq!((in_use(&work), work.entrance().status().counts.entered), (1, 1));
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
async fn a_deadline_is_told_apart_from_everything_else() {
    let database = Database::new(2, &[("work", Class::new().max(1).wait(Duration::from_millis(20)))]).await;
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
        assert_eq!(refusal.cause, Cause::NoPlace);
        assert!(refusal.waited >= Duration::from_millis(20), "{refusal}");
    }
    assert_eq!(database.connections_out(), 1, "who waits for a place keeps no connection from others");
    drop(connection);
    for error in [sqlx::Error::PoolTimedOut, sqlx::Error::Io(std::io::ErrorKind::ResourceBusy.into())] {
        assert!(refusal(&error).is_none());
    }
    assert_eq!(work.entrance().status().counts.no_place, 4);
}

#[tokio::test]
async fn a_statement_that_is_cancelled_while_it_waits_was_never_there() {
    let database = one_place().await;
    let work = database.class("work");
    let transaction = work.begin().await.unwrap();
    let mut waits = Box::pin(sqlx::query(INSERT).execute(&work));
    assert!(waits.as_mut().now_or_never().is_none());
    assert_eq!(work.entrance().status().waiting, 1);
    drop(waits);
    assert_eq!(work.entrance().status().waiting, 0);
    let mut waits = Box::pin(sqlx::query(INSERT).execute(&work));
    assert!(waits.as_mut().now_or_never().is_none());
    drop(transaction); // the place is given to it
    drop(waits); // and it does not come for it
    assert_eq!(in_use(&work), 0);
    sqlx::query(INSERT).execute(&work).await.unwrap();
    let orders: i64 = sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&work).await.unwrap();
    assert_eq!(orders, 1);
}

#[tokio::test]
async fn a_closed_pool_takes_no_places_with_it() {
    let database = one_place().await;
    let work = database.class("work");
    database.pool.unlimited().close().await;
    assert!(matches!(sqlx::query(INSERT).execute(&work).await, Err(sqlx::Error::PoolClosed)));
    assert!(matches!(work.begin().await, Err(sqlx::Error::PoolClosed)));
    assert!(work.try_acquire().is_none());
    assert_eq!(in_use(&work), 0);
}

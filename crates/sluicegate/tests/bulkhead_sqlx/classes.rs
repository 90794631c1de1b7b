//! Several classes: each stays within its max, and the reserve stays available.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use sluicegate::bulkhead::{Bulkhead, BulkheadCause, CapacityError, Class, LimitedPool, refusal};
use sqlx::sqlite::SqlitePoolOptions;

use super::support::*;

/// Independent count of statements in flight, and its maximum.
#[derive(Default)]
struct InFlightGauge {
    current: AtomicUsize,
    max: AtomicUsize,
}

struct InFlightMark(Arc<InFlightGauge>);

impl InFlightGauge {
    fn increment(mark: &Arc<Self>) -> InFlightMark {
        let inside = mark.current.fetch_add(1, Ordering::SeqCst) + 1;
        mark.max.fetch_max(inside, Ordering::SeqCst);
        InFlightMark(Arc::clone(mark))
    }
}

impl Drop for InFlightMark {
    fn drop(&mut self) {
        self.0.current.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_tasks_stay_within_the_max_of_their_class() {
    let patient = || Class::new().wait(TEST_TIMEOUT);
    let classes = [("writes", patient().reserve(2)), ("reads", patient().max(5)), ("reports", patient().max(2))];
    let database = Arc::new(TestDatabase::new(8, &classes).await);
    let marks: [Arc<InFlightGauge>; 3] = Default::default();
    let all = Arc::new(InFlightGauge::default());
    let tasks: Vec<_> = (0..50)
        .map(|task| {
            let kind = task % 3;
            let class = database.class(["writes", "reads", "reports"][kind]);
            let (mark, all, database) = (Arc::clone(&marks[kind]), Arc::clone(&all), Arc::clone(&database));
            tokio::spawn(async move {
                for _ in 0..4 {
                    if kind == 0 {
                        let mut transaction = class.begin().await.unwrap();
                        let _marked = (InFlightGauge::increment(&mark), InFlightGauge::increment(&all));
                        let insert = sqlx::query("INSERT INTO orders (item) VALUES ($1)").bind("tea");
                        insert.execute(&mut *transaction).await.unwrap();
                        drop(_marked);
                        transaction.commit().await.unwrap();
                    } else {
                        let mut rows = sqlx::query(MILLION_ROWS).fetch(&class);
                        rows.try_next().await.unwrap().unwrap();
                        let marked = (InFlightGauge::increment(&mark), InFlightGauge::increment(&all));
                        for _ in 0..20 {
                            rows.try_next().await.unwrap().unwrap();
                        }
                        drop(marked);
                    }
                    let status = database.pool.status();
                    assert!(status.in_use <= 8 && status.classes.iter().all(|class| class.in_use <= class.max));
                }
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(TEST_TIMEOUT, task).await.unwrap().unwrap();
    }
    let max = marks.map(|mark| mark.max.load(Ordering::SeqCst));
    assert!(max[1] <= 5 && max[2] <= 2, "{max:?}");
    assert!(all.max.load(Ordering::SeqCst) <= 8);
    let status = database.pool.status();
    assert_eq!(status.in_use, 0);
    assert_eq!(status.classes.iter().map(|class| class.counts.admitted).collect::<Vec<_>>(), [68, 68, 64]);
    let orders: i64 =
        sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&database.class("reads")).await.unwrap();
    assert_eq!(orders, 68);
}

#[tokio::test]
async fn writes_keep_their_reserve_under_a_flood_of_reports() {
    let at_once = || Class::new().wait(Duration::ZERO);
    let database = TestDatabase::new(4, &[("writes", at_once().reserve(1)), ("reports", at_once())]).await;
    let (writes, reports) = (database.class("writes"), database.class("reports"));
    let mut streams = Vec::new();
    loop {
        let mut rows = sqlx::query(MILLION_ROWS).fetch(&reports);
        match rows.next().await.unwrap() {
            Ok(_) => streams.push(rows),
            Err(error) => {
                let refusal = refusal(&error).expect("a refusal");
                assert_eq!((&*refusal.class, refusal.cause, refusal.in_use), ("reports", BulkheadCause::NoPermit, 3));
                let message = "no permit for reports: 3 of 4 in use, the rest is used by or reserved for other classes";
                assert!(error.to_string().ends_with(message), "{error}");
                assert!(rows.next().await.is_none(), "a refused statement has no rows");
                break;
            }
        }
    }
    assert_eq!((streams.len(), in_use(&reports), database.connections_in_use()), (3, 3, 3));
    for _ in 0..20 {
        sqlx::query("INSERT INTO orders (item) VALUES ('tea')").execute(&writes).await.unwrap();
    }
    drop(streams);
    assert_eq!(in_use(&reports), 0);
}

#[tokio::test]
async fn a_bulkhead_larger_than_the_pool_is_an_error() {
    let pool = || SqlitePoolOptions::new().max_connections(3).connect_lazy("sqlite::memory:").unwrap();
    let bulkhead = |capacity| Bulkhead::builder(capacity).class("all", Class::new()).build().unwrap();
    let error = LimitedPool::new(pool(), bulkhead(4)).unwrap_err();
    assert_eq!(error, CapacityError { capacity: 4, connections: 3 });
    let message = "the bulkhead has a capacity of 4, but the pool has only 3 connections: lower the capacity";
    assert_eq!(error.to_string(), message);
    assert!(LimitedPool::new(pool(), bulkhead(3)).is_ok());
}

#[tokio::test]
async fn statements_are_classified_by_text_and_keep_their_arguments() {
    let database = TestDatabase::new(2, &[("reads", Class::new()), ("writes", Class::new())]).await;
    let pool = database.pool.by_statement("reads", "writes").unwrap();
    assert!(database.pool.by_statement("reads", "rites").is_err());

    let insert = sqlx::query("INSERT INTO orders (item) VALUES ($1), ($2)").bind("tea").bind("milk");
    assert_eq!(insert.execute(&pool).await.unwrap().rows_affected(), 2);
    let items: Vec<String> =
        sqlx::query_scalar("SELECT item FROM orders WHERE id > $1 ORDER BY id").bind(0).fetch_all(&pool).await.unwrap();
    assert_eq!(items, ["tea", "milk"]);
    let (id, item): (i64, String) = sqlx::query_as("SELECT id, item FROM orders WHERE item = $1")
        .bind("milk")
        .persistent(false)
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!((id, &*item), (2, "milk"));
    let script = sqlx::raw_sql("SELECT 1; UPDATE orders SET item = 'coffee' WHERE id = 1");
    script.execute(&pool).await.unwrap();
    let none = sqlx::query("SELECT 1 FROM orders WHERE item = 'tea'").fetch_optional(&pool).await.unwrap();
    assert!(none.is_none());

    use sqlx::{Executor, SqlSafeStr, Statement};
    let statement = (&pool).prepare("SELECT item FROM orders WHERE id = $1".into_sql_str()).await.unwrap();
    let item: String = statement.query_scalar().bind(1).fetch_one(&pool).await.unwrap();
    assert_eq!(item, "coffee");
    let described = (&pool).describe("SELECT item FROM orders".into_sql_str()).await.unwrap();
    assert_eq!(described.columns.len(), 1);

    let admitted = |name| database.class(name).handle().status().counts.admitted;
    assert_eq!((admitted("reads"), admitted("writes"), database.pool.status().in_use), (6, 2, 0));
}

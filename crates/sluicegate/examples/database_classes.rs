//! Limits statements in flight per class: reports cannot block orders.
//!
//! `cargo run -p sluicegate --example database_classes --features sqlx`
#![allow(clippy::print_stdout, reason = "examples print their results")]

use std::error::Error;
use std::time::Duration;

use futures_util::TryStreamExt;
use sluicegate::bulkhead::{Bulkhead, Class, LimitedPool, refusal};
use sqlx::sqlite::SqlitePoolOptions;

const REPORT: &str =
    "WITH RECURSIVE day(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM day WHERE n < 1000000) SELECT n FROM day";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let pool = SqlitePoolOptions::new().max_connections(4).connect("sqlite::memory:").await?;
    let bulkhead = Bulkhead::builder(4) // the number of connections
        .class("orders", Class::new().reserve(1).importance(1).wait(Duration::from_millis(500)))
        .class("reports", Class::new().max(2).wait(Duration::ZERO))
        .build()?;
    let pool = LimitedPool::new(pool, bulkhead)?;
    let (orders, reports) = (pool.class("orders")?, pool.class("reports")?);
    sqlx::query("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)").execute(&orders).await?;

    // Five reports start at the same time. Two run; the others are refused immediately.
    let mut running = Vec::new();
    for number in 1..=5 {
        let mut rows = sqlx::query(REPORT).fetch(&reports);
        match rows.try_next().await {
            Ok(_first) => running.push(rows), // the permit is held while rows remain
            Err(error) => match refusal(&error) {
                Some(refusal) => println!("report {number}: {refusal}"),
                None => return Err(error.into()),
            },
        }
    }
    assert_eq!(running.len(), 2);

    // Orders are still served. A transaction holds one permit; its statements acquire no further permit.
    for item in ["tea", "milk"] {
        let mut transaction = orders.begin().await?;
        sqlx::query("INSERT INTO orders (item) VALUES ($1)").bind(item).execute(&mut *transaction).await?;
        transaction.commit().await?;
    }
    drop(running);

    for class in pool.status().classes {
        let counts = class.counts;
        println!(
            "{}: {} admitted, {} refused, {} in use",
            class.class, counts.admitted, counts.no_permit, class.in_use
        );
        assert_eq!(class.in_use, 0);
    }
    Ok(())
}

#[test]
fn runs() -> Result<(), Box<dyn Error>> {
    main()
}

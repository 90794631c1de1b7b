//! What statements are taken for.

use proptest::prelude::*;
use sluicegate::bulkhead::StatementKind;

const READS: &[&str] = &[
    "SELECT 1",
    "select * from orders where id = $1",
    "  \n\t SELECT 1 ; ",
    "-- a comment\nSELECT 1",
    "--a comment\nSELECT 1 -- DELETE FROM orders",
    "-- a comment\r\nSELECT 1 -- DELETE FROM orders\r\n",
    "SELECT 1 -- DELETE FROM orders\r",
    "\u{b}SELECT\u{b}1",
    "/* DELETE FROM orders */ SELECT 1",
    "SELECT /* UPDATE */ 1",
    "/*Many*/SELECT/**/1",
    "SELECT 'DELETE FROM orders'",
    "SELECT 'it''s; DELETE FROM orders'",
    "SELECT \"delete\", `update`, \"in\"\"to\" FROM orders",
    "SELECT [a], b[1] FROM orders",
    "SELECT replace(item, 'a', 'b') FROM orders",
    "SELECT updated_at, deleted, insertion FROM orders",
    "(SELECT 1) UNION (SELECT 2)",
    "WITH recent AS (SELECT * FROM orders) SELECT * FROM recent",
    "VALUES (1), (2)",
    "TABLE orders",
    "SHOW TABLES",
    "DESCRIBE orders",
    "EXPLAIN SELECT 1",
    "EXPLAIN QUERY PLAN SELECT 1",
    "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT 1",
    "EXPLAIN FORMAT=JSON SELECT 1",
    "explain analyze verbose with a as (select 1) select * from a",
    "SELECT 1; SELECT 2;",
    "SELECT data #>> '{a,b}', data #- '{a}' FROM orders",
    "SELECT $1, $name, :name, @name, ?2",
    "SELECT 5 - -1, 4 / 2, 2 * 3",
    "SELECT 'ü', näme FROM größe",
    "SELECT * FROM share WHERE lock = 1",
];

const WRITES: &[&str] = &[
    "",
    ";",
    "-- nothing",
    "INSERT INTO orders VALUES (1)",
    "update orders set id = 1",
    "DELETE FROM orders",
    "REPLACE INTO orders VALUES (1)",
    "MERGE INTO orders USING x ON true WHEN MATCHED THEN DELETE",
    "CREATE TABLE orders (id INT)",
    "DROP TABLE orders",
    "ALTER TABLE orders ADD x INT",
    "TRUNCATE orders",
    "BEGIN",
    "COMMIT",
    "VACUUM",
    "PRAGMA journal_mode = WAL",
    "PRAGMA table_info(orders)",
    "CALL something()",
    "SET x = 1",
    "LOCK TABLE orders",
    "/* SELECT */ DELETE FROM orders",
    "-- SELECT\nDELETE FROM orders",
    "SELECT 1; DELETE FROM orders",
    // The comment has ended for PostgreSQL, and not for SQLite.
    "SELECT 1 -- a\r; DELETE FROM orders",
    "SELECT 1 -- a\r'\n; DELETE FROM orders -- '",
    "SELECT * FROM orders FOR\u{b}SHARE",
    "SELECT 1;;DELETE FROM orders",
    "SELECT * INTO copies FROM orders",
    "SELECT * FROM orders FOR UPDATE",
    "SELECT * FROM orders FOR NO KEY UPDATE",
    "SELECT * FROM orders FOR SHARE",
    "SELECT * FROM orders for key share",
    "SELECT * FROM orders LOCK IN SHARE MODE",
    "WITH x AS (SELECT 1) INSERT INTO orders SELECT * FROM x",
    "WITH gone AS (DELETE FROM orders RETURNING *) SELECT * FROM gone",
    "WITH x AS (SELECT 1) UPDATE orders SET id = 1",
    "EXPLAIN DELETE FROM orders",
    "EXPLAIN ANALYZE INSERT INTO orders VALUES (1)",
    "EXPLAIN ANALYZE CREATE TABLE copies AS SELECT 1",
    "EXPLAIN",
    "EXPLAIN; SELECT 1",
    "SELECT 'never ends",
    "SELECT /* never ends",
    "SELECT 1 /* a /* b */ DELETE FROM orders */",
    "SELECT 1 /*! INTO OUTFILE 'x' */",
    "SELECT 1 /*M! INTO OUTFILE 'x' */",
    "SELECT '\\'' DELETE '",
    "SELECT $$DELETE$$",
    "SELECT $tag$it's$tag$",
    "SELECT 1 # a comment of MySQL",
    "'SELECT 1'",
    "sélect 1",
    "SELECTED",
];

#[test]
fn reads_are_reads_and_everything_else_is_a_write() {
    for sql in READS {
        assert_eq!(StatementKind::of(sql), StatementKind::Read, "{sql}");
    }
    for sql in WRITES {
        assert_eq!(StatementKind::of(sql), StatementKind::Write, "{sql}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Two statements in one text are a read only if both are.
    #[test]
    fn a_script_reads_only_if_all_of_it_does(first in prop::sample::select(READS), second in prop::sample::select(READS), write in prop::sample::select(&WRITES[3..20])) {
        let kind = |parts: &[&str]| StatementKind::of(&parts.join("\n;"));
        prop_assert_eq!(kind(&[first, second]), StatementKind::Read);
        prop_assert_eq!(kind(&[first, write]), StatementKind::Write);
        prop_assert_eq!(kind(&[write, first]), StatementKind::Write);
    }

    /// A word that writes, anywhere between words, makes a write.
    #[test]
    fn no_write_hides_behind_a_read(at in 1_usize..6, word in prop::sample::select(&["INSERT", "update", "Delete", "MERGE", "INTO"][..])) {
        let mut words = vec!["SELECT", "a", "FROM", "b", "WHERE", "c"];
        words.insert(at, word);
        prop_assert_eq!(StatementKind::of(&words.join(" ")), StatementKind::Write);
    }

    #[test]
    fn no_text_makes_it_panic(sql in "(?s).{0,60}", odd in "[-/*'\"`$#;( a\\\\]{0,30}") {
        StatementKind::of(&sql);
        StatementKind::of(&odd);
        StatementKind::of(&format!("SELECT {odd}{sql}"));
    }
}

//! `CL.THROTTLE` as documented by redis-cell, `THROTTLE` as in throttlecrab.

use std::time::Duration;

use sluicegate_engine::clock::Clock;

use super::{RespServer, five_integers};

/// Time (ms), command, and the five integers.
type TimedCommand = (u64, &'static str, [i64; 5]);

async fn assert_timeline(cases: &[TimedCommand]) {
    let server = RespServer::new();
    let mut client = server.connect();
    let start = server.clock.now();
    for (at, line, expected) in cases {
        server.clock.set(start + Duration::from_millis(*at));
        client.line(line, five_integers(*expected)).await;
    }
}

#[tokio::test]
async fn redis_cell_readme_example() {
    assert_timeline(&[
        (0, "CL.THROTTLE user123 15 30 60 1", [0, 16, 15, -1, 2]),
        (0, "cl.throttle user123 15 30 60", [0, 16, 14, -1, 4]),
        (0, "CL.THROTTLE user123-write-rate 5 10 60", [0, 6, 5, -1, 6]),
    ])
    .await;
}

#[tokio::test]
async fn redis_cell_tests() {
    assert_timeline(&[
        // A request larger than the maximum never succeeds.
        (0, "CL.THROTTLE k 4 1 1 6", [1, 5, 5, -1, 0]),
        (0, "CL.THROTTLE k 4 1 1", [0, 5, 4, -1, 1]),
        (0, "CL.THROTTLE k 4 1 1", [0, 5, 3, -1, 2]),
        (0, "CL.THROTTLE k 4 1 1", [0, 5, 2, -1, 3]),
        (0, "CL.THROTTLE k 4 1 1", [0, 5, 1, -1, 4]),
        (0, "CL.THROTTLE k 4 1 1", [0, 5, 0, -1, 5]),
        (0, "CL.THROTTLE k 4 1 1", [1, 5, 0, 1, 5]),
        // Refilled. Seconds are rounded up.
        (3_000, "CL.THROTTLE k 4 1 1", [0, 5, 2, -1, 3]),
        (3_100, "CL.THROTTLE k 4 1 1", [0, 5, 1, -1, 4]),
        (4_000, "CL.THROTTLE k 4 1 1", [0, 5, 1, -1, 4]),
        (8_000, "CL.THROTTLE k 4 1 1", [0, 5, 4, -1, 1]),
        (9_500, "CL.THROTTLE k 4 1 1", [0, 5, 4, -1, 1]),
        // Zero peeks.
        (9_500, "CL.THROTTLE k 4 1 1 0", [0, 5, 4, -1, 1]),
        (9_500, "CL.THROTTLE k 4 1 1 2", [0, 5, 2, -1, 3]),
        (9_500, "CL.THROTTLE k 4 1 1 5", [1, 5, 2, 3, 3]),
        // One more millisecond adds a second; less than a millisecond adds none.
        (9_999, "CL.THROTTLE k 4 1 1 5", [1, 5, 2, 3, 3]),
        // A negative quantity gives back.
        (9_999, "CL.THROTTLE k 4 1 1 -1", [0, 5, 3, -1, 2]),
    ])
    .await;
}

#[tokio::test]
async fn redis_cell_full_lifecycle_test() {
    assert_timeline(&[
        (0, "CL.THROTTLE user123 0 1 2 1", [0, 1, 0, -1, 2]),
        (0, "CL.THROTTLE user123 0 1 2 1", [1, 1, 0, 2, 2]),
        (2_000, "CL.THROTTLE user123 0 1 2 1", [0, 1, 0, -1, 2]),
    ])
    .await;
}

/// A third of a second is not a whole number of nanoseconds; the replies still match redis-cell.
#[tokio::test]
async fn thirds_of_a_second() {
    assert_timeline(&[
        (0, "CL.THROTTLE k 5 3 1 3", [0, 6, 3, -1, 1]),
        (0, "CL.THROTTLE k 5 3 1 3", [0, 6, 0, -1, 2]),
        (0, "CL.THROTTLE k 5 3 1 3", [1, 6, 0, 1, 2]),
        (1_001, "CL.THROTTLE k 5 3 1 3", [0, 6, 0, -1, 2]),
    ])
    .await;
}

#[tokio::test]
async fn errors_match_redis_cell() {
    let server = RespServer::new();
    let mut client = server.connect();
    let usage =
        "-Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]\r\n";
    for (line, error) in [
        ("CL.THROTTLE", usage),
        ("CL.THROTTLE k 1 1", usage),
        ("CL.THROTTLE k 1 1 1 1 1", usage),
        ("CL.THROTTLE k x 1 1", "-Cell error: Store error: Couldn't parse as integer: x\r\n"),
        ("CL.THROTTLE k 1 1.5 1", "-Cell error: Store error: Couldn't parse as integer: 1.5\r\n"),
        ("CL.THROTTLE k 1 1 1 \"\"", "-Cell error: Store error: Couldn't parse as integer: \r\n"),
        ("CL.THROTTLE k 1 1 \"a\\r\\nb\"", "-Cell error: Store error: Couldn't parse as integer: a  b\r\n"),
        (
            "CL.THROTTLE k 9223372036854775808 1 1",
            "-Cell error: Store error: Couldn't parse as integer: 9223372036854775808\r\n",
        ),
        ("CL.THROTTLE k 1 0 1", "-Cell error: Store error: Zero rates are not supported\r\n"),
        ("CL.THROTTLE k 1 1 0", "-Cell error: Store error: Zero rates are not supported\r\n"),
        ("CL.THROTTLE k 1 9223372036854775807 1", "-Cell error: Store error: Zero rates are not supported\r\n"),
        (
            "CL.THROTTLE k -1 1 1",
            "-Cell error: Store error: Negative rates are not supported: max_burst, count and period must be 0 or more\r\n",
        ),
        (
            "CL.THROTTLE k 9223372036854775807 1 60",
            "-Cell error: Store error: max_burst 9223372036854775808 takes more than four years to fill at 1/1m: lower it or \
             raise the rate\r\n",
        ),
        (
            "CL.THROTTLE k 1 1 9223372036854775807",
            "-Cell error: Store error: a period of 9223372036854775807 s is too long: the maximum is 3650 days\r\n",
        ),
    ] {
        client.line(line, error).await;
    }
    // None of them consumed anything.
    client.line("CL.THROTTLE k 1 1 1 0", five_integers([0, 2, 2, -1, 0])).await;
}

#[tokio::test]
async fn throttlecrab_replies() {
    // Throttlecrab's arithmetic: a token is 0.6 s; the key expires (its "reset") a bucket minus two tokens after it
    // is full.
    assert_timeline(&[
        (0, "THROTTLE user:123 10 100 60", [1, 10, 9, 5, 0]),
        (0, "THROTTLE user:123 10 100 60 9", [1, 10, 0, 10, 0]),
        (0, "THROTTLE user:123 10 100 60 1", [0, 10, 0, 10, 0]),
        (0, "THROTTLE user:123 10 100 60 2", [0, 10, 0, 10, 1]),
        (1_200, "THROTTLE user:123 10 100 60 2", [1, 10, 0, 10, 0]),
        (1_200, "throttle one 1 1 1", [1, 1, 0, 0, 0]),
        (1_200, "throttle one 1 1 10", [0, 1, 0, 0, 1]),
        (1_200, "THROTTLE look 10 100 60 0", [1, 10, 10, 4, 0]),
        (1_200, "THROTTLE never 2 1 1 5", [0, 2, 2, 0, 3]),
    ])
    .await;
}

#[tokio::test]
async fn throttlecrab_errors() {
    let server = RespServer::new();
    let mut client = server.connect();
    for (line, error) in [
        ("THROTTLE k 1 1", "-ERR wrong number of arguments for 'throttle' command\r\n"),
        ("THROTTLE k 1 1 1 1 1", "-ERR wrong number of arguments for 'throttle' command\r\n"),
        ("THROTTLE k x 1 1", "-ERR invalid max_burst\r\n"),
        ("THROTTLE k 1 x 1", "-ERR invalid count_per_period\r\n"),
        ("THROTTLE k 1 1 x", "-ERR invalid period\r\n"),
        ("THROTTLE k 1 1 1 x", "-ERR invalid quantity\r\n"),
        ("THROTTLE k 1 1 1 -2", "-ERR Rate limit check failed: negative quantity: -2\r\n"),
        ("THROTTLE k 0 1 1", "-ERR Rate limit check failed: invalid rate limit parameters\r\n"),
    ] {
        client.line(line, error).await;
    }
}

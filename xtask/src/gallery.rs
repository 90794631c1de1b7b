//! Pictures of the manual: a limit of ten per second in every algorithm.

use std::time::Duration;

use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::{Limit, LimitError, Rate};

use crate::burst::{RequestOptions, simulate};
use crate::picture::draw;

const SECOND: Duration = Duration::from_secs(1);

/// Name and content of each picture.
///
/// # Errors
///
/// If no limiter can be built with a limit.
pub fn pictures() -> Result<Vec<(&'static str, String)>, LimitError> {
    let ten = Rate::per_second(10)?;
    let immediate = RequestOptions::default();
    let queued = RequestOptions { max_wait: Some(SECOND / 2), ..immediate };
    let pictures = [
        ("sliding-window.svg", "{ sliding_window: 10/s }", Limit::sliding_window(10, SECOND, 10)?, immediate),
        ("token-bucket.svg", "{ token_bucket: 10/s, burst: 10 }", Limit::token_bucket(ten, 10)?, immediate),
        (
            "token-bucket-queue.svg",
            "{ token_bucket: 10/s, burst: 10 }, on_limit: { queue: { max_wait: 500ms } }",
            Limit::token_bucket(ten, 10)?,
            queued,
        ),
        ("leaky-bucket.svg", "{ leaky_bucket: 10/s, queue: 10 }", Limit::leaky_bucket(ten, 10)?, immediate),
        ("fixed-window.svg", "{ fixed_window: 10/s }", Limit::fixed_window(10, SECOND, Alignment::Epoch)?, immediate),
        (
            "interpolated-window.svg",
            "{ interpolated_window: 10/s }",
            Limit::interpolated_window(10, SECOND)?,
            immediate,
        ),
        ("sliding-log.svg", "{ sliding_log: 10/s }", Limit::sliding_log(10, SECOND)?, immediate),
        (
            "concurrency.svg",
            "{ concurrency: 2 }, each request takes 200 ms",
            Limit::concurrency(2)?,
            RequestOptions { hold_time: SECOND / 5, ..immediate },
        ),
        (
            "warm-up.svg",
            "{ warm_up: 10/s, over: 1s }, on_limit: { queue: { max_wait: 500ms } }",
            Limit::warm_up(ten, SECOND, 3)?,
            queued,
        ),
    ];
    pictures
        .into_iter()
        .map(|(name, title, limit, options)| Ok((name, draw(title, &simulate(limit, options)?))))
        .collect()
}

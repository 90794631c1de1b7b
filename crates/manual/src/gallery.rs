//! Which limits are shown: ten per second, said in every algorithm's own words.

use std::time::Duration;

use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::{Limit, LimitError, Rate};

use crate::burst::{Manner, play};
use crate::picture::draw;

const SECOND: Duration = Duration::from_secs(1);

/// Name and content of each picture.
///
/// # Errors
///
/// If a limit makes no limiter.
pub fn all() -> Result<Vec<(&'static str, String)>, LimitError> {
    let ten = Rate::per_second(10)?;
    let at_once = Manner::default();
    let in_line = Manner { patience: Some(SECOND / 2), ..at_once };
    let shown = [
        ("sliding-window.svg", "{ sliding_window: 10/s }", Limit::sliding_window(10, SECOND, 10)?, at_once),
        ("token-bucket.svg", "{ token_bucket: 10/s, burst: 10 }", Limit::token_bucket(ten, 10)?, at_once),
        (
            "token-bucket-queue.svg",
            "{ token_bucket: 10/s, burst: 10 }, on_limit: { queue: { max_wait: 500ms } }",
            Limit::token_bucket(ten, 10)?,
            in_line,
        ),
        ("leaky-bucket.svg", "{ leaky_bucket: 10/s, queue: 10 }", Limit::leaky_bucket(ten, 10)?, at_once),
        ("fixed-window.svg", "{ fixed_window: 10/s }", Limit::fixed_window(10, SECOND, Alignment::Epoch)?, at_once),
        ("interpolated-window.svg", "{ interpolated_window: 10/s }", Limit::interpolated_window(10, SECOND)?, at_once),
        ("sliding-log.svg", "{ sliding_log: 10/s }", Limit::sliding_log(10, SECOND)?, at_once),
        (
            "concurrency.svg",
            "{ concurrency: 2 }, each request takes 200 ms",
            Limit::concurrency(2)?,
            Manner { inside: SECOND / 5, ..at_once },
        ),
        (
            "warm-up.svg",
            "{ warm_up: 10/s, over: 1s }, on_limit: { queue: { max_wait: 500ms } }",
            Limit::warm_up(ten, SECOND, 3)?,
            in_line,
        ),
    ];
    shown.into_iter().map(|(name, title, limit, manner)| Ok((name, draw(title, &play(limit, manner)?)))).collect()
}

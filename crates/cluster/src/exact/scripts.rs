//! The scripts, put together from their parts.

use std::sync::LazyLock;

use crate::invocation::Script;

/// Decides asks.
pub(crate) static TAKE: LazyLock<Script> = LazyLock::new(|| Script::new(assembled(TAKE_FRAME, DECIDE)));

/// Ends what was taken.
pub(crate) static END: LazyLock<Script> = LazyLock::new(|| Script::new(assembled(END_FRAME, SETTLE)));

/// Renews permits.
pub(crate) static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(assembled(RENEW_FRAME, "")));

const TAKE_FRAME: &str = include_str!("../scripts/take.lua");
const DECIDE: &str = include_str!("../scripts/decide.lua");
const END_FRAME: &str = include_str!("../scripts/end.lua");
const SETTLE: &str = include_str!("../scripts/settle.lua");
const RENEW_FRAME: &str = include_str!("../scripts/renew.lua");

/// What a line `--!include name` stands for.
fn part(name: &str) -> Option<&'static str> {
    Some(match name {
        "moment" => include_str!("../scripts/moment.lua"),
        "values" => include_str!("../scripts/values.lua"),
        "states" => include_str!("../scripts/states.lua"),
        "arithmetic" => include_str!("../scripts/arithmetic.lua"),
        "bucket" => include_str!("../scripts/bucket.lua"),
        "fixed_window" => include_str!("../scripts/fixed_window.lua"),
        "sliding_window" => include_str!("../scripts/sliding_window.lua"),
        "interpolated_window" => include_str!("../scripts/interpolated_window.lua"),
        "sliding_log" => include_str!("../scripts/sliding_log.lua"),
        "warm_up" => include_str!("../scripts/warm_up.lua"),
        "concurrency" => include_str!("../scripts/concurrency.lua"),
        _ => return None,
    })
}

/// A frame with its parts in place; `general` is what it does with limits of any kind.
fn assembled(frame: &str, general: &str) -> String {
    let mut source = String::new();
    for line in frame.lines() {
        match line.trim_start().strip_prefix("--!include ") {
            Some("general") => source.push_str(general),
            Some(name) => source.push_str(&assembled(part(name).unwrap_or_default(), general)),
            // The store keeps the text of every script it was given.
            None if line.trim_start().starts_with("--") => {}
            None => {
                source.push_str(line.trim_start());
                source.push('\n');
            }
        }
    }
    source
}

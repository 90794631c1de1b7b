//! What happens to a request over the limit.

use sluicegate_engine::rule::{OnLimit, Queue};

use super::fields::Fields;
use super::reply::{PLAIN, reply};
use crate::diagnostic::Finding;

/// How many may wait when nobody says how many.
const DEFAULT_WAITING: u32 = 1_000;

/// Reads `on_limit`.
pub(crate) fn on_limit(fields: &Fields<'_>) -> OnLimit {
    let queue = fields.section("queue").and_then(|it| queue(&it));
    let then = fields.section("then");
    if then.is_some() {
        let beside = PLAIN.iter().chain(&["degrade", "redirect"]).find(|name| fields.has(name));
        if let Some(name) = beside {
            fields.context.report(
                Finding::error(fields.key_span(name), format!("`{name}` stands beside `then`"))
                    .label("belongs into `then`")
                    .also(fields.key_span("then"), "what is answered is said here")
                    .help("keep one of them"),
            );
        }
    }
    let beside = reply(fields);
    OnLimit { queue, reply: then.as_ref().map_or(beside, reply) }
}

fn queue(fields: &Fields<'_>) -> Option<Queue> {
    let max_wait = fields.get("max_wait").and_then(|it| it.duration());
    let max_waiting = fields.count32("max_waiting").unwrap_or(DEFAULT_WAITING);
    let max_wait = max_wait?;
    if max_wait.is_zero() {
        fields.context.report(
            Finding::warning(fields.value_span("max_wait"), "nobody can wait for no time at all")
                .label("makes the queue useless")
                .help("give `max_wait` a duration such as 500ms, or remove `queue`"),
        );
    }
    Some(Queue { max_wait, max_waiting })
}

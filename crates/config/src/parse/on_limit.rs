//! Parses `on_limit`.

use sluicegate_engine::rule::{OnLimit, Queue};

use super::map::FieldMap;
use super::reply::{PLAIN_FIELDS, reply};
use crate::diagnostic::DiagnosticBuilder;

/// Default queue size.
const DEFAULT_QUEUE_SIZE: u32 = 1_000;

/// Parses `on_limit`.
pub(crate) fn on_limit(fields: &FieldMap<'_>) -> OnLimit {
    let queue = fields.section("queue").and_then(|it| queue(&it));
    let then = fields.section("then");
    if then.is_some() {
        let duplicate = PLAIN_FIELDS.iter().chain(&["degrade", "redirect"]).find(|name| fields.has(name));
        if let Some(name) = duplicate {
            fields.context.report(
                DiagnosticBuilder::error(fields.key_span(name), format!("`{name}` conflicts with `then`"))
                    .label("a second reply")
                    .with_related(fields.key_span("then"), "the first")
                    .help(format!("move `{name}` into `then`, or remove one of them")),
            );
        }
    }
    let direct = reply(fields);
    OnLimit { queue, reply: then.as_ref().map_or(direct, reply) }
}

fn queue(fields: &FieldMap<'_>) -> Option<Queue> {
    let max_wait = fields.get("max_wait").and_then(|it| it.duration());
    let max_waiting = fields.count32("max_waiting").unwrap_or(DEFAULT_QUEUE_SIZE);
    let max_wait = max_wait?;
    if max_wait.is_zero() {
        fields.context.report(
            DiagnosticBuilder::warning(fields.value_span("max_wait"), "the queue has no effect")
                .label("no request can wait")
                .help("set `max_wait` to a duration such as 500ms, or remove `queue`"),
        );
    }
    Some(Queue { max_wait, max_waiting })
}

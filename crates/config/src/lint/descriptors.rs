//! Rules for descriptors, and rules that mistake requests for them.

use sluicegate_engine::Limit;
use sluicegate_engine::rule::{Attribute, Side};

use super::provided::asked_by;
use crate::diagnostic::Finding;
use crate::read::{Context, ReadRule};

pub(super) fn look_at(context: &Context<'_>, ReadRule { rule, places, .. }: &ReadRule) {
    let is_described = rule.side == Side::Descriptor;
    for (attribute, span) in asked_by(rule, places) {
        let (what, help) = match attribute {
            Attribute::Descriptor(_) if !is_described => {
                ("only descriptors have entries", "add `side: descriptor`, or ask for something that requests have")
            }
            Attribute::Header(_) | Attribute::Query(_) | Attribute::Cookie(_) | Attribute::Param(_) if is_described => {
                ("a descriptor has entries and nothing else", "ask for an entry, such as descriptor['remote_address']")
            }
            _ => continue,
        };
        context.report(Finding::warning(span, format!("`{attribute}` is never there")).label(what).help(help));
    }
    for (limit, span) in rule.limits.iter().zip(&places.limits) {
        if is_described && matches!(limit, Limit::Concurrency(_)) {
            context.report(
                Finding::warning(*span, "this limit holds nobody back for long")
                    .label("no proxy says when a request that it described has ended")
                    .help("limit the rate instead; permits are to be had over HTTP (/v1/permits) and in the gateway"),
            );
        }
    }
}

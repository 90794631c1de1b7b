//! Lints for descriptor rules, and for rules that use request attributes on descriptors.

use sluicegate_engine::rule::{Attribute, Direction};

use super::missing_attributes::attributes_of;
use crate::diagnostic::DiagnosticBuilder;
use crate::parse::{ParseContext, ParsedRule};

pub(super) fn check(context: &ParseContext<'_>, ParsedRule { rule, spans }: &ParsedRule) {
    let is_descriptor = rule.direction == Direction::Descriptor;
    for (attribute, span) in attributes_of(rule, spans) {
        let (label, help) = match attribute {
            Attribute::Descriptor(_) if !is_descriptor => {
                ("only descriptors have entries", "add `direction: descriptor`, or use an attribute of requests")
            }
            Attribute::Header(_) | Attribute::Query(_) | Attribute::Cookie(_) | Attribute::Param(_)
                if is_descriptor =>
            {
                ("a descriptor has only entries", "use an entry, such as descriptor['remote_address']")
            }
            _ => continue,
        };
        context.report(
            DiagnosticBuilder::warning(span, format!("`{attribute}` is always missing")).label(label).help(help),
        );
    }
    for (limit, span) in rule.limits.iter().zip(&spans.limits) {
        if is_descriptor && limit.is_concurrency() {
            context.report(
                DiagnosticBuilder::warning(*span, "a concurrency limit has little effect on descriptors")
                    .label("proxies do not report the end of a request")
                    .help("limit the rate instead; permits are available over HTTP (/v1/permits) and in the gateway"),
            );
        }
    }
}

//! Lints for bandwidth rules. Bandwidth limits pace response bytes and refuse nothing, so settings about
//! refusals and other limits have no effect in the same rule.

use sluicegate_engine::Limit;
use sluicegate_engine::algorithm::LimitUnit;
use sluicegate_engine::rule::{Cost, Mode, OnLimit, Scope};

use crate::diagnostic::DiagnosticBuilder;
use crate::parse::{ParseContext, ParsedRule};
use crate::source::Span;

/// True if a limit paces instead of refusing.
pub(super) fn is_bandwidth(limit: &Limit) -> bool {
    limit.unit() == LimitUnit::Bytes
}

/// Checks a rule with a bandwidth limit.
pub(super) fn check(context: &ParseContext<'_>, ParsedRule { rule, spans }: &ParsedRule) {
    let limits = || rule.limits.iter().zip(&spans.limits);
    let Some((_, bandwidth)) = limits().find(|(limit, _)| is_bandwidth(limit)) else { return };
    let other = limits().find(|(limit, _)| !is_bandwidth(limit)).map(|(_, span)| *span);
    if let Some(other) = other.or_else(|| rule.adaptive.as_ref().map(|_| spans.adaptive)) {
        context.report(
            DiagnosticBuilder::error(*bandwidth, format!("`{}` combines bandwidth with other limits", rule.name))
                .label("paces responses")
                .with_related(other, "refuses requests")
                .help("move the bandwidth limit to a separate rule"),
        );
        return;
    }
    if matches!(rule.scope, Scope::Cluster { .. }) {
        context.report(
            DiagnosticBuilder::error(spans.scope, "a bandwidth limit cannot have `scope: cluster`")
                .label("bytes are counted in the process that sends them")
                .with_related(*bandwidth, "bandwidth limit")
                .help("remove `scope`"),
        );
    }
    let useless = |span: Span, name: &str, label: &str| {
        context.report(
            DiagnosticBuilder::warning(span, format!("`{name}` has no effect on `{}`", rule.name))
                .label(label)
                .with_related(*bandwidth, "a bandwidth limit paces responses and refuses nothing")
                .help(format!("remove `{name}`")),
        );
    };
    if rule.ban.is_some() {
        useless(spans.ban, "ban", "there are no refusals to count");
    }
    if rule.on_limit != OnLimit::default() {
        useless(spans.on_limit, "on_limit", "there is nothing to refuse");
    }
    if rule.cost != Cost::default() {
        useless(spans.cost, "cost", "each response byte costs 1");
    }
    if rule.mode == Mode::Shadow {
        useless(spans.mode, "mode: shadow", "there is nothing to refuse");
    }
}

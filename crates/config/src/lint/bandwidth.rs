//! Bandwidth paces the bytes of answers and refuses nothing: what a rule says about refusals, or counts
//! besides, has no place beside it.

use sluicegate_engine::Limit;
use sluicegate_engine::rule::{Cost, Mode, OnLimit, Scope};

use crate::diagnostic::Finding;
use crate::read::{Context, ReadRule};
use crate::source::Span;

/// Whether a limit paces and does not refuse.
pub(super) fn is_bandwidth(limit: &Limit) -> bool {
    matches!(limit, Limit::Bandwidth(_))
}

/// Looks at a rule that limits bandwidth.
pub(super) fn look_at(context: &Context<'_>, read: &ReadRule) {
    let ReadRule { rule, places } = read;
    let limits = || rule.limits.iter().zip(&places.limits);
    let Some((_, bandwidth)) = limits().find(|(limit, _)| is_bandwidth(limit)) else { return };
    let other = limits().find(|(limit, _)| !is_bandwidth(limit)).map(|(_, span)| *span);
    if let Some(other) = other.or_else(|| rule.adaptive.as_ref().map(|_| places.adaptive)) {
        context.report(
            Finding::error(*bandwidth, format!("`{}` limits bandwidth and something else", rule.name))
                .label("paces answers")
                .also(other, "refuses requests")
                .help("give bandwidth a rule of its own"),
        );
        return;
    }
    if matches!(rule.scope, Scope::Cluster { .. }) {
        context.report(
            Finding::error(places.scope, "bandwidth is not counted for a whole cluster")
                .label("bytes are counted where they pass")
                .also(*bandwidth, "limited here")
                .help("leave `scope` out"),
        );
    }
    let useless = |span: Span, name: &str, label: &str| {
        context.report(
            Finding::warning(span, format!("`{name}` has no effect on `{}`", rule.name))
                .label(label)
                .also(*bandwidth, "bandwidth slows answers down and refuses nothing")
                .help(format!("remove `{name}`")),
        );
    };
    if rule.ban.is_some() {
        useless(places.ban, "ban", "there are no refusals to count");
    }
    if rule.on_limit != OnLimit::default() {
        useless(places.on_limit, "on_limit", "there is nothing to refuse");
    }
    if rule.cost != Cost::default() {
        useless(places.cost, "cost", "each byte of an answer costs one");
    }
    if rule.mode == Mode::Shadow {
        useless(places.mode, "mode: shadow", "there is nothing to refuse");
    }
}

//! Lints for overload protection that has no effect.

use sluicegate_engine::rule::{Adaptive, Ceiling, Direction, Quorum, Signal};

use crate::diagnostic::DiagnosticBuilder;
use crate::parse::{ParseContext, ParsedRule};

/// Checks overload protection of a descriptor rule: a proxy requests a decision and never reports the end of
/// the request.
pub(super) fn check(context: &ParseContext<'_>, ParsedRule { rule, spans }: &ParsedRule) {
    if rule.direction != Direction::Descriptor {
        return;
    }
    let useless = |signal: &str| {
        context.report(
            DiagnosticBuilder::warning(spans.adaptive, format!("`{signal}` has no effect on `{}`", rule.name))
                .label("proxies do not report the end of a request")
                .help("use host signals (cpu, load1, memory, ...) or qps, or protect the service in a gateway"),
        );
    };
    match &rule.adaptive {
        Some(Adaptive::Auto(_)) => useless("auto"),
        Some(Adaptive::Ceiling(Ceiling { conditions, quorum, .. })) => {
            let is_unknown = |signal: Signal| signal.is_per_rule() && !matches!(signal, Signal::RequestsPerSecond);
            let first = conditions.iter().find(|condition| is_unknown(condition.signal));
            let never = match quorum {
                Quorum::All => first.is_some(),
                Quorum::Any => conditions.iter().all(|condition| is_unknown(condition.signal)),
            };
            if let Some(condition) = first.filter(|_| never) {
                useless(condition.signal.name());
            }
        }
        Some(Adaptive::Cpu(_)) | None => {}
    }
}

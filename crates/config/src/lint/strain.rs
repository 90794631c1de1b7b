//! Protection that could never act.

use sluicegate_engine::rule::{Adaptive, Ceiling, Need, Side, Signal};

use crate::diagnostic::Finding;
use crate::read::{Context, ReadRule};

/// Looks at how a rule for descriptors protects the process: a proxy asks about a request and never tells when it ends.
pub(super) fn look_at(context: &Context<'_>, read: &ReadRule) {
    let ReadRule { rule, places } = read;
    if rule.side != Side::Descriptor {
        return;
    }
    let useless = |what: &str| {
        context.report(
            Finding::warning(places.adaptive, format!("`{what}` has no effect on `{}`", rule.name))
                .label("nobody tells when these requests end")
                .help("go by the machine (cpu, load1, memory, ...) or by qps, or protect the service in a gateway"),
        );
    };
    match &rule.adaptive {
        Some(Adaptive::Auto(_)) => useless("auto"),
        Some(Adaptive::Ceiling(Ceiling { conditions, need, .. })) => {
            let unknown = |signal: Signal| signal.is_of_requests() && !matches!(signal, Signal::RequestsPerSecond);
            let first = conditions.iter().find(|condition| unknown(condition.signal));
            let never = match need {
                Need::All => first.is_some(),
                Need::Any => conditions.iter().all(|condition| unknown(condition.signal)),
            };
            if let Some(condition) = first.filter(|_| never) {
                useless(condition.signal.name());
            }
        }
        Some(Adaptive::Cpu(_)) | None => {}
    }
}

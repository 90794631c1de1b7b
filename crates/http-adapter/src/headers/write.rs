//! Writes rate limit headers directly as HTTP/1 lines, without a header map.

use http::HeaderName;

use super::line::PushBytes;
use super::{HeaderStyle, LEGACY_NAMES, POLICY, RATE_LIMIT, X_NAMES, push_remaining, rule_decisions, tightest};
use crate::decision_view::DecisionView;
use crate::prerendered::RenderedRules;

/// Writes one line per header, in the order of [`RateLimitFields::write`](super::RateLimitFields::write).
pub(crate) fn write_lines(output: &mut Vec<u8>, style: HeaderStyle, rules: &RenderedRules, view: &impl DecisionView) {
    match style {
        HeaderStyle::Ietf => {
            let mut is_any = false;
            for (_, face, _) in rule_decisions(rules, view) {
                is_any = true;
                write_line(output, &POLICY, |output| PushBytes::push(output, face.policy.as_bytes()));
            }
            if is_any {
                write_line(output, &RATE_LIMIT, |output| push_remaining(output, rules, view));
            }
        }
        HeaderStyle::Legacy => write_triple(output, &LEGACY_NAMES, rules, view),
        HeaderStyle::X => write_triple(output, &X_NAMES, rules, view),
        HeaderStyle::None => {}
    }
}

fn write_triple(output: &mut Vec<u8>, names: &[HeaderName; 3], rules: &RenderedRules, view: &impl DecisionView) {
    for (name, number) in names.iter().zip(tightest(rules, view).into_iter().flatten()) {
        write_line(output, name, |output| output.push_number(number));
    }
}

/// Writes one header line; `value` appends its value.
pub(super) fn write_line(output: &mut Vec<u8>, name: &HeaderName, value: impl FnOnce(&mut Vec<u8>)) {
    output.extend_from_slice(name.as_str().as_bytes());
    output.extend_from_slice(b": ");
    value(output);
    output.extend_from_slice(b"\r\n");
}

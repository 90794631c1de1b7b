//! Explains why a rule does not match a request.

use std::fmt;

use sluicegate_engine::rule::{Direction, Expr, Params, PathPattern, Request, Rule, Target};

/// First part of a rule that a request does not match.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// The rule is for requests of this direction.
    Direction(Direction),
    /// The service differs.
    Service {
        /// Service of the rule.
        expected: String,
        /// Service of the request; empty if it has none.
        actual: String,
    },
    /// The host differs.
    Host {
        /// Host of the rule.
        expected: String,
        /// Host of the request; empty if it has none.
        actual: String,
    },
    /// The path differs.
    Path {
        /// Path pattern of the rule.
        expected: String,
        /// Path of the request.
        actual: String,
    },
    /// The method differs.
    Method {
        /// Methods of the rule.
        expected: Vec<String>,
        /// Method of the request.
        actual: String,
    },
    /// These conditions are false.
    Condition(Vec<String>),
    /// The rule matches, but the request lacks these attributes of its key.
    MissingKey(Vec<String>),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_none = |text: &str| if text.is_empty() { "not given".to_owned() } else { text.to_owned() };
        match self {
            Self::Direction(Direction::Inbound) => f.write_str("the rule is for inbound requests"),
            Self::Direction(Direction::Outbound) => f.write_str("the rule is for outbound requests"),
            Self::Direction(Direction::Descriptor) => f.write_str("the rule is for descriptors"),
            Self::Service { expected, actual } => write!(f, "the service is {}, not {expected}", or_none(actual)),
            Self::Host { expected, actual } => write!(f, "the host is {}, not {expected}", or_none(actual)),
            Self::Path { expected, actual } => write!(f, "the path is {actual}, not {expected}"),
            Self::Method { expected, actual } => write!(f, "the method is {actual}, not {}", expected.join(" or ")),
            Self::Condition(conditions) => write!(f, "condition is false: {}", conditions.join(", ")),
            Self::MissingKey(attributes) => {
                write!(f, "the rule matches, but the request has no {}", attributes.join(", "))
            }
        }
    }
}

/// Reason for which the rule does not match the request; `None` if it matches.
pub fn mismatch_reason(rule: &Rule, request: &Request<'_>) -> Option<String> {
    mismatch(rule, request).map(|mismatch| mismatch.to_string())
}

/// First part of the rule that does not match the request; `None` if it matches.
pub fn mismatch(rule: &Rule, request: &Request<'_>) -> Option<Mismatch> {
    if rule.direction != request.direction {
        return Some(Mismatch::Direction(rule.direction));
    }
    target_mismatch(&rule.target, request).or_else(|| condition_mismatch(rule, request))
}

/// First part of the target that does not match. Each part is evaluated by the engine on its own.
fn target_mismatch(target: &Target, request: &Request<'_>) -> Option<Mismatch> {
    let mismatches = |part: Target| !part.matches(request);
    let Target { service, methods, host, path } = target;
    if mismatches(Target { service: service.clone(), ..Target::default() }) {
        let expected = service.clone().unwrap_or_default();
        return Some(Mismatch::Service { expected, actual: request.service.to_owned() });
    }
    if mismatches(Target { host: host.clone(), ..Target::default() }) {
        let expected = host.clone().unwrap_or_default();
        return Some(Mismatch::Host { expected, actual: request.host.to_owned() });
    }
    if mismatches(Target { path: path.clone(), ..Target::default() }) {
        let expected = path.clone().unwrap_or_default();
        return Some(Mismatch::Path { expected, actual: request.path.to_owned() });
    }
    if mismatches(Target { methods: methods.clone(), ..Target::default() }) {
        return Some(Mismatch::Method { expected: methods.clone(), actual: request.method.to_owned() });
    }
    None
}

/// The condition, or its false parts if all must hold.
fn condition_mismatch(rule: &Rule, request: &Request<'_>) -> Option<Mismatch> {
    let when = rule.when.as_ref()?;
    let pattern = pattern(rule);
    let params = params(pattern.as_ref(), request);
    if when.holds(request, &params) {
        return None;
    }
    Some(Mismatch::Condition(match when {
        Expr::All(all) => all.iter().filter(|part| !part.holds(request, &params)).map(ToString::to_string).collect(),
        other => vec![other.to_string()],
    }))
}

/// Attributes of the rule's key that the request lacks, separated by commas.
pub fn missing_key(rule: &Rule, request: &Request<'_>) -> String {
    missing_attributes(rule, request).join(", ")
}

/// Attributes of the rule's key that the request lacks.
pub(crate) fn missing_attributes(rule: &Rule, request: &Request<'_>) -> Vec<String> {
    let pattern = pattern(rule);
    let params = params(pattern.as_ref(), request);
    let absent = rule.key.iter().map(|part| &part.attribute).filter(|it| request.value(it, &params).is_none());
    absent.map(ToString::to_string).collect()
}

fn pattern(rule: &Rule) -> Option<PathPattern> {
    rule.target.path.as_deref().and_then(|path| PathPattern::parse(path).ok())
}

fn params<'a>(pattern: Option<&'a PathPattern>, request: &Request<'a>) -> Params<'a> {
    let mut params = Params::new();
    if let Some(pattern) = pattern {
        pattern.capture(request.path, &mut params);
    }
    params
}

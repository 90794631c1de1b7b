//! Why a rule has nothing to say about a request, for whoever explains one.

use sluicegate_engine::rule::{Expr, Params, PathPattern, Request, Rule, Side, Target};

/// What about the request the rule is not for; `None` if it matches.
pub fn reason(rule: &Rule, request: &Request<'_>) -> Option<String> {
    if rule.side != request.side {
        return Some(match rule.side {
            Side::Inbound => "it is for requests coming in".to_owned(),
            Side::Outbound => "it is for calls going out".to_owned(),
            Side::Descriptor => "it is for descriptors".to_owned(),
        });
    }
    target(&rule.target, request).or_else(|| condition(rule, request))
}

/// The first part of the target that does not fit. Each is asked by itself, of the engine.
fn target(target: &Target, request: &Request<'_>) -> Option<String> {
    let unlike = |part: Target| !part.matches(request);
    let shown = |text: &str| if text.is_empty() { "not given".to_owned() } else { text.to_owned() };
    let Target { service, methods, host, path } = target;
    if unlike(Target { service: service.clone(), ..Target::default() }) {
        let wanted = service.as_deref().unwrap_or_default();
        return Some(format!("the service is {}, not {wanted}", shown(request.service)));
    }
    if unlike(Target { host: host.clone(), ..Target::default() }) {
        return Some(format!("the host is {}, not {}", shown(request.host), host.as_deref().unwrap_or_default()));
    }
    if unlike(Target { path: path.clone(), ..Target::default() }) {
        return Some(format!("the path is {}, not {}", request.path, path.as_deref().unwrap_or_default()));
    }
    if unlike(Target { methods: methods.clone(), ..Target::default() }) {
        return Some(format!("the method is {}, not {}", request.method, methods.join(" or ")));
    }
    None
}

/// The condition, or those parts of it that do not hold where all must.
fn condition(rule: &Rule, request: &Request<'_>) -> Option<String> {
    let when = rule.when.as_ref()?;
    let pattern = pattern(rule);
    let params = params(pattern.as_ref(), request);
    if when.holds(request, &params) {
        return None;
    }
    let failing: Vec<String> = match when {
        Expr::All(all) => all.iter().filter(|part| !part.holds(request, &params)).map(ToString::to_string).collect(),
        other => vec![other.to_string()],
    };
    Some(format!("does not hold: {}", failing.join(", ")))
}

/// The attributes of the rule's key that the request does not have.
pub fn missing_key(rule: &Rule, request: &Request<'_>) -> String {
    let pattern = pattern(rule);
    let params = params(pattern.as_ref(), request);
    let absent = rule.key.iter().map(|part| &part.attribute).filter(|it| request.value(it, &params).is_none());
    absent.map(ToString::to_string).collect::<Vec<_>>().join(", ")
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

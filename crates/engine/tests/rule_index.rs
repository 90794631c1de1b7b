//! The index finds exactly the rules that a linear scan finds.

use std::net::IpAddr;

use proptest::prelude::*;
use sluicegate_engine::rule::{Attribute, AttributeMap, Direction, Expr, Params, Request, Rule, RuleIndex, Target};

/// Reference implementation: true if a pattern matches a path.
fn path_matches(pattern: &str, path: &str) -> bool {
    fn segments(path: &str) -> Vec<&str> {
        let path = path.strip_prefix('/').unwrap_or(path);
        if path.is_empty() { vec![] } else { path.strip_suffix('/').unwrap_or(path).split('/').collect() }
    }
    fn matches(pattern: &[&str], path: &[&str]) -> bool {
        match (pattern, path) {
            ([], []) => true,
            (["**"], _) => true,
            ([rest], _) if rest.starts_with("{*") => true,
            ([any, pattern @ ..], [given, path @ ..]) if *any == "*" || any.starts_with('{') => {
                !given.is_empty() && matches(pattern, path)
            }
            ([literal, pattern @ ..], [given, path @ ..]) => literal == given && matches(pattern, path),
            _ => false,
        }
    }
    matches(&segments(pattern), &segments(path))
}

fn params<'a>(pattern: &'a str, path: &'a str) -> Params<'a> {
    let mut params = Params::new();
    let mut path = path.strip_prefix('/').unwrap_or(path);
    path = path.strip_suffix('/').unwrap_or(path);
    for segment in pattern.split('/').skip(1) {
        let (given, rest) = path.split_once('/').unwrap_or((path, ""));
        if let Some(name) = segment.strip_prefix("{*").and_then(|name| name.strip_suffix('}')) {
            if !path.is_empty() {
                params.push(name, path);
            }
        } else if let Some(name) = segment.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            params.push(name, given);
        }
        path = rest;
    }
    params
}

fn match_every_rule(rules: &[Rule], request: &Request<'_>) -> Vec<(usize, Vec<(String, String)>)> {
    let fits = |rule: &Rule| -> Option<Vec<(String, String)>> {
        let target = &rule.target;
        let fits = rule.direction == request.direction
            && target.service.as_ref().is_none_or(|service| service == request.service)
            && target.host.as_ref().is_none_or(|host| *host == request.host.to_lowercase())
            && (target.methods.is_empty() || target.methods.iter().any(|method| method == request.method))
            && target.path.as_ref().is_none_or(|path| path_matches(path, request.path));
        if !fits {
            return None;
        }
        let params = target.path.as_ref().map_or_else(Params::new, |pattern| params(pattern, request.path));
        let holds = rule.when.as_ref().is_none_or(|when| when.holds(request, &params));
        holds.then(|| params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    };
    rules.iter().enumerate().filter_map(|(i, rule)| Some((i, fits(rule)?))).collect()
}

fn paths() -> impl Strategy<Value = String> {
    "(/[ab]?){0,4}"
}

fn rules() -> impl Strategy<Value = Rule> {
    let target = "(service [st] )?(host [hi] )?((GET|POST|GET\\|PUT) )?((/(a|b|\\*|\\{x\\}))?(/(a|b|\\*|\\{y\\}))?(/(a|\\*\\*|\\{\\*z\\}))?)";
    let condition = prop_oneof![
        "account == '[abc]'",
        "account != '[abc]'",
        "account in \\['a', '[abc]'\\]",
        "header\\['x'\\] == '[ab]'",
        "method in \\['GET', 'PUT'\\]",
        "param\\['[xy]'\\] == '[ab]'",
        "path == '/a'",
        "client\\.ip in 10\\.[01]\\.0\\.0/16",
        "has\\(account\\)",
        "\\(account == 'a' \\|\\| account == 'b'\\)",
    ];
    (target, prop::collection::vec(condition, 0..3), any::<bool>()).prop_map(|(target, conditions, inbound)| {
        let mut rule = Rule::new("rule", []);
        rule.target = Target::parse(&target).unwrap();
        rule.when = (!conditions.is_empty()).then(|| Expr::parse(&conditions.join(" && ")).unwrap());
        rule.direction = if inbound { Direction::Inbound } else { Direction::Outbound };
        rule
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_index_agrees_with_a_linear_scan(
        rules in prop::collection::vec(rules(), 0..60),
        requests in prop::collection::vec(
            (paths(), "GET|POST|PUT", "[st]?", "[hHi]?", "[abc]?", "[ab]?", prop::option::of(0..3u8)), 1..12),
    ) {
        let index = RuleIndex::build(&rules);
        for (path, method, service, host, account, x, ip) in requests {
            let attributes = AttributeMap::new()
                .with(Attribute::custom("account"), account)
                .with(Attribute::header("x"), x);
            for direction in [Direction::Inbound, Direction::Outbound] {
                let request = Request {
                    client_ip: ip.map(|ip| IpAddr::from([10, ip, 0, 1])),
                    ..Request::new(&method, &path)
                        .with_service(&service)
                        .with_host(&host)
                        .with_direction(direction)
                        .with_attributes(&attributes)
                };
                let mut found = Vec::new();
                index.matching(&rules, &request, |rule, params| {
                    let params = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
                    found.push((rule, params));
                });
                prop_assert_eq!(&found, &match_every_rule(&rules, &request), "{:?}", request);
                for (rule, _) in &found {
                    prop_assert!(rules[*rule].target.matches(&request));
                }
            }
        }
    }

    #[test]
    fn arbitrary_paths_never_panic(path: String, rules in prop::collection::vec(rules(), 0..10)) {
        RuleIndex::build(&rules).matching(&rules, &Request::new("GET", &path), |_, _| {});
    }
}

use super::Candidates;
use super::*;
use crate::rule::{Attribute, AttributeMap, Expr, Target};

fn rule(target: &str, when: &str) -> Rule {
    let mut rule = Rule::new("rule", []);
    rule.target = Target::parse(target).unwrap();
    rule.when = (!when.is_empty()).then(|| Expr::parse(when).unwrap());
    rule
}

fn found(rules: &[Rule], request: &Request<'_>) -> Vec<usize> {
    let mut found = Vec::new();
    RuleIndex::build(rules).matching(rules, request, |rule, _| found.push(rule));
    found
}

#[test]
fn all_rules_along_the_path_are_found_in_order() {
    let mut outbound = rule("/**", "");
    outbound.direction = Direction::Outbound;
    let rules = [
        rule("GET /api/orders", ""),
        rule("/api/**", ""),
        outbound,
        rule("*", ""),
        rule("/api/*", ""),
        rule("POST /api/orders", ""),
        rule("/api/{name}", "param['name'] == 'orders'"),
        rule("/api/{name}", "param['name'] == 'others'"),
        rule("/api/orders/**", ""),
        rule("/", ""),
        rule("/**", "has(client.ip)"),
    ];
    assert_eq!(found(&rules, &Request::new("GET", "/api/orders")), [0, 1, 3, 4, 6, 8]);
    assert_eq!(found(&rules, &Request::new("GET", "/api/orders/")), [0, 1, 3, 4, 6, 8]);
    assert_eq!(found(&rules, &Request::new("GET", "/api//orders")), [1, 3]);
    assert_eq!(found(&rules, &Request::new("GET", "/")), [3, 9]);
    assert_eq!(found(&rules, &Request::new("", "").with_client_ip([1, 2, 3, 4])), [3, 9, 10]);
    assert_eq!(found(&rules, &Request::new("GET", "/api/orders").with_direction(Direction::Outbound)), [2]);
}

/// A pattern for all paths captures its parameter, although every path matches it.
#[test]
fn the_whole_path_is_captured_too() {
    let rules = [rule("*", ""), rule("/{*rest}", "")];
    let mut found = Vec::new();
    RuleIndex::build(&rules).matching(&rules, &Request::new("GET", "/a/b"), |rule, params| {
        found.push((rule, params.get("rest").map(str::to_owned)));
    });
    assert_eq!(found, [(0, None), (1, Some("a/b".to_owned()))]);
}

#[test]
fn an_invalid_path_pattern_matches_nothing() {
    let mut wrong = rule("*", "");
    wrong.target.path = Some("{".to_owned());
    assert_eq!(found(&[wrong, rule("*", "")], &Request::new("GET", "{")), [1]);
}

#[test]
fn an_index_with_the_wrong_rules_does_not_panic() {
    let rules = [rule("*", ""), rule("*", "")];
    let index = RuleIndex::build(&rules);
    let mut count = 0;
    index.matching(&rules[..1], &Request::new("GET", "/"), |_, _| count += 1);
    assert_eq!(count, 1);
}

/// Number of candidates of one request among ten thousand rules that differ in one property.
#[test]
fn ten_thousand_rules_yield_one_candidate() {
    type RuleShape = (&'static str, fn(usize) -> Rule);
    let shapes: [RuleShape; 9] = [
        ("account", |i| rule("*", &format!("account == 'a{i}'"))),
        ("account, one of two", |i| rule("*", &format!("account in ['a{i}', 'b{i}']"))),
        ("account and more", |i| rule("POST /x/**", &format!("tier != 'vip' && account == 'a{i}'"))),
        ("service", |i| rule(&format!("service s{i} POST"), "")),
        ("service and tier", |i| rule(&format!("service s{i}"), "tier == 'free'")),
        ("host", |i| rule(&format!("host h{i}.example /x/**"), "")),
        ("path", |i| rule(&format!("POST /x/p{i}"), "")),
        ("path below", |i| rule(&format!("/x/p{i}/**"), "")),
        ("parameter after it", |i| rule(&format!("/*/p{i}/{{id}}"), "")),
    ];
    let attributes =
        AttributeMap::new().with(Attribute::custom("account"), "a7777").with(Attribute::custom("tier"), "free");
    for (name, shape) in shapes {
        let rules: Vec<Rule> = (0..10_000).map(shape).collect();
        let index = RuleIndex::build(&rules);
        let path = if name.starts_with("parameter") { "/x/p7777/1" } else { "/x/p7777" };
        let request =
            Request::new("POST", path).with_service("s7777").with_host("H7777.example:80").with_attributes(&attributes);
        let mut candidates = Candidates::new();
        index.candidates(&request, &mut candidates);
        assert_eq!(candidates.len(), 1, "{name}");
        let mut found = Vec::new();
        index.matching(&rules, &request, |rule, _| found.push(rule));
        assert_eq!(found, [7777], "{name}");
    }
}

#[test]
fn rules_without_equalities_are_all_checked() {
    let rules: Vec<Rule> = (0..20).map(|i| rule("*", &format!("tries > {i}"))).collect();
    let attributes = AttributeMap::new().with(Attribute::custom("tries"), "5");
    assert_eq!(found(&rules, &Request::new("", "").with_attributes(&attributes)), [0, 1, 2, 3, 4]);
}

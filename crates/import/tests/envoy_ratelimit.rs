//! Tests of descriptor matching against the results of envoyproxy/ratelimit.

use std::fs;

use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::{Attribute, AttributeMap, Direction, Mode, Request, Scope};
use sluicegate_engine::sluice::{Outcome, Sluice};
use sluicegate_import::envoy_ratelimit::{DescriptorLimit, DescriptorMatch, Domains, LimitKind, RateLimitUnit};

fn domains(text: &str) -> Domains {
    Domains::parse(&[("file.yaml".to_owned(), text.to_owned())]).unwrap_or_else(|report| panic!("{report}"))
}

/// Parses entries written `a=1 b=2`.
fn entries(text: &str) -> Vec<(&str, &str)> {
    text.split_whitespace().map(|entry| entry.split_once('=').unwrap()).collect()
}

/// Formats the match as `5/second name[key]`; `-` for none.
fn found(domains: &Domains, domain: &str, request: &str) -> String {
    let Some(found) = domains.find(domain, entries(request)) else { return "-".to_owned() };
    let DescriptorLimit { kind, requests_per_unit, unit, rule, rule_name, .. } = found.limit;
    assert_eq!(rule.map(|rule| &domains.rules()[rule].name), (*kind == LimitKind::Counted).then_some(rule_name));
    let limit = match (kind, unit) {
        (LimitKind::Unlimited, None) => "unlimited".to_owned(),
        (LimitKind::Blocked, Some(_)) => "blocked".to_owned(),
        (LimitKind::Counted, Some(unit)) => format!("{requests_per_unit}/{unit:?}").to_lowercase(),
        other => panic!("{other:?}"),
    };
    format!("{limit} {rule_name}[{}]", found.key)
}

fn table(text: &str, cases: &[(&str, &str)]) {
    let domains = domains(text);
    let domain = text.trim_start().lines().next().unwrap().strip_prefix("domain: ").unwrap();
    for (request, expected) in cases {
        assert_eq!(found(&domains, domain, request), *expected, "{domain}: {request}");
    }
    assert!(domains.contains(domain));
    assert!(!domains.contains("another"));
    assert!(domains.find("another", entries(cases[0].0)).is_none());
}

#[test]
fn key_and_value_select_the_limit() {
    table(
        "domain: mongo_cps
descriptors:
  - { key: database, value: users, rate_limit: { unit: second, requests_per_unit: 500 } }
  - { key: database, value: default, rate_limit: { unit: second, requests_per_unit: 400 } }
",
        &[
            ("database=users", "500/second mongo_cps.database_users[]"),
            ("database=default", "400/second mongo_cps.database_default[]"),
            ("database=other", "-"),
            ("database=", "-"),
            ("Database=users", "-"),
            ("", "-"),
        ],
    );
}

#[test]
fn nested_descriptors_and_any_value() {
    table(
        "domain: messaging
descriptors:
  - key: message_type
    value: marketing
    descriptors:
      - { key: to_number, rate_limit: { unit: day, requests_per_unit: 5 } }
  - { key: to_number, rate_limit: { unit: day, requests_per_unit: 100 } }
",
        &[
            (
                "message_type=marketing to_number=2061111111",
                "5/day messaging.message_type_marketing.to_number[to_number=2061111111]",
            ),
            ("to_number=2061111111", "100/day messaging.to_number[to_number=2061111111]"),
            ("to_number=", "100/day messaging.to_number[to_number=]"),
            ("message_type=marketing", "-"),
            ("message_type=other to_number=1", "-"),
            ("to_number=1 message_type=marketing", "-"),
        ],
    );
}

#[test]
fn the_most_specific_descriptor_wins_in_any_order() {
    table(
        "domain: edge_proxy_per_ip
descriptors:
  - { key: remote_address, rate_limit: { unit: second, requests_per_unit: 10 } }
  - { key: remote_address, value: 50.0.0.5, rate_limit: { unit: second, requests_per_unit: 0 } }
",
        &[
            ("remote_address=50.0.0.1", "10/second edge_proxy_per_ip.remote_address[remote_address=50.0.0.1]"),
            ("remote_address=50.0.0.5", "blocked edge_proxy_per_ip.remote_address_50.0.0.5[]"),
        ],
    );
}

#[test]
fn a_limit_applies_only_at_its_depth() {
    table(
        "domain: flat
descriptors:
  - { key: key, value: value, rate_limit: { requests_per_unit: 300, unit: second } }
",
        &[("key=value subkey=subvalue", "-"), ("key=value", "300/second flat.key_value[]")],
    );
    table(
        "domain: nested
descriptors:
  - key: key
    value: value
    descriptors:
      - { key: subkey, rate_limit: { requests_per_unit: 300, unit: second } }
",
        &[
            ("key=value subkey=subvalue", "300/second nested.key_value.subkey[subkey=subvalue]"),
            ("key=value", "-"),
            ("key=value subkey=a more=b", "-"),
        ],
    );
    table(
        "domain: both
descriptors:
  - key: key
    rate_limit: { requests_per_unit: 1, unit: hour }
    descriptors:
      - { key: subkey, rate_limit: { requests_per_unit: 2, unit: hour } }
",
        &[
            ("key=a", "1/hour both.key[key=a]"),
            ("key=a subkey=b", "2/hour both.key.subkey[key=a,subkey=b]"),
            ("key=a other=b", "-"),
        ],
    );
}

#[test]
fn unlimited_is_found_and_not_counted() {
    let text = "domain: internal
descriptors:
  - { key: ldap, rate_limit: { unlimited: true } }
  - { key: azure, rate_limit: { unit: minute, requests_per_unit: 100 } }
  - { key: free }
";
    table(
        text,
        &[("ldap=x", "unlimited internal.ldap[]"), ("azure=x", "100/minute internal.azure[azure=x]"), ("free=x", "-")],
    );
    assert_eq!(domains(text).rules().len(), 1);
}

#[test]
fn shadow_mode_belongs_to_its_descriptor() {
    let text = "domain: example6
descriptors:
  - key: service
    descriptors:
      - { key: user, value: user-a, shadow_mode: true, rate_limit: { requests_per_unit: 10, unit: second } }
      - { key: user, value: user-b, rate_limit: { requests_per_unit: 20, unit: second } }
";
    table(
        text,
        &[
            ("service=auth user=user-a", "10/second example6.service.user_user-a[service=auth]"),
            ("service=auth user=user-b", "20/second example6.service.user_user-b[service=auth]"),
            ("service=auth user=user-c", "-"),
        ],
    );
    let domains = domains(text);
    let modes: Vec<Mode> = domains.rules().iter().map(|rule| rule.mode).collect();
    assert_eq!(modes, [Mode::Shadow, Mode::Enforce]);
    assert!(domains.find("example6", entries("service=auth user=user-a")).unwrap().limit.shadow);
}

#[test]
fn replaced_limits_are_named() {
    let domains = domains(
        "domain: example7
descriptors:
  - key: key_1
    value: value_1
    descriptors:
      - key: user
        value: bkthomps
        rate_limit: { name: specific_limit, requests_per_unit: 5, unit: second }
  - key: key_2
    value: value_2
    descriptors:
      - key: user
        value: bkthomps
        rate_limit: { replaces: [{ name: specific_limit }], requests_per_unit: 10, unit: second }
",
    );
    let limit = |request| domains.find("example7", entries(request)).unwrap().limit;
    let (first, second) = (limit("key_1=value_1 user=bkthomps"), limit("key_2=value_2 user=bkthomps"));
    assert_eq!((first.name.as_deref(), first.requests_per_unit), (Some("specific_limit"), 5));
    assert_eq!((&*second.replaces, second.name.as_deref()), (&["specific_limit".to_owned()][..], None));
}

#[test]
fn detailed_metrics_change_no_match() {
    table(
        "domain: example8
descriptors:
  - { key: key1, detailed_metric: true, rate_limit: { unit: minute, requests_per_unit: 10 } }
  - { key: key1, value: value1, rate_limit: { unit: minute, requests_per_unit: 20 } }
",
        &[
            ("key1=unspecified", "10/minute example8.key1[key1=unspecified]"),
            ("key1=value1", "20/minute example8.key1_value1[]"),
        ],
    );
}

#[test]
fn wildcards_rank_between_exact_values_and_the_key_alone() {
    table(
        "domain: wild
descriptors:
  - { key: any, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - { key: any, value: 'val*', rate_limit: { unit: minute, requests_per_unit: 2 } }
  - { key: any, value: 'value*', rate_limit: { unit: minute, requests_per_unit: 3 } }
  - { key: any, value: value1, rate_limit: { unit: minute, requests_per_unit: 4 } }
  - { key: mid, value: 'bar*b', rate_limit: { unit: minute, requests_per_unit: 5 } }
  - { key: many, value: 'svc*ep*rpc', rate_limit: { unit: minute, requests_per_unit: 6 } }
  - { key: front, value: '*.example.com', rate_limit: { unit: minute, requests_per_unit: 7 } }
  - { key: all, value: '*', rate_limit: { unit: minute, requests_per_unit: 8 } }
",
        &[
            ("any=other", "1/minute wild.any[any=other]"),
            ("any=val", "2/minute wild.any_val*[any=val]"),
            // The first match wins, even if a later one is more specific.
            ("any=value2", "2/minute wild.any_val*[any=value2]"),
            ("any=value1", "4/minute wild.any_value1[]"),
            ("any=value*", "3/minute wild.any_value*[any=value*]"),
            ("mid=barb", "5/minute wild.mid_bar*b[mid=barb]"),
            ("mid=bar-b-b", "5/minute wild.mid_bar*b[mid=bar-b-b]"),
            ("mid=bar-c", "-"),
            ("mid=bar", "-"),
            ("many=svc1ep2rpc", "6/minute wild.many_svc*ep*rpc[many=svc1ep2rpc]"),
            ("many=svcrpcep", "-"),
            ("front=a.example.com", "7/minute wild.front_*.example.com[front=a.example.com]"),
            ("front=example.com", "-"),
            ("all=", "8/minute wild.all_*[all=]"),
        ],
    );
}

#[test]
fn wildcards_are_separate_per_level() {
    table(
        "domain: levels
descriptors:
  - key: a
    value: 'x*'
    descriptors:
      - { key: a, value: 'y*', rate_limit: { unit: minute, requests_per_unit: 1 } }
",
        &[("a=x1 a=y1", "1/minute levels.a_x*.a_y*[a=x1,a=y1]"), ("a=x1 a=x1", "-"), ("a=y1 a=y1", "-")],
    );
}

#[test]
fn matching_does_not_backtrack() {
    table(
        "domain: chosen
descriptors:
  - { key: a, value: x, descriptors: [{ key: b, value: '1', rate_limit: { unit: day, requests_per_unit: 1 } }] }
  - { key: a, value: 'x*', descriptors: [{ key: b, value: '2', rate_limit: { unit: day, requests_per_unit: 2 } }] }
  - { key: a, descriptors: [{ key: b, rate_limit: { unit: day, requests_per_unit: 3 } }] }
",
        &[
            ("a=x b=1", "1/day chosen.a_x.b_1[]"),
            ("a=x b=2", "-"),
            ("a=xy b=2", "2/day chosen.a_x*.b_2[a=xy]"),
            ("a=xy b=3", "-"),
            ("a=z b=3", "3/day chosen.a.b[a=z,b=3]"),
        ],
    );
}

#[test]
fn a_shared_threshold_is_one_count() {
    table(
        "domain: example11
descriptors:
  - { key: files, value: 'files/*', share_threshold: true, rate_limit: { unit: hour, requests_per_unit: 10 } }
  - { key: apart, value: 'files/*', share_threshold: false, rate_limit: { unit: hour, requests_per_unit: 10 } }
  - key: path
    value: 'path/*'
    share_threshold: true
    descriptors:
      - key: file
        value: 'file/*'
        descriptors:
          - { key: type, rate_limit: { unit: minute, requests_per_unit: 120 } }
  - { key: mid, value: '/api*v1', share_threshold: true, rate_limit: { unit: hour, requests_per_unit: 1 } }
",
        &[
            ("files=files/a.pdf", "10/hour example11.files_files/*[]"),
            ("files=files/*", "10/hour example11.files_files/*[]"),
            ("apart=files/a.pdf", "10/hour example11.apart_files/*[apart=files/a.pdf]"),
            ("path=path/1 file=file/2 type=3", "120/minute example11.path_path/*.file_file/*.type[file=file/2,type=3]"),
            ("mid=/api/x/v1", "1/hour example11.mid_/api*v1[]"),
        ],
    );
}

#[test]
fn value_to_metric_is_inherited_along_the_path() {
    let domains = domains(
        "domain: example10
descriptors:
  - key: route
    value_to_metric: true
    descriptors:
      - { key: subject_id, rate_limit: { unit: minute, requests_per_unit: 60 } }
  - { key: subject_id, detailed_metric: true, rate_limit: { unit: minute, requests_per_unit: 60 } }
",
    );
    let flags = |request| {
        let limit = domains.find("example10", entries(request)).unwrap().limit;
        (limit.value_to_metric, limit.detailed_metric)
    };
    assert_eq!(flags("route=api subject_id=1"), (true, false));
    assert_eq!(flags("subject_id=1"), (false, true));
}

/// envoyproxy/ratelimit joins key and value with `_` and confuses these descriptors.
#[test]
fn joined_names_do_not_collide() {
    let text = "domain: joined
descriptors:
  - { key: a_b, value: c, rate_limit: { unit: day, requests_per_unit: 1 } }
  - { key: a, value: b_c, rate_limit: { unit: day, requests_per_unit: 2 } }
  - { key: a_b_c, rate_limit: { unit: day, requests_per_unit: 3 } }
  - { key: x, value: 'y*', rate_limit: { unit: day, requests_per_unit: 4 } }
";
    table(
        text,
        &[
            ("a_b=c", "1/day joined.a_b_c[]"),
            ("a=b_c", "2/day joined.a_b_c~2[]"),
            ("a_b_c=", "3/day joined.a_b_c~3[a_b_c=]"),
            ("x_y=z", "-"),
        ],
    );
}

#[test]
fn each_counting_limit_has_a_rule() {
    let domains = domains(
        "domain: shop
descriptors:
  - key: user
    metadata: { tier: free }
    quota_mode: true
    rate_limit: { unit: minute, requests_per_unit: 2 }
",
    );
    let rule = &domains.rules()[0];
    assert_eq!((rule.direction, rule.scope, rule.mode), (Direction::Descriptor, Scope::Local, Mode::Enforce));
    assert_eq!(rule.target.service.as_deref(), Some("shop"));
    assert_eq!(rule.key[0].attribute, Attribute::custom("descriptor"));
    assert_eq!(rule.limits[0].to_string(), "fixed_window 2/1m");

    let sluice = sluice(&domains);
    let admitted = ["ann", "ann", "ben", "ann"].map(|user| {
        let found = domains.find("shop", [("user", user)]).unwrap();
        assert_eq!(found.limit.metadata.as_ref().unwrap()["tier"], "free");
        assert!(found.limit.quota);
        decide(&sluice, "shop", &found).is_admitted()
    });
    assert_eq!(admitted, [true, true, true, false]);
}

fn sluice(domains: &Domains) -> Sluice {
    Sluice::builder().rules(domains.rules().to_vec()).clock(ManualClock::new()).build().unwrap()
}

fn decide(sluice: &Sluice, domain: &str, found: &DescriptorMatch<'_>) -> Outcome {
    let attributes = AttributeMap::new().with(Attribute::custom("descriptor"), found.key.clone());
    let mut request = Request::new("", "").with_service(domain).with_attributes(&attributes);
    request.direction = Direction::Descriptor;
    sluice.rule(&found.limit.rule_name).unwrap().decide_async(&request).take().unwrap()
}

#[test]
fn shadow_limits_report_their_decision() {
    let domains = domains(
        "domain: shop
descriptors: [{ key: user, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 1 } }]
",
    );
    let sluice = sluice(&domains);
    let found = domains.find("shop", [("user", "ann")]).unwrap();
    let decisions = [(); 2].map(|()| {
        let outcome = decide(&sluice, "shop", &found);
        let (_, checked) = outcome.decisions().next().unwrap();
        (outcome.is_admitted(), checked.decision.is_admitted(), checked.shadow)
    });
    assert_eq!(decisions, [(true, true, true), (true, false, true)]);
}

#[test]
fn units_and_algorithms_build_their_limits() {
    insta::glob!("envoy_ratelimit/valid/*.yaml", |path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let domains = Domains::parse(&[(name, fs::read_to_string(path).unwrap())]).unwrap_or_else(|e| panic!("{e}"));
        let rules: Vec<String> = domains.rules().iter().map(render).collect();
        insta::assert_snapshot!(rules.join("\n"));
    });
    for (unit, seconds) in
        [(RateLimitUnit::Week, 604_800), (RateLimitUnit::Month, 2_592_000), (RateLimitUnit::Year, 31_536_000)]
    {
        assert_eq!(unit.duration().as_secs(), seconds);
    }
}

fn render(rule: &sluicegate_engine::rule::Rule) -> String {
    let limits: Vec<String> = rule.limits.iter().map(ToString::to_string).collect();
    let key: Vec<String> = rule.key.iter().map(|part| part.attribute.to_string()).collect();
    format!("{} by {key:?} {:?}: {}", rule.name, rule.mode, limits.join("; "))
}

/// YAML that only other parsers accept.
#[test]
fn yaml_1_1_is_parsed_like_envoy_ratelimit() {
    let domains = domains(include_str!("envoy_ratelimit/valid/basic.yaml"));
    let found = |request: &str| found(&domains, "basic", request);
    assert_eq!(found("404=1.50"), "1/month basic.404_1.50[]");
    assert_eq!(found("404=1.50 true=no"), "4294967295/year basic.404_1.50.true_no[]");
    assert_eq!(found("merged=x"), "3/year basic.merged[merged=x]");
    assert_eq!(found("empty=x"), "-");
    assert_eq!(found("watched=x"), "1000/hour basic.watched[watched=x]");
    let quota = domains.find("basic", entries("quota=x")).unwrap().limit;
    assert!(quota.quota);
    assert_eq!(quota.replaces, ["watched", "7"]);
    assert_eq!(quota.metadata.as_ref().unwrap().to_string(), r#"{"plan":{"name":"free","of":[1,null]}}"#);
    let several = domains.find("basic", entries("algorithms=x h=y")).unwrap().limit;
    assert_eq!((several.requests_per_unit, several.unit), (300, Some(RateLimitUnit::Minute)));
    let odd = domains.find("basic", entries("algorithms=x i=y")).unwrap().limit;
    assert_eq!((odd.requests_per_unit, odd.unit), (15, None));
}

#[test]
fn text_behind_an_anchor_is_kept_verbatim() {
    let domains = domains(
        "domain: &domain 7
descriptors:
  - { key: &key 404, value: &value 0x1F, rate_limit: &limit { unit: day, requests_per_unit: 1 } }
  - { key: *value, value: *key, rate_limit: *limit }
  - { key: \"a\\u0062\", value: *domain, rate_limit: *limit }
",
    );
    let names: Vec<&str> = domains.rules().iter().map(|rule| &*rule.name).collect();
    assert_eq!(names, ["7.404_0x1F", "7.0x1F_404", "7.ab_7"]);
}

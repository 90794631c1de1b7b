use proptest::prelude::*;

use super::*;
use crate::rule::AttributeMap;

fn canonical(text: &str) -> String {
    Expr::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).to_string()
}

fn holds(text: &str) -> bool {
    let attributes = AttributeMap::new()
        .with(Attribute::custom("account"), "alice")
        .with(Attribute::custom("tries"), "3")
        .with(Attribute::custom("huge"), "99999999999999999999")
        .with(Attribute::custom("empty"), "")
        .with(Attribute::header("x-real-ip"), "::ffff:10.9.9.9");
    let request = Request::new("GET", "/api/orders/7")
        .with_client_ip("::ffff:10.1.2.3".parse::<IpAddr>().unwrap())
        .with_host("Shop.example:8080")
        .with_attributes(&attributes);
    let mut params = Params::new();
    params.push("id", "7");
    Expr::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).holds(&request, &params)
}

#[test]
fn conditions_evaluate_as_documented() {
    for text in [
        "account == 'alice'",
        "account != 'bob'",
        "account in ['bob', 'alice']",
        "missing != 'x'",
        "!(missing == 'x')",
        "!has(missing)",
        "!has(empty)",
        "has(client.ip) && has(account)",
        "client.ip in 10.1.0.0/16",
        "client.ip in [192.168.0.0/16, 10.1.2.3]",
        "client.ip in ::ffff:10.0.0.0/104",
        "client.ip in ['10.0.0.0/8']",
        "client.ip == '10.1.2.3'",
        "client.ip == ::ffff:10.1.2.3",
        "client.ip != 10.1.2.4",
        "header['x-real-ip'] in 10.9.0.0/16",
        "host == 'shop.example'",
        "path.startsWith('/api')",
        "path.endsWith('/7')",
        "path.contains('orders')",
        "path.matches('^/api/[a-z]+/[0-9]$')",
        "param['id'] == 7",
        "tries == 3",
        "tries != 4",
        "tries > 2 && tries >= 3 && tries < 4 && tries <= 3 && tries > -1",
        "tries in [1, 2, 3,]",
        "huge > 5",
        "true",
        "!false",
        "false || true",
        "true || false && false",
        "!(true && false)",
    ] {
        assert!(holds(text), "{text}");
    }
    for text in [
        "account == 'ALICE'",
        "missing == 'x'",
        "missing in ['x']",
        "missing.contains('')",
        "missing < 5",
        "account > 5",
        "empty in ['x']",
        "client.ip in 10.2.0.0/16",
        "client.ip in ::/0",
        "account in 10.0.0.0/8",
        "(true || false) && false",
    ] {
        assert!(!holds(text), "{text}");
    }
}

#[test]
fn equivalent_conditions_format_the_same() {
    for (text, expected) in [
        (r#" ( account=="alice" ) "#, "account == 'alice'"),
        ("!(account == 'a')", "account != 'a'"),
        ("!(account in ['a','b'])", "!(account in ['a', 'b'])"),
        ("!!has(a)", "!!has(a)"),
        ("!!(a == 'x')", "!(a != 'x')"),
        ("a == 'x' || b == 'y' && c == 'z'", "a == 'x' || b == 'y' && c == 'z'"),
        ("(a == 'x' || b == 'y') && c == 'z'", "(a == 'x' || b == 'y') && c == 'z'"),
        ("(a == 'x' && b == 'y') && c == 'z'", "a == 'x' && b == 'y' && c == 'z'"),
        ("client.ip in [10.1.2.3/8]", "client.ip in 10.0.0.0/8"),
        ("client.ip in 10.1.2.3", "client.ip == 10.1.2.3"),
        ("client.ip in [10.1.2.3, fe80::/10]", "client.ip in [10.1.2.3/32, fe80::/10]"),
        ("header['X-Tier'].startsWith( 'v' )", "header['x-tier'].startsWith('v')"),
        ("jwt.sub.endsWith('x')", "jwt.sub.endsWith('x')"),
        (r"path.matches(r'\.js$')", r"path.matches('\\.js$')"),
        ("has ( query['q'] )", "has(query['q'])"),
        ("n == 007", "n == '7'"),
    ] {
        assert_eq!(canonical(text), expected);
        assert_eq!(canonical(expected), expected);
    }
    assert_eq!(Expr::parse("a=='x'"), Expr::parse("(a == \"x\")"));
    assert_ne!(Expr::parse("a=='x'"), Expr::parse("a=='y'"));
}

#[test]
fn constructed_conditions_format_to_equivalent_text() {
    let attribute = || Attribute::custom("a");
    for (expr, expected) in [
        (Expr::All(vec![]), "true"),
        (Expr::Any(vec![]), "false"),
        (Expr::OneOf(attribute(), vec![]), "false"),
        (Expr::Not(Box::new(Expr::InNetwork(attribute(), vec![]))), "!false"),
        (Expr::Not(Box::new(Expr::All(vec![Expr::OneOf(attribute(), vec!["x".into()])]))), "a != 'x'"),
        (Expr::Not(Box::new(Expr::Any(vec![Expr::Number(attribute(), Relation::Less, 3)]))), "!(a < 3)"),
    ] {
        assert_eq!(expr.to_string(), expected);
        assert_eq!(canonical(expected), expected);
    }
}

#[test]
fn errors_name_the_span_and_the_remedy() {
    for (text, faulty, message) in [
        ("", "", "unexpected end"),
        ("a = 'x'", "=", "use =="),
        ("a === 'x'", "===", "use =="),
        ("a =~ 'x'", "=~", ".matches"),
        ("a => 3", "=>", "use >="),
        ("a", "", "has(a)"),
        ("a == ", "", "unexpected end"),
        ("a == vip", "vip", "write 'vip'"),
        ("a == 'x' & b == 'y'", "&", "use &&"),
        ("a == 'x' | b == 'y'", "|", "use ||"),
        ("a == 'x' and b == 'y'", "and", "use &&"),
        ("a == 'x' or b == 'y'", "or", "use ||"),
        ("a == 'x')", ")", "unmatched"),
        ("(a == 'x'", "(", "add )"),
        ("(a == 'x' b", "b", "expected && or ||"),
        ("a in ['x'", "[", "add ]"),
        ("a in ['x' 'y']", "'", "comma"),
        ("a in []", "]", "empty"),
        ("a in 'x'", "'", "a in ['a', 'b']"),
        ("a in 5", "5", "takes a list"),
        ("a not in ['x']", "not", "!(a in [...])"),
        ("a == 'x", "'x", "close it"),
        (r"a.matches('\d')", r"\d", r"\\d"),
        ("a == ''", "''", "!has(a)"),
        ("a == 10.0.0.0/8", "10.0.0.0/8", "a in 10.0.0.0/8"),
        ("client.ip in 10.0.0.0/33", "10.0.0.0/33", "neither address nor network"),
        ("client.ip in 10.0.0/8", "10.0.0/8", "neither address nor network"),
        ("client.ip == 'alice'", "'alice'", "neither address nor network"),
        ("client_ip in 10.0.0.0/8", "client_ip", "did you mean client.ip?"),
        ("headers['x'] == 'y'", "headers['x']", "did you mean header['x']?"),
        ("has()", ")", "has(account)"),
        ("a.startswith('x')", "startswith", "did you mean startsWith?"),
        ("a.size()", "size", "available are startsWith"),
        ("size(a)", "size", "unknown function"),
        ("header['x'].match('x')", "match", "unknown function"),
        ("a startsWith 'x'", "startsWith", "write a.startsWith('text')"),
        ("a < 'x'", "'x'", "whole numbers"),
        ("a < 1.5", "1.5", "whole number"),
        ("a < 99999999999999999999", "99999999999999999999", "too large"),
        ("!a == 'x'", "a == 'x'", "needs parentheses"),
        ("'x' == a", "'", "attribute first"),
        ("a.matches('(')", "'('", "unclosed group"),
        (r"a.matches(r'\p{Klingon}')", r"r'\p{Klingon}'", "list the characters"),
        ("a.matches('(x{1000}){1000}')", "'(x{1000}){1000}'", "too much memory"),
        ("a == 'x' && ", "", "unexpected end"),
        ("\u{e9} == 'x'", "\u{e9}", "expected a condition"),
    ] {
        let error = Expr::parse(text).unwrap_err();
        assert_eq!(&text[error.at..error.at + error.len], faulty, "{text}: {error}");
        assert!(error.to_string().contains(message), "{text}: {error}");
    }
}

#[test]
fn depth_and_length_are_bounded() {
    for open in ["(", "!", "!(", "(!"] {
        let error = Expr::parse(&format!("{}has(a)", open.repeat(2000))).unwrap_err();
        assert!(error.message.contains("simplify"), "{error}");
    }
    let deepest_valid = format!("{}has(a){}", "(".repeat(MAX_DEPTH), ")".repeat(MAX_DEPTH));
    assert!(Expr::parse(&deepest_valid).is_ok());
    let error = Expr::parse(&"(".repeat(10_000)).unwrap_err();
    assert!(error.message.contains("the maximum is 4096"), "{error}");
}

fn attributes() -> impl Strategy<Value = Attribute> {
    prop_oneof![
        Just(Attribute::ClientIp),
        Just(Attribute::Path),
        "[a-d]{1,2}".prop_map(Attribute::header),
        ".{1,3}".prop_map(Attribute::Query),
        "[a-d][a-d0-9_.-]{0,3}".prop_map(Attribute::Custom),
    ]
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(".{1,3}", 1..3)
}

fn networks() -> impl Strategy<Value = Vec<IpNet>> {
    let v4 = (any::<u32>(), 0..=32u8).prop_map(|(ip, len)| IpNet::new(IpAddr::from(ip.to_be_bytes()), len).unwrap());
    let v6 = (1u128 << 96.., 0..=128u8).prop_map(|(ip, len)| IpNet::new(IpAddr::from(ip.to_be_bytes()), len).unwrap());
    prop::collection::vec(prop_oneof![v4, v6].prop_map(|network| network.trunc()), 1..3)
}

fn expressions() -> impl Strategy<Value = Expr> {
    let texts = (attributes(), texts()).prop_map(|(attribute, texts)| match attribute {
        Attribute::ClientIp => Expr::Has(attribute),
        attribute => Expr::OneOf(attribute, texts),
    });
    let leaf = prop_oneof![
        texts,
        attributes().prop_map(Expr::Has),
        (attributes(), ".*").prop_map(|(attribute, text)| Expr::StartsWith(attribute, text)),
        (attributes(), ".*").prop_map(|(attribute, text)| Expr::Contains(attribute, text)),
        (attributes(), ".*")
            .prop_map(|(attribute, text)| Expr::Matches(attribute, Regex::new(&regex::escape(&text)).unwrap())),
        (attributes(), networks()).prop_map(|(attribute, networks)| Expr::InNetwork(attribute, networks)),
        (attributes(), any::<i64>()).prop_map(|(attribute, bound)| Expr::Number(attribute, Relation::AtMost, bound)),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Expr::All),
            prop::collection::vec(inner.clone(), 0..3).prop_map(Expr::Any),
            inner.prop_map(|expr| Expr::Not(Box::new(expr))),
        ]
    })
}

proptest! {
    #[test]
    fn formatted_conditions_round_trip(expr in expressions()) {
        let text = expr.to_string();
        prop_assume!(text.len() <= MAX_LENGTH);
        let read = Expr::parse(&text);
        prop_assert_eq!(read.as_ref().map(ToString::to_string), Ok(text.clone()));
        prop_assert_eq!(read, Ok(expr));
    }

    #[test]
    fn arbitrary_text_never_panics(text in ".*") {
        if let Err(error) = Expr::parse(&text) {
            prop_assert!(text.get(error.at..error.at + error.len).is_some(), "{:?}", error);
        }
    }

    #[test]
    fn almost_valid_text_never_panics(
        text in r#"((a|client\.ip|header|has|in|\[|\]|\(|\)|'[^']{0,2}'|'|"|r'|\\|&&|\|\||!|=|==|!=|<|>|,|\.|matches|10\.0\.0\.0/8|::1|5|é| ) ?){0,12}"#,
    ) {
        match Expr::parse(&text) {
            Ok(expr) => prop_assert_eq!(Expr::parse(&expr.to_string()), Ok(expr)),
            Err(error) => prop_assert!(text.get(error.at..error.at + error.len).is_some(), "{:?} {}", error, text),
        }
    }
}

//! Tests of HTTP request attributes.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Request;
use http::header::{HeaderName, HeaderValue};
use proptest::prelude::*;
use sluicegate_engine::rule::{Attribute, Attributes};
use sluicegate_http_adapter::attributes::{ApiKeyLocation, AttributeSources, HttpAttributes};

fn get(request: &Request<()>, sources: &AttributeSources, name: &str) -> Option<String> {
    HttpAttributes::new(request, sources).get(&name.parse().unwrap()).map(Cow::into_owned)
}

fn request(uri: &str, lines: &[(&str, &[u8])]) -> Request<()> {
    let mut request = Request::get(uri).body(()).unwrap();
    for (name, value) in lines {
        request.headers_mut().append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(value).unwrap());
    }
    request
}

/// HTTP/2 has the host in the request target and no `Host` header; a rule keyed by it must still count.
#[test]
fn the_host_header_exists_in_every_http_version() {
    for (uri, host, expected) in [
        ("/", Some("shop.example:81"), Some("shop.example:81")),
        ("https://shop.example:81/x", None, Some("shop.example:81")),
        ("https://me:pw@shop.example/x", Some("other.example"), Some("shop.example")),
        ("/", None, None),
    ] {
        let lines: Vec<(&str, &[u8])> = host.iter().map(|host| ("host", host.as_bytes())).collect();
        let found = get(&request(uri, &lines), &AttributeSources::none(), "header['Host']");
        assert_eq!(found.as_deref(), expected, "{uri}");
    }
}

#[test]
fn repeated_headers_are_joined() {
    let request = request(
        "/",
        &[
            ("X-Tier", b"vip"),
            ("x-many", b"a"),
            ("X-Many", b" b "),
            ("x-many", b"c, d"),
            ("x-blank", b" \tv\t "),
            ("x-empty", b""),
            ("x-utf8", "caf\u{e9}".as_bytes()),
            ("x-latin", b"caf\xe9"),
            ("x-mixed", b"\xc3\xa9"),
            ("x-mixed", b"\xe9"),
        ],
    );
    for (name, expected) in [
        ("x-tier", Some("vip")),
        ("X-TIER", Some("vip")),
        ("x-many", Some("a, b, c, d")),
        ("x-blank", Some("v")),
        ("x-empty", Some("")),
        ("x-utf8", Some("caf\u{e9}")),
        ("x-latin", Some("caf\u{e9}")),
        ("x-mixed", Some("\u{c3}\u{a9}, \u{e9}")),
        ("x-other", None),
        ("no header", None),
        ("\u{e9}", None),
    ] {
        let found =
            HttpAttributes::new(&request, &AttributeSources::none()).get(&Attribute::header(name)).map(Cow::into_owned);
        assert_eq!(found.as_deref(), expected, "{name}");
    }
}

#[test]
fn cookies_are_parsed_like_common_frameworks() {
    let request = request(
        "/",
        &[
            ("cookie", b"lang=de; sid=31d4;theme = dark ;sid=other"),
            ("cookie", b"second=line; quoted=\"a b\"; escaped=%61%20b; %6eame=x; eq=a=b; empty=; flag; bad=%zz\xe9"),
            ("set-cookie", b"no=cookie"),
        ],
    );
    for (name, expected) in [
        ("lang", Some("de")),
        ("sid", Some("31d4")),
        ("theme", Some("dark")),
        ("second", Some("line")),
        ("quoted", Some("a b")),
        ("escaped", Some("a b")),
        ("name", Some("x")),
        ("eq", Some("a=b")),
        ("empty", Some("")),
        ("bad", Some("%zz\u{e9}")),
        ("flag", None),
        ("SID", None),
        ("no", None),
    ] {
        assert_eq!(
            get(&request, &AttributeSources::none(), &format!("cookie['{name}']")).as_deref(),
            expected,
            "{name}"
        );
    }
}

#[test]
fn query_parameters_are_parsed_like_common_frameworks() {
    let request = request("/s?q=red+shoes&q=two&%71x=1&a%20b=%2B+%26&flag&empty=&=x&utf=%C3%A9&raw=%E9&eq=a=b&&", &[]);
    for (name, expected) in [
        ("q", Some("red shoes")),
        ("qx", Some("1")),
        ("a b", Some("+ &")),
        ("flag", Some("")),
        ("empty", Some("")),
        ("utf", Some("\u{e9}")),
        ("raw", Some("\u{e9}")),
        ("eq", Some("a=b")),
        ("Q", None),
        ("other", None),
    ] {
        let attribute = Attribute::Query(name.to_owned());
        let found = HttpAttributes::new(&request, &AttributeSources::none()).get(&attribute).map(Cow::into_owned);
        assert_eq!(found.as_deref(), expected, "{name}");
    }
    let without = Request::get("/s").body(()).unwrap();
    assert_eq!(get(&without, &AttributeSources::none(), "query['q']"), None);
}

#[test]
fn an_api_key_is_read_from_the_first_location_that_has_one() {
    let sources = AttributeSources::builder()
        .api_key(
            "api_key",
            [
                ApiKeyLocation::Header(HeaderName::from_static("x-api-key")),
                ApiKeyLocation::Scheme("ApiKey".to_owned()),
                ApiKeyLocation::Scheme("Bearer".to_owned()),
                ApiKeyLocation::Query("key".to_owned()),
            ],
        )
        .build()
        .unwrap();
    type Lines = &'static [(&'static str, &'static [u8])];
    let rows: [(&str, Lines, Option<&str>); 13] = [
        ("/", &[], None),
        ("/?key=k4", &[], Some("k4")),
        ("/?key=k4", &[("x-api-key", b"k1"), ("authorization", b"Bearer k3")], Some("k1")),
        ("/?key=k4", &[("x-api-key", b""), ("authorization", b"bearer k3")], Some("k3")),
        ("/", &[("authorization", b"APIKEY   k2 ")], Some("k2")),
        ("/", &[("authorization", b"ApiKey\tk2")], Some("k2")),
        ("/?key=k4", &[("authorization", b"ApiKey")], Some("k4")),
        ("/?key=k4", &[("authorization", b"ApiKeyk2")], Some("k4")),
        ("/?key=k4", &[("authorization", b"Basic eDp5")], Some("k4")),
        ("/?key=k4", &[("authorization", b"Bea")], Some("k4")),
        ("/", &[("authorization", b"\xff\xff\xff\xff\xff\xff k")], None),
        ("/", &[("x-api-key", b"k1"), ("x-api-key", b"other")], Some("k1")),
        ("/?key=", &[], None),
    ];
    for (uri, lines, expected) in rows {
        assert_eq!(get(&request(uri, lines), &sources, "api_key").as_deref(), expected, "{uri} {lines:?}");
    }
}

#[test]
fn sources_are_called_only_on_lookup() {
    #[derive(Clone)]
    struct User(&'static str);
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let sources = AttributeSources::builder()
        .with("costly", move |head| {
            count.fetch_add(1, Ordering::Relaxed);
            Some(Cow::Owned(format!("{} {}", head.method, head.uri.path())))
        })
        .extension("account", |user: &User| (user.0 != "guest").then_some(Cow::Borrowed(user.0)))
        .build()
        .unwrap();
    let mut request = Request::get("/x").body(()).unwrap();
    assert_eq!(get(&request, &sources, "account"), None);
    request.extensions_mut().insert(User("alice"));
    assert_eq!(get(&request, &sources, "account").as_deref(), Some("alice"));
    request.extensions_mut().insert(User("guest"));
    assert_eq!(get(&request, &sources, "account"), None);
    assert_eq!(get(&request, &sources, "unheard_of"), None);
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    assert_eq!(get(&request, &sources.clone(), "costly").as_deref(), Some("GET /x"));
    assert_eq!(calls.load(Ordering::Relaxed), 1);

    let (parts, ()) = request.into_parts();
    assert_eq!(HttpAttributes::new(&parts, &sources).get(&"costly".parse().unwrap()).as_deref(), Some("GET /x"));
    assert_eq!(format!("{sources:?}"), r#"{"account", "costly"}"#);
}

#[test]
fn built_in_attributes_are_not_provided_here() {
    let request = request("/x?q=1", &[("host", b"shop.example")]);
    for name in ["client.ip", "service", "method", "host", "path", "param['id']"] {
        assert_eq!(get(&request, &AttributeSources::none(), name), None, "{name}");
    }
}

#[test]
fn an_invalid_source_error_names_the_remedy() {
    let named = |name: &str| AttributeSources::builder().with(name, |_| None).build().unwrap_err().to_string();
    for (name, message) in [
        ("client.ip", "'client.ip' is a built-in attribute: give the source another name"),
        ("path", "'path' is a built-in attribute"),
        ("header['x']", "'header['x']' is a built-in attribute"),
        ("client_ip", "did you mean client.ip?"),
        ("header.x", "did you mean header['x']?"),
        ("in", "is reserved in conditions"),
        ("", "name one"),
        ("a b", "is not an attribute"),
        ("a\nb", "is not an attribute"),
    ] {
        assert!(named(name).contains(message), "{name}: {}", named(name));
    }
    let twice = AttributeSources::builder().with("account", |_| None).with(" account ", |_| None).build();
    assert_eq!(twice.unwrap_err().to_string(), "duplicate source 'account': give each source a different name");
    for locations in [
        vec![],
        vec![ApiKeyLocation::Scheme(String::new())],
        vec![ApiKeyLocation::Scheme("Api Key".to_owned())],
        vec![ApiKeyLocation::Query(String::new())],
    ] {
        let error = AttributeSources::builder().api_key("api_key", locations).build().unwrap_err().to_string();
        assert!(error.starts_with("API key 'api_key' has no valid location"), "{error}");
    }
}

#[test]
fn a_one_megabyte_value_is_accepted() {
    let long = "x".repeat(1 << 20);
    let cookie = format!("sid={long}");
    let request = request("/", &[("x-long", long.as_bytes()), ("cookie", cookie.as_bytes())]);
    let none = AttributeSources::none();
    assert_eq!(get(&request, &none, "header['x-long']").unwrap().len(), 1 << 20);
    assert_eq!(get(&request, &none, "cookie['sid']").unwrap().len(), 1 << 20);
}

fn shared_between_threads<T: Send + Sync>(_: &T) {}

#[test]
fn attributes_are_send_and_sync() {
    let sources = AttributeSources::none();
    let request = Request::get("/").body(()).unwrap();
    shared_between_threads(&HttpAttributes::new(&request, &sources));
    shared_between_threads(&sources);
}

proptest! {
    #[test]
    fn any_header_bytes_decode(
        value in prop::collection::vec(prop_oneof![Just(b'\t'), 32..=126u8, 128..=255u8], 0..40),
        name in "\\PC{1,8}",
    ) {
        let request = request("/", &[("x", &value), ("cookie", &value), ("authorization", &value)]);
        let sources = AttributeSources::builder()
            .api_key("api_key", [ApiKeyLocation::Scheme("Bearer".to_owned())])
            .build()
            .unwrap();
        let attributes = HttpAttributes::new(&request, &sources);
        let header = attributes.get(&Attribute::header("x")).unwrap().into_owned();
        prop_assert_eq!(header.is_empty(), value.trim_ascii().is_empty());
        attributes.get(&Attribute::Cookie(name.clone()));
        attributes.get(&Attribute::custom("api_key"));
        attributes.get(&Attribute::header(&name));
    }

    #[test]
    fn escaped_and_quoted_cookies_are_equal(sid in "[a-z0-9]{1,8}", escape in any::<[bool; 8]>(), quote in any::<bool>()) {
        let spelt: String = sid.bytes().zip(escape).map(|(byte, escape)| {
            if escape { format!("%{byte:02x}") } else { char::from(byte).to_string() }
        }).collect();
        let cookie = if quote { format!("a=b; sid=\"{spelt}\"") } else { format!("sid={spelt}") };
        let request = request("/", &[("cookie", cookie.as_bytes())]);
        prop_assert_eq!(get(&request, &AttributeSources::none(), "cookie['sid']"), Some(sid));
    }

    #[test]
    fn any_query_decodes(query in "[a-z%&=+0-9A-F]{0,40}", name in "[a-z ]{1,3}") {
        let Ok(uri) = format!("/?{query}").parse::<http::Uri>() else { return Ok(()) };
        let request = Request::get(uri).body(()).unwrap();
        HttpAttributes::new(&request, &AttributeSources::none()).get(&Attribute::Query(name));
    }
}

//! Client identification, routing, and forwarded headers.

use crate::support;

use std::path::Path;

use bytes::Bytes;
use http::{Request, Response};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::json;
use sluicegate_engine::clock::ClockHandle;
use support::file::gateway_yaml;
use support::raw::{Client, RawResponse};
use support::upstream::Upstream;
use support::{TestGateway, wait_until};

const ONE_PER_IP: &str = "rules: [{ name: one, key: client.ip, limits: [1/1h] }]";

/// Settings that route everything to one upstream.
fn all_to(upstream: &Upstream) -> String {
    format!("upstreams: {{ shop: \"http://{}\" }}\nroutes: [{{ path: \"/{{*rest}}\", upstream: shop }}]", upstream.at)
}

/// Sends a GET with these additional headers.
fn get_with(client: &mut Client, path: &str, lines: &[&str]) -> RawResponse {
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: shop.example\r\n{lines}\r\n"));
    client.read_response().expect("a response")
}

fn last(upstream: &Upstream) -> Request<Bytes> {
    upstream.seen.lock().last().unwrap().clone()
}

fn header(request: &Request<Bytes>, name: &str) -> Option<String> {
    let all: Vec<&str> = request.headers().get_all(name).iter().map(|value| value.to_str().unwrap()).collect();
    (!all.is_empty()).then(|| all.join("|"))
}

#[test]
fn a_client_cannot_choose_its_address() {
    let upstream = Upstream::returning("hello");
    // Another network is trusted.
    let gateway = TestGateway::from_yaml(&gateway_yaml(
        &format!("trusted_proxies: [10.0.0.0/8]\n{}", all_to(&upstream)),
        ONE_PER_IP,
    ));
    let mut client = Client::connect(gateway.at);
    assert_eq!(get_with(&mut client, "/", &["X-Forwarded-For: 192.0.2.1", "X-Real-IP: 192.0.2.9"]).status, 200);
    for number in 2..6 {
        let spoofed = format!("X-Forwarded-For: 192.0.2.{number}");
        assert_eq!(get_with(&mut client, "/", &[&spoofed, "Forwarded: for=192.0.2.7"]).status, 429);
    }
    let seen = last(&upstream);
    assert_eq!(header(&seen, "x-forwarded-for").as_deref(), Some("127.0.0.1"));
    assert_eq!(header(&seen, "x-forwarded-proto").as_deref(), Some("http"));
    assert_eq!((header(&seen, "x-real-ip"), header(&seen, "forwarded")), (None, None));
    assert_eq!(header(&seen, "via").as_deref(), Some("1.1 sluicegate"));
}

/// Upstreams may trust the configured client-IP header.
#[test]
fn untrusted_client_ip_headers_are_removed() {
    let upstream = Upstream::returning("hello");
    let fields = format!("trusted_proxies: [10.0.0.0/8]\nclient_ip_header: cf-connecting-ip\n{}", all_to(&upstream));
    let gateway = TestGateway::from_yaml(&gateway_yaml(&fields, ""));
    let mut client = Client::connect(gateway.at);
    get_with(&mut client, "/", &["CF-Connecting-IP: 192.0.2.1", "X_Forwarded_For: 192.0.2.1", "X-Other_For: kept"]);
    let seen = last(&upstream);
    assert_eq!((header(&seen, "cf-connecting-ip"), header(&seen, "x_forwarded_for")), (None, None));
    assert_eq!(header(&seen, "x-other_for").as_deref(), Some("kept"));
}

#[test]
fn a_trusted_proxy_sets_the_client_address() {
    for (setting, name, written) in [
        ("x-forwarded-for", "X-Forwarded-For", ["192.0.2.1", "6.6.6.6, 192.0.2.1", "192.0.2.1, 127.0.0.5"]),
        ("forwarded", "Forwarded", ["for=192.0.2.1", "for=6.6.6.6, for=192.0.2.1;proto=https", "for=\"192.0.2.1:80\""]),
        ("x-real-ip", "X-Real-IP", ["192.0.2.1", "192.0.2.1", "192.0.2.1"]),
    ] {
        let upstream = Upstream::returning("hello");
        let fields = format!("trusted_proxies: [127.0.0.0/8]\nclient_ip_header: {setting}\n{}", all_to(&upstream));
        let gateway = TestGateway::from_yaml(&gateway_yaml(&fields, ONE_PER_IP));
        let mut client = Client::connect(gateway.at);
        let statuses: Vec<u16> =
            written.iter().map(|text| get_with(&mut client, "/", &[&format!("{name}: {text}")]).status).collect();
        assert_eq!(statuses, [200, 429, 429], "{setting}");
        // Another client of the same proxy, and the proxy itself.
        let other = written[0].replace("192.0.2.1", "192.0.2.2");
        assert_eq!(get_with(&mut client, "/", &[&format!("{name}: {other}")]).status, 200);
        assert_eq!(get_with(&mut client, "/", &[]).status, 200);
        assert_eq!(get_with(&mut client, "/", &[]).status, 429);
    }
}

#[test]
fn forwarded_headers_of_a_trusted_proxy_are_extended() {
    let upstream = Upstream::returning("hello");
    let gateway =
        TestGateway::from_yaml(&gateway_yaml(&format!("trusted_proxies: [127.0.0.0/8]\n{}", all_to(&upstream)), ""));
    let mut client = Client::connect(gateway.at);
    get_with(&mut client, "/", &["X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: https", "Via: 1.1 edge"]);
    let seen = last(&upstream);
    assert_eq!(header(&seen, "x-forwarded-for").as_deref(), Some("192.0.2.1, 127.0.0.1"));
    assert_eq!(header(&seen, "x-forwarded-proto").as_deref(), Some("https"));
    assert_eq!(header(&seen, "via").as_deref(), Some("1.1 edge|1.1 sluicegate"));
}

#[test]
fn a_proxy_header_sets_the_client_address() {
    let upstream = Upstream::returning("hello");
    let listen = "listen: { address: 127.0.0.1:0, proxy_protocol: true }";
    let fields = format!("{listen}\ntrusted_proxies: [127.0.0.0/8]\n{}", all_to(&upstream));
    let gateway = TestGateway::from_yaml(&gateway_yaml(&fields, ONE_PER_IP));
    let send = |line: &[u8]| {
        let mut client = Client::connect(gateway.at);
        client.send([line, b"GET / HTTP/1.1\r\nHost: shop\r\n\r\n"].concat());
        client.read_response().map(|response| response.status)
    };
    let version_2 = |last: u8| {
        let mut line = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
        line.extend([192, 0, 2, last, 127, 0, 0, 1, 0x10, 0, 0, 80]);
        line
    };
    assert_eq!(send(b"PROXY TCP4 192.0.2.1 127.0.0.1 4000 80\r\n"), Some(200));
    assert_eq!(header(&last(&upstream), "x-forwarded-for").as_deref(), Some("192.0.2.1"));
    assert_eq!(send(b"PROXY TCP4 192.0.2.1 127.0.0.1 4001 80\r\n"), Some(429));
    assert_eq!(send(&version_2(1)), Some(429), "the same client in the other version");
    assert_eq!(send(&version_2(2)), Some(200));
    assert_eq!(header(&last(&upstream), "x-forwarded-for").as_deref(), Some("192.0.2.2"));
    // A load balancer that connects for itself, as for health checks, is counted by its own address.
    assert_eq!(send(b"PROXY UNKNOWN\r\n"), Some(200));
    assert_eq!(header(&last(&upstream), "x-forwarded-for").as_deref(), Some("127.0.0.1"));
    assert_eq!(send(b"\r\n\r\n\0\r\nQUIT\n\x20\x00\0\0"), Some(429));
    // IPv6 addresses are counted by network, and IPv4-mapped ones as IPv4.
    assert_eq!(send(b"PROXY TCP6 2001:db8::1 ::1 4000 80\r\n"), Some(200));
    assert_eq!(send(b"PROXY TCP6 2001:db8::ffff:2 ::1 4000 80\r\n"), Some(429));
    assert_eq!(send(b"PROXY TCP6 ::ffff:192.0.2.1 ::1 4000 80\r\n"), Some(429));
    assert_eq!(send(b""), None, "without a PROXY header no connection is accepted");
    assert_eq!(send(b"PROXY TCP4 nonsense\r\n"), None);
    wait_until("no connection is left", || gateway.running().stats().listener().counts().open == 0);
}

#[test]
fn a_proxy_header_from_an_untrusted_peer_is_rejected() {
    let upstream = Upstream::returning("hello");
    let listen = "listen: { address: 127.0.0.1:0, proxy_protocol: true }";
    let fields = format!("{listen}\ntrusted_proxies: [10.0.0.0/8]\n{}", all_to(&upstream));
    let gateway = TestGateway::from_yaml(&gateway_yaml(&fields, ONE_PER_IP));
    let mut client = Client::connect(gateway.at);
    client.send("PROXY TCP4 192.0.2.1 127.0.0.1 4000 80\r\nGET / HTTP/1.1\r\nHost: shop\r\n\r\n");
    assert_eq!(client.read_response(), None);
    assert_eq!(upstream.requests(), 0);
}

#[test]
fn keys_come_from_the_configured_sources() {
    let upstream = Upstream::returning("hello");
    let fields = format!(
        "attributes: {{ api_key: [\"header['x-api-key']\", \"query['key']\", \"scheme['ApiKey']\", \"cookie['key']\"] }}\n{}",
        all_to(&upstream)
    );
    let rules =
        "rules: [{ name: one, key: api_key, limits: [1/1h] }, { name: none, when: \"!has(api_key)\", limits: [1/1h] }]";
    let gateway = TestGateway::from_yaml(&gateway_yaml(&fields, rules));
    let mut client = Client::connect(gateway.at);
    for (index, (path, line)) in [
        ("/", "X-API-Key: KEY"),
        ("/?key=KEY", "A: b"),
        ("/", "Authorization: ApiKey KEY"),
        ("/", "Cookie: a=b; key=KEY"),
    ]
    .into_iter()
    .enumerate()
    {
        let of = |key: &str| (path.replace("KEY", key), line.replace("KEY", key));
        let (path, line) = of(&format!("k{index}"));
        assert_eq!(get_with(&mut client, &path, &[&line]).status, 200, "{path} {line}");
        assert_eq!(get_with(&mut client, &path, &[&line]).status, 429, "{path} {line}");
        // A key is the same key in any location.
        assert_eq!(get_with(&mut client, "/", &[&format!("X-API-Key: k{index}")]).status, 429);
    }
    assert_eq!(get_with(&mut client, "/", &[]).status, 200);
    assert_eq!(get_with(&mut client, "/", &[]).status, 429);
}

#[test]
fn only_verified_tokens_provide_claims() {
    const SECRET: &[u8] = b"a secret of the shop's, thirty-two bytes or more";
    let folder = std::env::temp_dir().join(format!("sluicegate-jwt-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    // With a newline, as written by an editor.
    std::fs::write(folder.join("secret"), [SECRET, b"\n"].concat()).unwrap();
    let upstream = Upstream::returning("hello");
    let fields = format!(
        "jwt: {{ key: secret, algorithm: HS256, issuer: login, audience: shop }}\nattributes: {{ account: \"jwt['sub']\" }}\n{}",
        all_to(&upstream)
    );
    let rules = "rules: [{ name: one, key: account, limits: [1/1h] }, { name: plan, when: \"jwt.plan == 'free'\", key: jwt.sub, limits: [1/1h] }, \
                 { name: unknown, when: \"!has(account)\", limits: [3/1h] }]";
    let gateway = TestGateway::in_dir(&folder, &gateway_yaml(&fields, rules), ClockHandle::system());
    std::fs::remove_dir_all(&folder).unwrap();
    let token = |secret: &[u8], algorithm, claims: serde_json::Value| {
        let token = encode(&Header::new(algorithm), &claims, &EncodingKey::from_secret(secret)).unwrap();
        format!("Authorization: Bearer {token}")
    };
    let claims = |sub: &str| json!({ "sub": sub, "exp": 4_000_000_000_u64, "iss": "login", "aud": "shop" });
    let mut client = Client::connect(gateway.at);
    let alice = token(SECRET, Algorithm::HS256, claims("alice"));
    assert_eq!(get_with(&mut client, "/", &[&alice]).status, 200);
    assert_eq!(get_with(&mut client, "/", &[&alice]).status, 429);
    assert_eq!(get_with(&mut client, "/", &[&token(SECRET, Algorithm::HS256, claims("bob"))]).status, 200);
    // Forged, for another audience, expired: each counts as no token, for which the limit is three.
    let mut expired = claims("carol");
    expired["exp"] = json!(1_000_000_000);
    let mut elsewhere = claims("carol");
    elsewhere["aud"] = json!("bank");
    for bad in [
        token(b"another secret of thirty-two bytes or more", Algorithm::HS256, claims("carol")),
        token(SECRET, Algorithm::HS256, expired),
        token(SECRET, Algorithm::HS256, elsewhere),
    ] {
        assert_eq!(get_with(&mut client, "/", &[&bad]).status, 200);
    }
    let other = token(SECRET, Algorithm::HS384, claims("carol"));
    assert_eq!(get_with(&mut client, "/", &[&other]).status, 429, "no fourth");
    assert_eq!(get_with(&mut client, "/", &[&token(SECRET, Algorithm::HS256, claims("carol"))]).status, 200);
}

#[test]
fn hop_by_hop_headers_are_removed_in_both_directions() {
    let upstream = Upstream::new(|_| async {
        let mut response = Response::new(Bytes::from_static(b"hello"));
        for (name, value) in [
            ("connection", "x-theirs"),
            ("x-theirs", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-authenticate", "Basic"),
            ("upgrade", "h2c"),
            ("x-kept", "1"),
        ] {
            response.headers_mut().append(name, value.parse().unwrap());
        }
        response
    });
    let gateway = TestGateway::from_yaml(&gateway_yaml(&all_to(&upstream), ""));
    let mut client = Client::connect(gateway.at);
    let response = get_with(
        &mut client,
        "/",
        &[
            "Connection: keep-alive, X-Mine",
            "X-Mine: 1",
            "Keep-Alive: timeout=9",
            "Proxy-Connection: keep-alive",
            "Proxy-Authorization: Basic x",
            "TE: gzip",
            "X-Kept: 1",
        ],
    );
    assert_eq!((response.status, response.text().as_str()), (200, "hello"));
    for name in ["x-theirs", "keep-alive", "proxy-authenticate", "upgrade"] {
        assert_eq!(response.header(name), None, "{name}");
    }
    assert_eq!(response.header("x-kept"), Some("1"));
    let seen = last(&upstream);
    for name in ["x-mine", "keep-alive", "proxy-connection", "proxy-authorization", "te", "connection"] {
        assert_eq!(header(&seen, name), None, "{name}");
    }
    assert_eq!(header(&seen, "x-kept").as_deref(), Some("1"));
}

#[test]
fn each_upstream_gets_the_configured_host() {
    let upstream = Upstream::returning("hello");
    let at = upstream.at;
    let fields = format!(
        "upstreams: {{ client: {{ servers: \"http://{at}\" }}, own: {{ servers: \"http://{at}\", host: server }}, fixed: {{ servers: \"http://{at}\", host: api.internal }} }}\n\
         routes: [{{ path: /client, upstream: client }}, {{ path: /own, upstream: own }}, {{ path: /fixed, upstream: fixed }}]"
    );
    let gateway = TestGateway::from_yaml(&gateway_yaml(&fields, ""));
    let mut client = Client::connect(gateway.at);
    for (path, host, forwarded_host) in [
        ("/client", "shop.example", None),
        ("/own", at.to_string().as_str(), Some("shop.example")),
        ("/fixed", "api.internal", Some("shop.example")),
    ] {
        assert_eq!(client.get(path).status, 200);
        let seen = last(&upstream);
        assert_eq!(header(&seen, "host").as_deref(), Some(host), "{path}");
        assert_eq!(header(&seen, "x-forwarded-host").as_deref(), forwarded_host, "{path}");
    }
}

#[test]
fn paths_are_stripped_and_prefixed() {
    let upstream = Upstream::returning("hello");
    let at = upstream.at;
    let fields = format!(
        "upstreams: {{ plain: \"http://{at}\", based: \"http://{at}/base/\" }}\n\
         routes: [{{ path: \"/api/{{*rest}}\", upstream: plain, strip_prefix: /api }}, {{ path: \"/b/{{*rest}}\", upstream: based }}, \
         {{ path: \"/both/{{*rest}}\", upstream: based, strip_prefix: /both }}]"
    );
    let gateway = TestGateway::from_yaml(&gateway_yaml(&fields, ""));
    let mut client = Client::connect(gateway.at);
    for (path, sent) in [
        ("/api/items/7?x=1&y=%20", "/items/7?x=1&y=%20"),
        ("/api/a%2Fb", "/a%2Fb"),
        ("/b/x", "/base/b/x"),
        ("/both/x?q", "/base/x?q"),
    ] {
        assert_eq!(client.get(path).status, 200, "{path}");
        assert_eq!(last(&upstream).uri().to_string(), sent);
    }
}

#[test]
fn routes_are_found_by_host_method_and_path() {
    let (any, shop, items) = (Upstream::returning("any"), Upstream::returning("shop"), Upstream::returning("items"));
    let fields = format!(
        "upstreams: {{ any: \"http://{}\", shop: \"http://{}\", items: \"http://{}\" }}\n\
         routes: [{{ path: \"/x/{{*rest}}\", upstream: any }}, {{ host: shop.example, path: \"/{{*rest}}\", upstream: shop }}, \
         {{ host: \"*.example\", methods: [GET], path: \"/items/{{id}}\", upstream: items }}, \
         {{ host: \"*.example\", methods: [PUT, DELETE], path: \"/items/{{id}}\", upstream: items }}, \
         {{ path: /ping, respond: {{ status: 200, body: pong }} }}, \
         {{ path: /old, respond: {{ redirect: {{ location: /new, status: 301 }} }} }}]",
        any.at, shop.at, items.at
    );
    let gateway = TestGateway::from_yaml(&gateway_yaml(&fields, ""));
    let mut client = Client::connect(gateway.at);
    let mut send = |method: &str, host: &str, path: &str| {
        client.send(format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n"));
        client.read_response().unwrap()
    };
    for (method, host, path, status, text) in [
        ("GET", "elsewhere", "/x/y", 200, "any"),
        ("GET", "shop.example", "/x/y", 200, "shop"),
        ("GET", "SHOP.example:8080", "/anything", 200, "shop"),
        ("GET", "a.example", "/items/7", 200, "items"),
        ("PUT", "a.example", "/items/7", 200, "items"),
        ("GET", "elsewhere", "/ping", 200, "pong"),
    ] {
        let response = send(method, host, path);
        assert_eq!((response.status, response.text().as_str()), (status, text), "{method} {host} {path}");
    }
    let moved = send("GET", "elsewhere", "/old");
    assert_eq!((moved.status, moved.header("location")), (301, Some("/new")));
    let nowhere = send("GET", "elsewhere", "/items/7");
    assert_eq!((nowhere.status, nowhere.header("content-type")), (404, Some("application/problem+json")));
    let other = send("POST", "a.example", "/items/7");
    let mut allowed: Vec<&str> = other.header("allow").unwrap().split(", ").collect();
    allowed.sort_unstable();
    assert_eq!((other.status, allowed), (405, vec!["DELETE", "GET", "PUT"]));
}

#[test]
fn relative_paths_start_at_the_rule_files_folder() {
    let text = gateway_yaml(
        "jwt: { key: no-such-key, algorithm: HS256 }\nroutes: [{ path: /, respond: { status: 200 } }]",
        "",
    );
    let settings = sluicegate_config::parse("rules.yaml", &text).unwrap().settings;
    let sluice = sluicegate_engine::Sluice::builder().build().unwrap();
    let mut process = sluicegate_net::Process::standalone();
    let opened = sluicegate_gateway::Gateway::open(
        &settings,
        settings.gateway.as_ref().unwrap(),
        sluice,
        Path::new("/nowhere"),
        &mut process,
    );
    let error = opened.err().expect("there is no key").to_string();
    assert!(error.starts_with("gateway.jwt: cannot read /nowhere/no-such-key"), "{error}");
}

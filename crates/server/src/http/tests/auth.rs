//! Forward auth, as the three proxies ask.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use sluicegate_config::settings::Server;

use super::{Answer, Subject};
use crate::secret::Secret;

fn asked(path: &str, headers: &[(&str, &str)]) -> Request<Full<Bytes>> {
    let mut request = Request::builder().uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::default()).unwrap()
}

/// The settings of a server that believes a proxy.
fn trusting() -> Server {
    Server { trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()], ..Server::default() }
}

fn subject() -> Subject {
    Subject::with(&trusting())
}

async fn ask(subject: &Subject, headers: &[(&str, &str)]) -> Answer {
    subject.call_from(asked("/v1/auth", headers), "10.0.0.1:1234").await
}

const TRAEFIK: &[(&str, &str)] = &[
    ("x-forwarded-method", "GET"),
    ("x-forwarded-proto", "https"),
    ("x-forwarded-host", "shop.example"),
    ("x-forwarded-uri", "/files/%61?q=1"),
    ("x-forwarded-for", "203.0.113.9"),
];
const CADDY: &[(&str, &str)] = &[
    ("host", "auth.internal"),
    ("x-forwarded-method", "GET"),
    ("x-forwarded-uri", "/files/a"),
    ("x-forwarded-host", "shop.example"),
    ("x-forwarded-for", "203.0.113.9"),
];
const NGINX: &[(&str, &str)] = &[
    ("host", "shop.example"),
    ("x-original-method", "GET"),
    ("x-original-uri", "//files/./a?b"),
    ("x-forwarded-for", "203.0.113.9, 10.0.0.7"),
];

const INGRESS: &[(&str, &str)] = &[
    ("host", "auth.internal"),
    ("x-original-method", "GET"),
    ("x-original-url", "https://shop.example/files/a?b=https://other.example/"),
    ("x-auth-request-redirect", "/files/a?b"),
    ("x-forwarded-for", "203.0.113.9"),
];

#[tokio::test]
async fn the_proxies_are_understood() {
    for shape in [TRAEFIK, CADDY, NGINX, INGRESS] {
        let subject = subject();
        for left in [1, 0] {
            let allowed = ask(&subject, shape).await;
            assert_eq!((allowed.status.as_u16(), allowed.body.len()), (200, 0), "{shape:?}");
            assert_eq!(allowed.header("ratelimit").unwrap().split(';').nth(1), Some(format!("r={left}").as_str()));
        }
        let refused = ask(&subject, shape).await;
        assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (429, Some("1")), "{shape:?}");
        assert_eq!(refused.header("content-type"), Some("application/problem+json"));
        assert!(refused.json()["detail"].as_str().unwrap().contains("'files'"));
        // Another client is not concerned, nor is another path.
        let mut other = shape.to_vec();
        other.retain(|(name, _)| *name != "x-forwarded-for");
        other.push(("x-forwarded-for", "203.0.113.10"));
        assert_eq!(ask(&subject, &other).await.status, 200);
    }
}

#[tokio::test]
async fn what_the_proxy_cannot_understand_is_said_otherwise() {
    let subject = subject();
    ask(&subject, NGINX).await;
    ask(&subject, NGINX).await;
    for (path, status) in [("/v1/auth?refuse=403", 403), ("/v1/auth?refuse=401", 401)] {
        let refused = subject.call_from(asked(path, NGINX), "10.0.0.1:1234").await;
        assert_eq!((refused.status.as_u16(), refused.header("x-sluicegate-status")), (status, Some("429")));
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    for path in ["/v1/auth?refuse=200", "/v1/auth?x=y"] {
        assert_eq!(subject.call_from(asked(path, NGINX), "10.0.0.1:1234").await.problem().0, 400);
    }
}

/// A refusal that looks like success would let the request pass.
#[tokio::test]
async fn no_refusal_looks_like_leave() {
    let subject = subject();
    let mut search = vec![("x-forwarded-method", "GET"), ("x-forwarded-uri", "/search?q=red+shoes")];
    assert_eq!(ask(&subject, &search).await.status, 200);
    let degraded = ask(&subject, &search).await;
    assert_eq!((degraded.status.as_u16(), degraded.body.as_ref()), (429, b"[]".as_slice()));
    search.push(("content-type", "application/grpc"));
    assert_eq!(ask(&subject, &search).await.status, 429);
    let other = [("x-forwarded-method", "GET"), ("x-forwarded-uri", "/search?q=blue")];
    assert_eq!(ask(&subject, &other).await.status, 200, "the query of the request, not of the call");
}

#[tokio::test]
async fn who_is_not_trusted_is_not_believed() {
    let subject = subject();
    for peer in ["192.0.2.1:80", "[::1]:80", "127.0.0.1:80", "[::ffff:192.0.2.1]:80"] {
        let problem = subject.call_from(asked("/v1/auth", TRAEFIK), peer).await.problem();
        assert_eq!((problem.0, problem.1.as_str()), (403, "untrusted"), "{peer}");
    }
    assert_eq!(subject.call_from(asked("/v1/auth", &TRAEFIK[..0]), "10.0.0.1:1").await.problem().0, 400);
    assert!(subject.is_untouched());
    let mapped = subject.call_from(asked("/v1/auth", TRAEFIK), "[::ffff:10.0.0.1]:80").await;
    assert_eq!(mapped.status, 200);
}

/// A client sends the headers of the other proxy, or a second one of its own, to be taken for somebody else.
#[tokio::test]
async fn a_client_cannot_speak_through_the_proxy() {
    let subject = subject();
    for (shape, added) in [
        (TRAEFIK, ("x-original-uri", "/harmless")),
        (TRAEFIK, ("x-original-method", "POST")),
        (TRAEFIK, ("x-forwarded-uri", "/harmless")),
        (TRAEFIK, ("x-forwarded-host", "other.example")),
        (NGINX, ("x-forwarded-uri", "/harmless")),
        (NGINX, ("x-forwarded-method", "POST")),
        (NGINX, ("x-original-uri", "/harmless")),
        (NGINX, ("x-original-url", "http://shop.example/harmless")),
        (INGRESS, ("x-original-uri", "/harmless")),
        (INGRESS, ("x-original-url", "http://shop.example/harmless")),
        (INGRESS, ("x-forwarded-uri", "/harmless")),
    ] {
        let headers = [shape, &[added]].concat();
        let problem = ask(&subject, &headers).await.problem();
        assert_eq!((problem.0, problem.1.as_str()), (403, "untrusted"), "{added:?}");
    }
    for missing in ["x-forwarded-uri", "x-forwarded-method"] {
        let headers: Vec<_> = TRAEFIK.iter().copied().filter(|(name, _)| *name != missing).collect();
        assert_eq!(ask(&subject, &headers).await.problem().0, 400, "{missing}");
    }
    assert!(subject.is_untouched());
    // The address that a client claims stands before the one that the proxy has seen.
    let spoofed = [&TRAEFIK[..4], &[("x-forwarded-for", "198.51.100.1, 203.0.113.9")]].concat();
    for status in [200, 200, 429] {
        assert_eq!(ask(&subject, &spoofed).await.status, status);
    }
    assert_eq!(ask(&subject, TRAEFIK).await.status, 429, "the same client");
}

/// The host is the one that the client asked for, not the one that we are called by.
#[tokio::test]
async fn a_whole_url_tells_the_host() {
    let rules = "rules: [{ name: per-host, key: \"header['host']\", limits: [1/1h] }]";
    let subject = Subject::of(rules, &trusting(), None);
    let of = |url: &'static str| [("host", "shop.example"), ("x-original-method", "GET"), ("x-original-url", url)];
    for (url, status) in [
        ("http://shop.example/", 200),
        ("https://shop.example/x", 429),
        ("https://other.example/", 200),
        ("https://other.example/shop.example/", 429),
    ] {
        assert_eq!(ask(&subject, &of(url)).await.status, status, "{url}");
    }
    for bad in ["/files/a", "shop.example/", "ftp://shop.example/", "https://", "https://shop.example"] {
        assert_eq!(ask(&subject, &of(bad)).await.problem().0, 400, "{bad}");
    }
}

/// A proxy that shows the secret in our own header leaves the client's `Authorization` to the rules.
#[tokio::test]
async fn rules_see_what_the_client_shows_and_not_what_the_proxy_does() {
    let rules = "rules: [{ name: per-token, key: \"header['authorization']\", limits: [1/1h] }, \
                 { name: secret, key: \"header['x-sluicegate-secret']\", limits: [1/1h] }]";
    let subject = Subject::of(rules, &trusting(), Some(Secret::of("open-sesame")));
    let request = |more: &[(&'static str, &'static str)]| [&TRAEFIK[..4], more].concat();
    for (shown, status) in [
        (vec![("x-sluicegate-secret", "open-sesame"), ("authorization", "Bearer alice")], 200),
        (vec![("x-sluicegate-secret", "open-sesame"), ("authorization", "Bearer alice")], 429),
        (vec![("x-sluicegate-secret", " open-sesame "), ("authorization", "Bearer bob")], 200),
        // In the common header it is ours, and no client's.
        (vec![("authorization", "Bearer open-sesame")], 200),
        (vec![("authorization", "Bearer open-sesame")], 200),
        (vec![("x-sluicegate-secret", "wrong"), ("authorization", "Bearer open-sesame")], 401),
        (vec![("x-sluicegate-secret", "open-sesame"), ("x-sluicegate-secret", "open-sesame")], 401),
        (vec![("authorization", "Bearer carol")], 401),
        (vec![], 401),
    ] {
        assert_eq!(ask(&subject, &request(&shown)).await.status, status, "{shown:?}");
    }
}

#[tokio::test]
async fn any_method_asks_and_permits_are_not_kept() {
    let subject = subject();
    for method in ["GET", "HEAD", "POST", "OPTIONS", "DELETE", "PURGE"] {
        let mut request = asked("/v1/auth", &[("x-forwarded-method", "PUT"), ("x-forwarded-uri", "/x")]);
        *request.method_mut() = method.parse().unwrap();
        assert_eq!(subject.call_from(request, "10.0.0.1:1").await.status, 200, "{method}");
    }
    assert_eq!(subject.api.held().held, 0);
}

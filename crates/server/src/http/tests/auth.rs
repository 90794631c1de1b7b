//! Forward auth with the header styles of the three proxies.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use sluicegate_config::settings::Server;

use super::{ApiResponse, TestApi};
use crate::secret::Secret;

fn auth_request(path: &str, headers: &[(&str, &str)]) -> Request<Full<Bytes>> {
    let mut request = Request::builder().uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::default()).unwrap()
}

/// Settings that trust one proxy.
fn trusting_settings() -> Server {
    Server { trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()], ..Server::default() }
}

fn subject() -> TestApi {
    TestApi::with_settings(&trusting_settings())
}

async fn auth(subject: &TestApi, headers: &[(&str, &str)]) -> ApiResponse {
    subject.call_from(auth_request("/v1/auth", headers), "10.0.0.1:1234").await
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
async fn each_proxy_header_style_is_understood() {
    for headers in [TRAEFIK, CADDY, NGINX, INGRESS] {
        let subject = subject();
        for left in [1, 0] {
            let allowed = auth(&subject, headers).await;
            assert_eq!((allowed.status.as_u16(), allowed.body.len()), (200, 0), "{headers:?}");
            assert_eq!(allowed.header("ratelimit").unwrap().split(';').nth(1), Some(format!("r={left}").as_str()));
        }
        let refused = auth(&subject, headers).await;
        assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (429, Some("1")), "{headers:?}");
        assert_eq!(refused.header("content-type"), Some("application/problem+json"));
        assert!(refused.json()["detail"].as_str().unwrap().contains("'files'"));
        // Other clients and other paths are not affected.
        let mut other = headers.to_vec();
        other.retain(|(name, _)| *name != "x-forwarded-for");
        other.push(("x-forwarded-for", "203.0.113.10"));
        assert_eq!(auth(&subject, &other).await.status, 200);
    }
}

#[tokio::test]
async fn refuse_parameter_replaces_the_status() {
    let subject = subject();
    auth(&subject, NGINX).await;
    auth(&subject, NGINX).await;
    for (path, status) in [("/v1/auth?refuse=403", 403), ("/v1/auth?refuse=401", 401)] {
        let refused = subject.call_from(auth_request(path, NGINX), "10.0.0.1:1234").await;
        assert_eq!((refused.status.as_u16(), refused.header("x-sluicegate-status")), (status, Some("429")));
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    for path in ["/v1/auth?refuse=200", "/v1/auth?x=y"] {
        assert_eq!(subject.call_from(auth_request(path, NGINX), "10.0.0.1:1234").await.problem().0, 400);
    }
}

/// With a success status, the proxy would admit a refused request.
#[tokio::test]
async fn a_refusal_never_has_a_success_status() {
    let subject = subject();
    let mut search = vec![("x-forwarded-method", "GET"), ("x-forwarded-uri", "/search?q=red+shoes")];
    assert_eq!(auth(&subject, &search).await.status, 200);
    let degraded = auth(&subject, &search).await;
    assert_eq!((degraded.status.as_u16(), degraded.body.as_ref()), (429, b"[]".as_slice()));
    search.push(("content-type", "application/grpc"));
    assert_eq!(auth(&subject, &search).await.status, 429);
    let other = [("x-forwarded-method", "GET"), ("x-forwarded-uri", "/search?q=blue")];
    assert_eq!(auth(&subject, &other).await.status, 200, "rules see the query of the request, not of the call");
}

#[tokio::test]
async fn untrusted_peers_are_rejected() {
    let subject = subject();
    for peer in ["192.0.2.1:80", "[::1]:80", "127.0.0.1:80", "[::ffff:192.0.2.1]:80"] {
        let problem = subject.call_from(auth_request("/v1/auth", TRAEFIK), peer).await.problem();
        assert_eq!((problem.0, problem.1.as_str()), (403, "untrusted"), "{peer}");
    }
    assert_eq!(subject.call_from(auth_request("/v1/auth", &TRAEFIK[..0]), "10.0.0.1:1").await.problem().0, 400);
    assert!(subject.is_untouched());
    let mapped = subject.call_from(auth_request("/v1/auth", TRAEFIK), "[::ffff:10.0.0.1]:80").await;
    assert_eq!(mapped.status, 200);
}

/// A client adds headers of another proxy, or a duplicate header, to impersonate another request.
#[tokio::test]
async fn a_client_cannot_spoof_proxy_headers() {
    let subject = subject();
    for (style, added) in [
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
        let headers = [style, &[added]].concat();
        let problem = auth(&subject, &headers).await.problem();
        assert_eq!((problem.0, problem.1.as_str()), (403, "untrusted"), "{added:?}");
    }
    for missing in ["x-forwarded-uri", "x-forwarded-method"] {
        let headers: Vec<_> = TRAEFIK.iter().copied().filter(|(name, _)| *name != missing).collect();
        assert_eq!(auth(&subject, &headers).await.problem().0, 400, "{missing}");
    }
    assert!(subject.is_untouched());
    // The address claimed by the client precedes the one added by the proxy.
    let spoofed = [&TRAEFIK[..4], &[("x-forwarded-for", "198.51.100.1, 203.0.113.9")]].concat();
    for status in [200, 200, 429] {
        assert_eq!(auth(&subject, &spoofed).await.status, status);
    }
    assert_eq!(auth(&subject, TRAEFIK).await.status, 429, "the same client");
}

/// The host is the client's, not the one in the call to us.
#[tokio::test]
async fn an_absolute_url_gives_the_host() {
    let rules = "rules: [{ name: per-host, key: \"header['host']\", limits: [1/1h] }]";
    let subject = TestApi::with_rules(rules, &trusting_settings(), None);
    let of = |url: &'static str| [("host", "shop.example"), ("x-original-method", "GET"), ("x-original-url", url)];
    for (url, status) in [
        ("http://shop.example/", 200),
        ("https://shop.example/x", 429),
        ("https://other.example/", 200),
        ("https://other.example/shop.example/", 429),
    ] {
        assert_eq!(auth(&subject, &of(url)).await.status, status, "{url}");
    }
    for bad in ["/files/a", "shop.example/", "ftp://shop.example/", "https://", "https://shop.example"] {
        assert_eq!(auth(&subject, &of(bad)).await.problem().0, 400, "{bad}");
    }
}

/// A proxy that sends the secret in our own header leaves the client's `Authorization` to the rules.
#[tokio::test]
async fn rules_see_client_headers_but_not_the_proxy_secret() {
    let rules = "rules: [{ name: per-token, key: \"header['authorization']\", limits: [1/1h] }, \
                 { name: secret, key: \"header['x-sluicegate-secret']\", limits: [1/1h] }]";
    let subject = TestApi::with_rules(rules, &trusting_settings(), Some(Secret::of("open-sesame")));
    let request = |more: &[(&'static str, &'static str)]| [&TRAEFIK[..4], more].concat();
    for (headers, status) in [
        (vec![("x-sluicegate-secret", "open-sesame"), ("authorization", "Bearer alice")], 200),
        (vec![("x-sluicegate-secret", "open-sesame"), ("authorization", "Bearer alice")], 429),
        (vec![("x-sluicegate-secret", " open-sesame "), ("authorization", "Bearer bob")], 200),
        // In `Authorization` it is our secret, not the client's credentials.
        (vec![("authorization", "Bearer open-sesame")], 200),
        (vec![("authorization", "Bearer open-sesame")], 200),
        (vec![("x-sluicegate-secret", "wrong"), ("authorization", "Bearer open-sesame")], 401),
        (vec![("x-sluicegate-secret", "open-sesame"), ("x-sluicegate-secret", "open-sesame")], 401),
        (vec![("authorization", "Bearer carol")], 401),
        (vec![], 401),
    ] {
        assert_eq!(auth(&subject, &request(&headers)).await.status, status, "{headers:?}");
    }
}

#[tokio::test]
async fn any_method_is_accepted_and_permits_are_released() {
    let subject = subject();
    for method in ["GET", "HEAD", "POST", "OPTIONS", "DELETE", "PURGE"] {
        let mut request = auth_request("/v1/auth", &[("x-forwarded-method", "PUT"), ("x-forwarded-uri", "/x")]);
        *request.method_mut() = method.parse().unwrap();
        assert_eq!(subject.call_from(request, "10.0.0.1:1").await.status, 200, "{method}");
    }
    assert_eq!(subject.api.reservation_counts().active, 0);
}

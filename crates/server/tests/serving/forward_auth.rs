//! Real nginx with `auth_request` and real Caddy with `forward_auth`.

use sluicegate_net::Shutdown;

use crate::support::caddy::Caddy;
use crate::support::decision_server::TestDecisionServer;
use crate::support::http_client::TestHttpClient;
use crate::support::nginx::Nginx;
use crate::support::temp_dir::TempDir;
use crate::support::upstream::Upstream;

const RULES: &str = "
headers: legacy
server: { http: 127.0.0.1:0, threads: 1 }
rules:
  - { name: files, match: \"GET /files/**\", key: client.ip, limits: [{ token_bucket: 2/1h, burst: 2 }] }
  - { name: writes, match: \"POST /**\", key: client.ip, limits: [{ token_bucket: 1/1h, burst: 1 }] }
  - { name: tiers, match: \"GET /tiers\", key: \"header['x-tier']\", limits: [{ token_bucket: 1/1h, burst: 1 }] }
";

/// Configuration from the documentation: nginx sets the original method and URI and clears the alternative
/// headers. It returns every refusal as 429.
async fn start_nginx(served: &TestDecisionServer) -> Nginx {
    let at = served.addresses()[0];
    Nginx::start(&format!(
        "location / {{
            auth_request /decide;
            auth_request_set $left $upstream_http_ratelimit_remaining;
            auth_request_set $retry $upstream_http_retry_after;
            auth_request_set $meant $upstream_http_x_sluicegate_status;
            add_header X-Left $left always;
            error_page 403 = @refused;
            return 200 'served';
        }}
        location @refused {{ add_header Retry-After $retry always; add_header X-Meant $meant always; return 429 'refused'; }}
        location = /decide {{
            internal;
            proxy_pass http://{at}/v1/auth?refuse=403;
            proxy_pass_request_body off;
            proxy_set_header Content-Length '';
            proxy_set_header X-Original-Method $request_method;
            proxy_set_header X-Original-URI $request_uri;
            proxy_set_header X-Forwarded-Method '';
            proxy_set_header X-Forwarded-Uri '';
            proxy_set_header X-Forwarded-For $remote_addr;
        }}"
    )
    // `return` would respond before the authorization request.
    .replace("return 200 'served';", "try_files /nothing @served;")
    .replace("location @refused", "location @served { return 200 'served'; }\nlocation @refused"))
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_checks_each_request() {
    let dir = TempDir::new();
    let served = TestDecisionServer::start(&dir, RULES);
    let nginx = start_nginx(&served).await;
    let mut web = TestHttpClient::connect(&nginx.endpoint()).await.unwrap();
    for _ in 0..2 {
        assert_eq!(web.get("/files/a?b=c").await.unwrap().status, 200);
    }
    let refused = web.get("/files/a").await.unwrap();
    assert_eq!((refused.status, refused.header("x-meant")), (429, Some("429")));
    assert!(refused.header("retry-after").unwrap().parse::<u32>().unwrap() > 0);
    // Other paths and methods are not limited, and an alternative spelling of the path does not bypass the
    // limit.
    assert_eq!(web.get("/other").await.unwrap().status, 200);
    for path in ["//files/a", "/files/./a", "/x/../files/a", "/%66iles/a"] {
        assert_eq!(web.get(path).await.unwrap().status, 429, "{path}");
    }
    assert_eq!(web.call("POST", "/a", &[], "body").await.unwrap().status, 200);
    assert_eq!(web.call("POST", "/a", &[], "body").await.unwrap().status, 429);
    // Rules see the client's headers.
    for (tier, status) in [("gold", 200), ("gold", 429), ("tin", 200)] {
        assert_eq!(web.call("GET", "/tiers", &[("x-tier", tier)], "").await.unwrap().status, status);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spoofed_client_headers_are_ignored() {
    let dir = TempDir::new();
    let served = TestDecisionServer::start(&dir, RULES);
    let nginx = start_nginx(&served).await;
    let mut web = TestHttpClient::connect(&nginx.endpoint()).await.unwrap();
    for _ in 0..2 {
        assert_eq!(web.get("/files/a").await.unwrap().status, 200);
    }
    let spoofed: [&[(&str, &str)]; 5] = [
        &[("x-forwarded-for", "203.0.113.9")],
        &[("x-original-uri", "/other"), ("x-original-method", "PUT")],
        &[("x-forwarded-uri", "/other"), ("x-forwarded-method", "PUT")],
        &[("x-real-ip", "203.0.113.9"), ("forwarded", "for=203.0.113.9")],
        &[("x-forwarded-host", "other"), ("x-forwarded-proto", "https")],
    ];
    for headers in spoofed {
        assert_eq!(web.call("GET", "/files/a", headers, "").await.unwrap().status, 429, "{headers:?}");
    }
}

/// Starts Caddy with the site from the documentation, in front of an upstream.
async fn start_caddy(served: &TestDecisionServer, upstream: &Upstream) -> Caddy {
    let page = include_str!("../../../../docs/http-api.md");
    let (_, from) = page.split_once("```caddyfile\n").expect("the page has a Caddyfile");
    let (site, _) = from.split_once("```").expect("the code block is closed");
    let (at, upstream_address) = (served.addresses()[0].to_string(), upstream.address.to_string());
    assert!(site.contains("127.0.0.1:8082") && site.contains("127.0.0.1:9001"), "{site}");
    Caddy::start(&site.replace("127.0.0.1:8082", &at).replace("127.0.0.1:9001", &upstream_address)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caddy_checks_each_request_and_forwards_refusals() {
    let dir = TempDir::new();
    let (served, upstream) = (TestDecisionServer::start(&dir, RULES), Upstream::start().await);
    let caddy = start_caddy(&served, &upstream).await;
    let mut web = TestHttpClient::connect(&caddy.endpoint()).await.unwrap();
    for _ in 0..2 {
        let response = web.get("/files/a?b=c").await.unwrap();
        assert_eq!((response.status, response.body.as_ref()), (200, b"hello".as_slice()));
    }
    let refused = web.get("/files/a").await.unwrap();
    assert_eq!((refused.status, refused.header("ratelimit-remaining")), (429, Some("0")));
    assert!(refused.header("retry-after").unwrap().parse::<u32>().unwrap() > 0);
    assert_eq!(refused.json()["violated-policies"], serde_json::json!(["files"]));
    assert_eq!(web.get("/other?refuse=teapot").await.unwrap().status, 200);
    // Caddy forwards the client's query; the decision server ignores it.
    for path in
        ["//files/a", "/files/./a", "/x/../files/a", "/%66iles/a", "/files/a?x", "/files/a?refuse=401", "/files/a?q=ü"]
    {
        assert_eq!(web.get(path).await.unwrap().status, 429, "{path}");
    }
    for status in [200, 429] {
        assert_eq!(web.call("POST", "/a", &[], "").await.unwrap().status, status);
    }
    for (tier, status) in [("gold", 200), ("gold", 429), ("tin", 200)] {
        assert_eq!(web.call("GET", "/tiers", &[("x-tier", tier)], "").await.unwrap().status, status);
    }
    // Spoofed headers are ignored. A client that sends the headers of nginx is refused.
    for (headers, status) in [
        ([("x-forwarded-for", "203.0.113.9"), ("x-real-ip", "203.0.113.9")], 429),
        ([("x-forwarded-uri", "/other"), ("x-forwarded-method", "PUT")], 429),
        ([("x-forwarded-host", "other"), ("x-forwarded-proto", "https")], 429),
        ([("x-original-uri", "/other"), ("x-original-method", "PUT")], 403),
    ] {
        assert_eq!(web.call("GET", "/files/a", &headers, "").await.unwrap().status, status, "{headers:?}");
    }
}

/// Caddy passes no request if the decision server is down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caddy_fails_closed_without_the_decision_server() {
    let dir = TempDir::new();
    let (served, upstream) = (TestDecisionServer::start(&dir, RULES), Upstream::start().await);
    let caddy = start_caddy(&served, &upstream).await;
    let mut web = TestHttpClient::connect(&caddy.endpoint()).await.unwrap();
    assert_eq!(web.get("/other").await.unwrap().status, 200);
    served.stop(Shutdown::Close).await;
    assert_eq!(web.get("/other").await.unwrap().status, 502);
}

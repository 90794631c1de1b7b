//! The real nginx, that asks about each request with `auth_request`, and the real Caddy with `forward_auth`.

use sluicegate_listen::Stop;

use crate::support::caddy::Caddy;
use crate::support::folder::Folder;
use crate::support::nginx::Nginx;
use crate::support::served::Served;
use crate::support::upstream::Upstream;
use crate::support::web::Web;

const RULES: &str = "
headers: legacy
server: { http: 127.0.0.1:0, threads: 1 }
rules:
  - { name: files, match: \"GET /files/**\", key: client.ip, limits: [{ token_bucket: 2/1h, burst: 2 }] }
  - { name: writes, match: \"POST /**\", key: client.ip, limits: [{ token_bucket: 1/1h, burst: 1 }] }
  - { name: tiers, match: \"GET /tiers\", key: \"header['x-tier']\", limits: [{ token_bucket: 1/1h, burst: 1 }] }
";

/// As the documentation has it: nginx replaces what says which request it is about, and clears the other way to say
/// so. It passes any refusal on as 429.
async fn nginx(served: &Served) -> Nginx {
    let at = served.addresses()[0];
    Nginx::with(&format!(
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
    // `return` would answer before anybody is asked.
    .replace("return 200 'served';", "try_files /nothing @served;")
    .replace("location @refused", "location @served { return 200 'served'; }\nlocation @refused"))
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_asks_about_each_request() {
    let folder = Folder::new();
    let served = Served::start(&folder, RULES);
    let nginx = nginx(&served).await;
    let mut web = Web::to(&nginx.place()).await.unwrap();
    for _ in 0..2 {
        assert_eq!(web.get("/files/a?b=c").await.unwrap().status, 200);
    }
    let refused = web.get("/files/a").await.unwrap();
    assert_eq!((refused.status, refused.header("x-meant")), (429, Some("429")));
    assert!(refused.header("retry-after").unwrap().parse::<u32>().unwrap() > 0);
    // Other paths and methods are not concerned; neither is it by another way to write the same path.
    assert_eq!(web.get("/other").await.unwrap().status, 200);
    for path in ["//files/a", "/files/./a", "/x/../files/a", "/%66iles/a"] {
        assert_eq!(web.get(path).await.unwrap().status, 429, "{path}");
    }
    assert_eq!(web.call("POST", "/a", &[], "body").await.unwrap().status, 200);
    assert_eq!(web.call("POST", "/a", &[], "body").await.unwrap().status, 429);
    // The client's headers are seen by the rules.
    for (tier, status) in [("gold", 200), ("gold", 429), ("tin", 200)] {
        assert_eq!(web.call("GET", "/tiers", &[("x-tier", tier)], "").await.unwrap().status, status);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_makes_up_does_not_count() {
    let folder = Folder::new();
    let served = Served::start(&folder, RULES);
    let nginx = nginx(&served).await;
    let mut web = Web::to(&nginx.place()).await.unwrap();
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

/// With the site that the documentation has, before an upstream.
async fn caddy(served: &Served, upstream: &Upstream) -> Caddy {
    let page = include_str!("../../../../docs/http-api.md");
    let (_, from) = page.split_once("```caddyfile\n").expect("the page has a site");
    let (site, _) = from.split_once("```").expect("which ends");
    let (at, behind) = (served.addresses()[0].to_string(), upstream.address.to_string());
    assert!(site.contains("127.0.0.1:8082") && site.contains("127.0.0.1:9001"), "{site}");
    Caddy::with(&site.replace("127.0.0.1:8082", &at).replace("127.0.0.1:9001", &behind)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caddy_asks_about_each_request_and_sends_refusals_on() {
    let folder = Folder::new();
    let (served, upstream) = (Served::start(&folder, RULES), Upstream::start().await);
    let caddy = caddy(&served, &upstream).await;
    let mut web = Web::to(&caddy.place()).await.unwrap();
    for _ in 0..2 {
        let answer = web.get("/files/a?b=c").await.unwrap();
        assert_eq!((answer.status, answer.body.as_ref()), (200, b"hello".as_slice()));
    }
    let refused = web.get("/files/a").await.unwrap();
    assert_eq!((refused.status, refused.header("ratelimit-remaining")), (429, Some("0")));
    assert!(refused.header("retry-after").unwrap().parse::<u32>().unwrap() > 0);
    assert_eq!(refused.json()["violated-policies"], serde_json::json!(["files"]));
    assert_eq!(web.get("/other?refuse=teapot").await.unwrap().status, 200);
    // Caddy hands the client's query on: it says nothing to the decision server.
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
    // What a client makes up does not count. Where it says what nginx would, it shuts out itself.
    for (headers, status) in [
        ([("x-forwarded-for", "203.0.113.9"), ("x-real-ip", "203.0.113.9")], 429),
        ([("x-forwarded-uri", "/other"), ("x-forwarded-method", "PUT")], 429),
        ([("x-forwarded-host", "other"), ("x-forwarded-proto", "https")], 429),
        ([("x-original-uri", "/other"), ("x-original-method", "PUT")], 403),
    ] {
        assert_eq!(web.call("GET", "/files/a", &headers, "").await.unwrap().status, status, "{headers:?}");
    }
}

/// Without the decision server nobody passes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caddy_lets_nobody_pass_when_nobody_decides() {
    let folder = Folder::new();
    let (served, upstream) = (Served::start(&folder, RULES), Upstream::start().await);
    let caddy = caddy(&served, &upstream).await;
    let mut web = Web::to(&caddy.place()).await.unwrap();
    assert_eq!(web.get("/other").await.unwrap().status, 200);
    served.stop(Stop::Close).await;
    assert_eq!(web.get("/other").await.unwrap().status, 502);
}

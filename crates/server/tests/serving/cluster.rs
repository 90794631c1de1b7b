//! Servers on a shared store: one limit across servers and protocols.

use sluicegate_testkit::servers::RedisServer;

use crate::support::decision_server::TestDecisionServer;
use crate::support::http_client::TestHttpClient;
use crate::support::resp::TestRespClient;
use crate::support::rls::TestRlsClient;
use crate::support::temp_dir::TempDir;
use crate::support::{wait_until, with_timeout};

/// Starts a server on this store with one thread: a request that waits for the store must not block others.
fn start_server(dir: &TempDir, redis: &RedisServer, timeout: &str) -> TestDecisionServer {
    dir.write(
        "limits/edge.yaml",
        "domain: edge\ndescriptors:\n- key: account\n  rate_limit: { unit: day, requests_per_unit: 10 }\n",
    );
    let rules = format!(
        "store: {{ url: \"{}\", timeout: {timeout} }}
server: {{ rls: 127.0.0.1:0, http: 127.0.0.1:0, resp: 127.0.0.1:0, ratelimit_dir: limits, threads: 1 }}
rules:
  - {{ name: total, match: service shop, key: account, limits: [{{ token_bucket: 12/1h, burst: 12 }}], scope: cluster }}
  - {{ name: described, direction: descriptor, match: service ours, key: \"descriptor['account']\", limits: [{{ token_bucket: 10/1h, burst: 10 }}], scope: cluster }}
  - {{ name: closed, match: service shut, key: account, limits: [5/1h], scope: cluster, cluster: {{ on_store_failure: closed }} }}
  - {{ name: alone, match: service alone, limits: [{{ token_bucket: 1000/s, burst: 1000 }}] }}
",
        redis.url()
    );
    TestDecisionServer::start(dir, &rules)
}

/// Clients of one server, one per protocol.
struct ServerClients {
    rls: TestRlsClient,
    web: TestHttpClient,
    resp: TestRespClient,
}

impl ServerClients {
    async fn connect_to(served: &TestDecisionServer) -> Self {
        let rls = TestRlsClient::connect(&served.endpoint(0)).await.unwrap();
        let web = TestHttpClient::connect(&served.endpoint(1)).await.unwrap();
        let resp = TestRespClient::connect(&served.endpoint(2)).await.unwrap();
        Self { rls, web, resp }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_on_one_store_share_one_limit() {
    let redis = RedisServer::start().unwrap();
    let dirs = [TempDir::new(), TempDir::new()];
    let servers = dirs.each_ref().map(|dir| start_server(dir, &redis, "10s"));
    let mut clients = [ServerClients::connect_to(&servers[0]).await, ServerClients::connect_to(&servers[1]).await];
    let mut remaining_counts = Vec::new();
    for index in 0..16 {
        let ServerClients { web, resp, .. } = &mut clients[index % 2];
        let decision =
            if index % 4 < 2 { web.check("total", "alice").await } else { resp.check("total", "alice").await };
        let (allowed, remaining, degraded) = decision.unwrap();
        assert_eq!((allowed, degraded), (index < 12, false), "{index}");
        remaining_counts.push(remaining);
    }
    assert_eq!(remaining_counts[..12], [11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
    for domain in ["edge", "ours"] {
        for index in 0..14 {
            let (allowed, _) = clients[index % 2].rls.check(domain, &[("account", "alice")]).await.unwrap();
            assert_eq!(allowed, index < 10, "{domain} {index}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_clients_of_two_servers_never_exceed_the_limit() {
    let redis = RedisServer::start().unwrap();
    let dirs = [TempDir::new(), TempDir::new()];
    let servers = dirs.each_ref().map(|dir| start_server(dir, &redis, "10s"));
    let mut tasks = Vec::new();
    for index in 0..8 {
        let mut clients = ServerClients::connect_to(&servers[index % 2]).await;
        tasks.push(tokio::spawn(async move {
            let mut admitted = 0;
            for _ in 0..5 {
                admitted += u32::from(clients.web.check("total", "bob").await.unwrap().0);
                admitted += u32::from(clients.resp.check("total", "bob").await.unwrap().0);
            }
            admitted
        }));
    }
    let mut admitted = 0;
    for task in tasks {
        admitted += with_timeout("all replies", task).await.unwrap();
    }
    assert_eq!(admitted, 12);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_store_does_not_block_other_requests() {
    let redis = RedisServer::start().unwrap();
    let dir = TempDir::new();
    let served = start_server(&dir, &redis, "3s");
    let mut clients = ServerClients::connect_to(&served).await;
    wait_until("the store responds", async || !clients.web.check("total", "carol").await.unwrap().2).await;
    redis.pause().unwrap();
    let mut waiting = ServerClients::connect_to(&served).await;
    let pending = tokio::spawn(async move {
        let replies = tokio::join!(
            waiting.web.check("total", "carol"),
            waiting.resp.check("closed", "carol"),
            waiting.rls.check("ours", &[("account", "carol")])
        );
        (replies.0.unwrap(), replies.1.unwrap(), replies.2.unwrap())
    });
    for _ in 0..50 {
        assert!(clients.web.check("alone", "carol").await.unwrap().0);
        assert!(clients.resp.check("alone", "carol").await.unwrap().0);
        assert!(clients.rls.check("nowhere", &[("a", "b")]).await.unwrap().0);
    }
    assert!(!pending.is_finished(), "the calls wait for the store");
    let (web, resp, rls) = with_timeout("a decision without the store", pending).await.unwrap();
    assert!(web.2 && web.0, "{web:?}: the share of this process");
    assert!(resp.2 && !resp.0, "{resp:?}: refused without the store");
    assert!(rls.0);
    redis.resume().unwrap();
    wait_until("the store counts again", async || !clients.web.check("total", "dave").await.unwrap().2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_store_every_decision_is_marked_degraded() {
    let mut redis = RedisServer::start().unwrap();
    let dir = TempDir::new();
    let served = start_server(&dir, &redis, "100ms");
    let mut clients = ServerClients::connect_to(&served).await;
    wait_until("the store responds", async || !clients.web.check("total", "erin").await.unwrap().2).await;
    redis.kill();
    wait_until("the store is reported unavailable", async || clients.web.check("total", "erin").await.unwrap().2).await;
    for _ in 0..20 {
        assert!(clients.resp.check("total", "erin").await.unwrap().2);
        assert!(!clients.web.check("closed", "erin").await.unwrap().0);
        clients.rls.check("edge", &[("account", "erin")]).await.unwrap();
    }
    redis.restart().unwrap();
    wait_until("the store counts again", async || !clients.resp.check("total", "erin").await.unwrap().2).await;
}

/// Hits spent at one server can be refunded at another, with every algorithm.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn negative_hits_refund_quota_in_the_store() {
    let redis = RedisServer::start().unwrap();
    let limits = [
        ("token_bucket", "{ token_bucket: 10/1d, burst: 10 }"),
        ("fixed_window", "{ fixed_window: 10/365d }"),
        ("sliding_window", "{ sliding_window: 10/1d, cells: 10 }"),
        ("interpolated_window", "{ interpolated_window: 10/365d }"),
        ("sliding_log", "{ sliding_log: 10/1d }"),
        ("twice", "10/1d, { sliding_log: 10/1d }, { concurrency: 50 }"),
    ];
    let rules: String = limits
        .iter()
        .map(|(name, limits)| {
            format!(
                "  - {{ name: {name}, direction: descriptor, match: service {name}, key: \"descriptor['account']\", \
                 limits: [{limits}], scope: cluster }}\n"
            )
        })
        .collect();
    let rules = format!(
        "store: {{ url: \"{}\", timeout: 10s }}\nserver: {{ rls: 127.0.0.1:0, threads: 1 }}\nrules:\n{rules}\
         {PACED}{COSTLY}",
        redis.url()
    );
    let dirs = [TempDir::new(), TempDir::new()];
    let servers = dirs.each_ref().map(|dir| TestDecisionServer::start(dir, &rules));
    let mut one = TestRlsClient::connect(&servers[0].endpoint(0)).await.unwrap();
    let mut other = TestRlsClient::connect(&servers[1].endpoint(0)).await.unwrap();
    let alice: &[(&str, &str)] = &[("account", "alice")];
    // The refund is asynchronous: the reply does not wait for the store.
    for (domain, _) in limits {
        assert_eq!(one.hit(domain, alice, 8).await.unwrap(), (true, 2), "{domain}");
        assert_eq!(other.hit(domain, alice, -3).await.unwrap(), (true, 5), "{domain}");
        wait_until(&format!("{domain}: three hits are refunded"), async || {
            one.hit(domain, alice, 0).await.unwrap() == (true, 5)
        })
        .await;
        assert!(!one.hit(domain, alice, 6).await.unwrap().0, "{domain}");
        assert_eq!(other.hit(domain, alice, i64::MIN).await.unwrap(), (true, 10), "{domain}");
        wait_until(&format!("{domain}: all hits are refunded"), async || {
            one.hit(domain, alice, 0).await.unwrap() == (true, 10)
        })
        .await;
        assert!(one.hit(domain, alice, 10).await.unwrap().0, "{domain}");
        assert!(!other.hit(domain, alice, 1).await.unwrap().0, "{domain}: refunds do not exceed the limit");
    }
    // A leaky bucket refunds nothing: later requests already have their departure times.
    assert_eq!(one.hit("paced", alice, 2).await.unwrap(), (true, 8));
    assert_eq!(other.hit("paced", alice, -2).await.unwrap(), (true, 8));
    // Each hit costs three.
    assert_eq!(one.hit("costly", alice, 3).await.unwrap(), (true, 1));
    assert_eq!(other.hit("costly", alice, -2).await.unwrap(), (true, 7));
    wait_until("six tokens are refunded", async || one.hit("costly", alice, 0).await.unwrap() == (true, 7)).await;
}

const PACED: &str = "  - { name: paced, direction: descriptor, match: service paced, limits: [{ leaky_bucket: 1/1d, queue: 10 }], scope: cluster }\n";
const COSTLY: &str =
    "  - { name: costly, direction: descriptor, match: service costly, limits: [10/1d], cost: 3, scope: cluster }\n";

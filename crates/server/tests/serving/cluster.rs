//! Servers on one store: one threshold, whoever is asked and however.

use sluicegate_testkit::servers::RedisServer;

use crate::support::folder::Folder;
use crate::support::resp::Resp;
use crate::support::rls::Rls;
use crate::support::served::Served;
use crate::support::web::Web;
use crate::support::{soon, until};

/// A server on this store, with one thread: nobody can be served on another while one waits for the store.
fn server(folder: &Folder, redis: &RedisServer, deadline: &str) -> Served {
    folder.write(
        "limits/edge.yaml",
        "domain: edge\ndescriptors:\n- key: account\n  rate_limit: { unit: day, requests_per_unit: 10 }\n",
    );
    let rules = format!(
        "store: {{ url: \"{}\", deadline: {deadline} }}
server: {{ rls: 127.0.0.1:0, http: 127.0.0.1:0, resp: 127.0.0.1:0, ratelimit: limits, threads: 1 }}
rules:
  - {{ name: total, match: service shop, key: account, limits: [{{ token_bucket: 12/1h, burst: 12 }}], scope: cluster }}
  - {{ name: described, side: descriptor, match: service ours, key: \"descriptor['account']\", limits: [{{ token_bucket: 10/1h, burst: 10 }}], scope: cluster }}
  - {{ name: closed, match: service shut, key: account, limits: [5/1h], scope: cluster, cluster: {{ on_store_failure: closed }} }}
  - {{ name: alone, match: service alone, limits: [{{ token_bucket: 1000/s, burst: 1000 }}] }}
",
        redis.url()
    );
    Served::start(folder, &rules)
}

/// The clients of one server.
struct Clients {
    rls: Rls,
    web: Web,
    resp: Resp,
}

impl Clients {
    async fn of(served: &Served) -> Self {
        let rls = Rls::to(&served.place(0)).await.unwrap();
        let web = Web::to(&served.place(1)).await.unwrap();
        let resp = Resp::to(&served.place(2)).await.unwrap();
        Self { rls, web, resp }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_on_one_store_have_one_threshold() {
    let redis = RedisServer::start().unwrap();
    let folders = [Folder::new(), Folder::new()];
    let servers = folders.each_ref().map(|folder| server(folder, &redis, "10s"));
    let mut clients = [Clients::of(&servers[0]).await, Clients::of(&servers[1]).await];
    let mut left = Vec::new();
    for nth in 0..16 {
        let Clients { web, resp, .. } = &mut clients[nth % 2];
        let said = if nth % 4 < 2 { web.check("total", "alice").await } else { resp.check("total", "alice").await };
        let (allowed, remaining, degraded) = said.unwrap();
        assert_eq!((allowed, degraded), (nth < 12, false), "{nth}");
        left.push(remaining);
    }
    assert_eq!(left[..12], [11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
    for domain in ["edge", "ours"] {
        for nth in 0..14 {
            let (allowed, _) = clients[nth % 2].rls.ask(domain, &[("account", "alice")]).await.unwrap();
            assert_eq!(allowed, nth < 10, "{domain} {nth}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_of_two_servers_get_no_more_than_there_is() {
    let redis = RedisServer::start().unwrap();
    let folders = [Folder::new(), Folder::new()];
    let servers = folders.each_ref().map(|folder| server(folder, &redis, "10s"));
    let mut asking = Vec::new();
    for nth in 0..8 {
        let mut clients = Clients::of(&servers[nth % 2]).await;
        asking.push(tokio::spawn(async move {
            let mut admitted = 0;
            for _ in 0..5 {
                admitted += u32::from(clients.web.check("total", "bob").await.unwrap().0);
                admitted += u32::from(clients.resp.check("total", "bob").await.unwrap().0);
            }
            admitted
        }));
    }
    let mut admitted = 0;
    for asked in asking {
        admitted += soon("all answers", asked).await.unwrap();
    }
    assert_eq!(admitted, 12);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_store_is_silent_others_are_served() {
    let redis = RedisServer::start().unwrap();
    let folder = Folder::new();
    let served = server(&folder, &redis, "3s");
    let mut clients = Clients::of(&served).await;
    until("the store answers", async || !clients.web.check("total", "carol").await.unwrap().2).await;
    redis.pause().unwrap();
    let mut waiting = Clients::of(&served).await;
    let asked = tokio::spawn(async move {
        let said = tokio::join!(
            waiting.web.check("total", "carol"),
            waiting.resp.check("closed", "carol"),
            waiting.rls.ask("ours", &[("account", "carol")])
        );
        (said.0.unwrap(), said.1.unwrap(), said.2.unwrap())
    });
    for _ in 0..50 {
        assert!(clients.web.check("alone", "carol").await.unwrap().0);
        assert!(clients.resp.check("alone", "carol").await.unwrap().0);
        assert!(clients.rls.ask("nowhere", &[("a", "b")]).await.unwrap().0);
    }
    assert!(!asked.is_finished(), "they wait for the store");
    let (web, resp, rls) = soon("an answer without the store", asked).await.unwrap();
    assert!(web.2 && web.0, "{web:?}: the share of this process");
    assert!(resp.2 && !resp.0, "{resp:?}: closed without the store");
    assert!(rls.0);
    redis.resume().unwrap();
    until("the store counts again", async || !clients.web.check("total", "dave").await.unwrap().2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_store_every_answer_says_so() {
    let mut redis = RedisServer::start().unwrap();
    let folder = Folder::new();
    let served = server(&folder, &redis, "100ms");
    let mut clients = Clients::of(&served).await;
    until("the store answers", async || !clients.web.check("total", "erin").await.unwrap().2).await;
    redis.kill();
    until("it is known to be gone", async || clients.web.check("total", "erin").await.unwrap().2).await;
    for _ in 0..20 {
        assert!(clients.resp.check("total", "erin").await.unwrap().2);
        assert!(!clients.web.check("closed", "erin").await.unwrap().0);
        clients.rls.ask("edge", &[("account", "erin")]).await.unwrap();
    }
    redis.restart().unwrap();
    until("the store counts again", async || !clients.resp.check("total", "erin").await.unwrap().2).await;
}

/// What one server was asked for can be given back at another, whatever counts it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hits_are_given_back_to_the_store() {
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
                "  - {{ name: {name}, side: descriptor, match: service {name}, key: \"descriptor['account']\", \
                 limits: [{limits}], scope: cluster }}\n"
            )
        })
        .collect();
    let rules = format!(
        "store: {{ url: \"{}\", deadline: 10s }}\nserver: {{ rls: 127.0.0.1:0, threads: 1 }}\nrules:\n{rules}\
         {PACED}{COSTLY}",
        redis.url()
    );
    let folders = [Folder::new(), Folder::new()];
    let servers = folders.each_ref().map(|folder| Served::start(folder, &rules));
    let mut one = Rls::to(&servers[0].place(0)).await.unwrap();
    let mut other = Rls::to(&servers[1].place(0)).await.unwrap();
    let alice: &[(&str, &str)] = &[("account", "alice")];
    // What is given back is on its way when the answer comes.
    for (domain, _) in limits {
        assert_eq!(one.hit(domain, alice, 8).await.unwrap(), (true, 2), "{domain}");
        assert_eq!(other.hit(domain, alice, -3).await.unwrap(), (true, 5), "{domain}");
        until(&format!("{domain}: three are back"), async || one.hit(domain, alice, 0).await.unwrap() == (true, 5))
            .await;
        assert!(!one.hit(domain, alice, 6).await.unwrap().0, "{domain}");
        assert_eq!(other.hit(domain, alice, i64::MIN).await.unwrap(), (true, 10), "{domain}");
        until(&format!("{domain}: all are back"), async || one.hit(domain, alice, 0).await.unwrap() == (true, 10))
            .await;
        assert!(one.hit(domain, alice, 10).await.unwrap().0, "{domain}");
        assert!(!other.hit(domain, alice, 1).await.unwrap().0, "{domain}: not more than the limit");
    }
    // Those behind have been told when to go.
    assert_eq!(one.hit("paced", alice, 2).await.unwrap(), (true, 8));
    assert_eq!(other.hit("paced", alice, -2).await.unwrap(), (true, 8));
    // Each hit costs three.
    assert_eq!(one.hit("costly", alice, 3).await.unwrap(), (true, 1));
    assert_eq!(other.hit("costly", alice, -2).await.unwrap(), (true, 7));
    until("six are back", async || one.hit("costly", alice, 0).await.unwrap() == (true, 7)).await;
}

const PACED: &str = "  - { name: paced, side: descriptor, match: service paced, limits: [{ leaky_bucket: 1/1d, queue: 10 }], scope: cluster }\n";
const COSTLY: &str =
    "  - { name: costly, side: descriptor, match: service costly, limits: [10/1d], cost: 3, scope: cluster }\n";

//! Cluster-wide limits from a rule file, as a user configures them.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use sluicegate::Sluice;
use sluicegate::cluster::{StoreState, store_of};
use sluicegate::rule::Request;
use sluicegate_testkit::servers::RedisServer;

fn file(name: &str, text: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("sluicegate-cluster-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn rules(store: &str) -> String {
    format!(
        "store: {store}
rules:
  - {{ name: exact, match: /exact, limits: [5/1h], scope: cluster }}
  - {{ name: leased, match: /leased, limits: [{{ token_bucket: 1/1h, burst: 500 }}], scope: cluster, cluster: {{ mode: lease }} }}
  - {{ name: own, match: /own, limits: [5/1h] }}
"
    )
}

fn wait_until_connected(sluice: &Sluice) {
    let store = store_of(sluice).expect("the file names one");
    let until = Instant::now() + Duration::from_secs(20);
    while store.health().state != StoreState::Connected {
        assert!(Instant::now() < until, "{:?}", store.health());
        thread::sleep(Duration::from_millis(5));
    }
}

fn count_admitted(sluices: &[Sluice], path: &str, times: usize) -> usize {
    let request = Request::new("GET", path);
    (0..times).filter(|index| sluices[index % sluices.len()].decide(&request).is_admitted()).count()
}

/// `store` and `scope: cluster` are all there is to write.
#[test]
fn a_rule_file_gives_processes_one_shared_limit() {
    let server = RedisServer::start().unwrap();
    let path = file("one.yaml", &rules(&format!("{{ url: {}, timeout: 5s }}", server.url())));
    let processes = [0, 1, 2].map(|_| sluicegate::load(&path).unwrap());
    processes.iter().for_each(wait_until_connected);
    assert_eq!(count_admitted(&processes, "/exact", 60), 5);
    assert_eq!(count_admitted(&processes, "/own", 60), 15, "each process has its own limit");
    let together = count_admitted(&processes, "/leased", 3_000);
    assert!((400..=500).contains(&together), "{together}");
}

#[test]
fn the_same_rules_run_in_memory() {
    let sluice = [sluicegate::load(file("memory.yaml", &rules("memory"))).unwrap()];
    assert!(store_of(&sluice[0]).is_none());
    assert_eq!([count_admitted(&sluice, "/exact", 20), count_admitted(&sluice, "/own", 20)], [5, 5]);
    assert_eq!(count_admitted(&sluice, "/leased", 1_000), 500);
}

/// An unreachable store does not block requests: each process enforces its share.
#[test]
fn an_unreachable_store_falls_back_to_a_local_share() {
    let path = file("down.yaml", &rules("{ url: 'redis://127.0.0.1:1', expected_nodes: 5 }"));
    let sluice = [sluicegate::load(&path).unwrap()];
    let outcome = sluice[0].decide(&Request::new("GET", "/exact"));
    assert!(outcome.is_degraded() && outcome.is_admitted());
    assert_eq!(count_admitted(&sluice, "/exact", 20), 0, "one of five is this process's share");
    assert_eq!(count_admitted(&sluice, "/own", 20), 5, "what is counted here is none of the store's business");
    assert_eq!(sluice[0].counts()[0].degraded, 21);
    assert!(store_of(&sluice[0]).unwrap().health().last_error.is_some());
}

#[test]
fn minimal_redis_acl_suffices() {
    let server = RedisServer::start().unwrap();
    let page = include_str!("../../../docs/cluster.md");
    let (_, rest) = page.split_once("ACL SETUSER").unwrap();
    let (user, _) = rest.split_once("```").unwrap();
    let mut command = redis::cmd("ACL");
    command.arg("SETUSER");
    for word in user.split_whitespace() {
        command.arg(word);
    }
    let mut admin = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    command.exec(&mut admin).unwrap();
    let url = format!("{{ url: 'redis://sluicegate:password@127.0.0.1:{}', timeout: 5s }}", server.port());
    let text = rules(&url)
        + "  - { name: banning, match: /ban, key: method, limits: [{ concurrency: 5 }, 1/1h], scope: cluster, ban: { after: 1 refusals in 1m, for: 1m } }
  - { name: log, match: /log, limits: [{ sliding_log: 2/1h }, { warm_up: 100/s, over: 1s }], scope: cluster }
";
    let sluice = [sluicegate::load(file("acl.yaml", &text)).unwrap()];
    wait_until_connected(&sluice[0]);
    assert_eq!(count_admitted(&sluice, "/exact", 10), 5);
    assert!(count_admitted(&sluice, "/leased", 600) >= 400);
    assert_eq!(count_admitted(&sluice, "/ban", 3), 1);
    assert_eq!(count_admitted(&sluice, "/log", 1), 1);
    let until = Instant::now() + Duration::from_secs(20);
    while redis::cmd("EXISTS").arg("sluicegate:{shared}:bans").query::<u8>(&mut admin).unwrap() == 0 {
        assert!(Instant::now() < until, "the ban is not replicated in time");
        thread::sleep(Duration::from_millis(5));
    }
    let health = store_of(&sluice[0]).unwrap().health();
    assert!(health.failures.is_empty(), "{health:?}");
    assert!(health.warnings.is_empty(), "{health:?}");
}

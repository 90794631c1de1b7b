//! A server that is killed while it holds cluster-wide permits.

use serde_json::Value;
use sluicegate_testkit::servers::RedisServer;

use super::program::Program;
use super::support::http_client::TestHttpClient;
use super::support::temp_dir::TempDir;
use super::support::wait_until;

async fn permit(web: &mut TestHttpClient) -> Value {
    let response = web.post("/v1/permits", r#"{"rule":"jobs","ttl":"1m"}"#).await.unwrap();
    assert!([200, 201].contains(&response.status), "{response:?}");
    response.json()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_of_a_crashed_server_expire() {
    let redis = RedisServer::start().unwrap();
    let rules = format!(
        "store: {{ url: \"{}\", timeout: 10s, permit_ttl: 2s }}\nserver: {{ http: 127.0.0.1:0, threads: 1 }}\n\
         rules: [{{ name: jobs, match: service jobs, limits: [{{ concurrency: 3 }}], scope: cluster }}]\n",
        redis.url()
    );
    let (mut doomed, mut other) =
        (Program::start(TempDir::new(), &rules).await, Program::start(TempDir::new(), &rules).await);
    let mut to_killed = TestHttpClient::connect(&doomed.address("HTTP")).await.unwrap();
    let mut to_other = TestHttpClient::connect(&other.address("HTTP")).await.unwrap();
    wait_until("the store responds", async || {
        let reply = to_killed.post("/v1/check", r#"{"rule":"jobs"}"#).await.unwrap().json();
        reply["degraded"] == false
    })
    .await;
    for _ in 0..3 {
        assert_eq!(permit(&mut to_killed).await["allowed"], true);
    }
    for web in [&mut to_killed, &mut to_other] {
        let reply = permit(web).await;
        assert_eq!((&reply["allowed"], &reply["degraded"]), (&Value::Bool(false), &Value::Bool(false)));
    }
    doomed.kill().await;
    // They expire with their time to live, and no more than the limit are available.
    let mut permits = Vec::new();
    wait_until("they are free again", async || {
        let reply = permit(&mut to_other).await;
        assert_eq!(reply["degraded"], false);
        permits.extend(reply["permit"].as_str().map(str::to_owned));
        permits.len() == 3
    })
    .await;
    assert_eq!(permit(&mut to_other).await["allowed"], false);
    for id in permits {
        assert_eq!(to_other.call("DELETE", &format!("/v1/permits/{id}"), &[], "").await.unwrap().status, 204);
    }
    assert_eq!(permit(&mut to_other).await["allowed"], true);
    drop(to_other);
    other.stop().await;
}

//! A server that is killed while it holds permits of the whole fleet.

use serde_json::Value;
use sluicegate_testkit::servers::RedisServer;

use crate::program::Program;
use crate::support::folder::Folder;
use crate::support::until;
use crate::support::web::Web;

async fn permit(web: &mut Web) -> Value {
    let answer = web.post("/v1/permits", r#"{"rule":"jobs","ttl":"1m"}"#).await.unwrap();
    assert!([200, 201].contains(&answer.status), "{answer:?}");
    answer.json()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_permits_of_a_killed_server_come_back() {
    let redis = RedisServer::start().unwrap();
    let rules = format!(
        "store: {{ url: \"{}\", deadline: 10s, permit_ttl: 2s }}\nserver: {{ http: 127.0.0.1:0, threads: 1 }}\n\
         rules: [{{ name: jobs, match: service jobs, limits: [{{ concurrency: 3 }}], scope: cluster }}]\n",
        redis.url()
    );
    let (mut doomed, mut other) =
        (Program::start(Folder::new(), &rules).await, Program::start(Folder::new(), &rules).await);
    let mut of_doomed = Web::to(&doomed.place("HTTP")).await.unwrap();
    let mut of_other = Web::to(&other.place("HTTP")).await.unwrap();
    until("the store answers", async || {
        let said = of_doomed.post("/v1/check", r#"{"rule":"jobs"}"#).await.unwrap().json();
        said["degraded"] == false
    })
    .await;
    for _ in 0..3 {
        assert_eq!(permit(&mut of_doomed).await["allowed"], true);
    }
    for web in [&mut of_doomed, &mut of_other] {
        let said = permit(web).await;
        assert_eq!((&said["allowed"], &said["degraded"]), (&Value::Bool(false), &Value::Bool(false)));
    }
    doomed.kill().await;
    // They come back with their time to live, and no more of them than there are.
    let mut held = Vec::new();
    until("they are free again", async || {
        let said = permit(&mut of_other).await;
        assert_eq!(said["degraded"], false);
        held.extend(said["permit"].as_str().map(str::to_owned));
        held.len() == 3
    })
    .await;
    assert_eq!(permit(&mut of_other).await["allowed"], false);
    for id in held {
        assert_eq!(of_other.call("DELETE", &format!("/v1/permits/{id}"), &[], "").await.unwrap().status, 204);
    }
    assert_eq!(permit(&mut of_other).await["allowed"], true);
    drop(of_other);
    other.stop().await;
}

//! With a store: what is added holds for all, and what is lost is told.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use sluicegate_engine::rule;
use sluicegate_testkit::servers::RedisServer;

use super::described::assert_fits;
use super::metrics::prometheus_approves;
use super::{WRITE, call};
use crate::http::Api;
use crate::keeper::{Keeper, Origin, Start};
use crate::metrics::checker::read;
use crate::metrics::{self, Format};
use crate::tokens::Tokens;
use crate::{Sources, store_name};

/// A process of the fleet.
struct Node {
    api: Api,
    sources: Sources,
}

impl Node {
    fn new(url: &str, tokens: &Tokens) -> Self {
        let text = format!(
            "store: {{ url: {url}, deadline: 5s, nodes: 4 }}\nrules:\n  - {{ name: all, limits: [400/1m], scope: \
             cluster }}\n  - {{ name: own, limits: [7/1m] }}\n  - {{ name: leased, match: GET /leased, limits: [100000/1h], \
             scope: cluster, cluster: {{ mode: lease }} }}\n"
        );
        let settings = sluicegate_config::parse("rules.yaml", &text).unwrap().settings;
        let sluice = sluicegate::resume(settings.clone(), None).unwrap();
        let sluicegate_config::settings::Store::Redis(store) = &settings.store else { panic!("a Redis") };
        let name = store_name(store);
        let start = Start { sluice: sluice.clone(), origin: Origin::BuiltIn, text, settings, beside: Box::new(()) };
        let sources = Sources { store: Some(name), ..Sources::new(sluice, Keeper::new(start)) };
        Self { api: Api::new(sources.clone(), Some(tokens.clone())), sources }
    }

    async fn ask(&self, method: &str, path: &str, body: Option<&str>) -> (u16, Value) {
        let request: http::Request<Full<Bytes>> = call(method, path, Some(WRITE), body);
        let answer = self.api.answer(request, "127.0.0.1:1".parse().unwrap()).await;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    }

    /// Asks until the answer is as wanted.
    async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let (_, answer) = self.ask("GET", path, None).await;
            if wanted(&answer) {
                return answer;
            }
            assert!(Instant::now() < end, "{path}: {answer}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_process_adds_holds_for_all_and_a_lost_store_is_told() {
    let server = RedisServer::start().unwrap();
    let file = std::env::temp_dir().join(format!("sluicegate-admin-fleet-{}", std::process::id()));
    std::fs::write(&file, super::TOKENS).unwrap();
    let tokens = Tokens::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let [one, other] = [0, 1].map(|_| Node::new(&server.url(), &tokens));
    for node in [&one, &other] {
        let store = node.until("/v1/store", |store| store["state"] == "up" && store["nodes"] == 2).await;
        assert!(store["url"].as_str().unwrap().starts_with("redis://"), "{store}");
    }

    let (status, added) = one.ask("POST", "/v1/lists/deny", Some(r#"{"condition":"account=='m'","for":"1h"}"#)).await;
    assert_eq!((status, &added["source"]), (201, &json!("fleet")));
    let lists = other.until("/v1/lists", |lists| lists["deny"].as_array().unwrap().len() == 1).await;
    assert_eq!(lists["deny"][0], json!({"condition": added["condition"], "source": "fleet", "expires_in_s": null}));
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("condition", "account  ==  'm'").finish();
    let (_, removed) = other.ask("DELETE", &format!("/v1/lists/deny?{query}"), None).await;
    assert_eq!(removed, json!({"removed": true}));
    one.until("/v1/lists", |lists| lists["deny"].as_array().unwrap().is_empty()).await;

    let (status, problem) = one.ask("GET", "/v1/keys?rule=all", None).await;
    assert_eq!((status, &problem["type"]), (409, &json!("urn:sluicegate:conflict")));
    let (_, limits) = one.ask("GET", "/v1/limits", None).await;
    assert_eq!(
        (&limits["rules"][0]["degraded"], &limits["rules"][0]["limits"][0]["amount"]),
        (&json!(false), &json!(400))
    );
    let text = metrics::text(&one.sources, Format::OpenMetrics);
    let exposed = read(&text, Format::OpenMetrics).unwrap();
    assert_eq!(exposed["sluicegate_store_up"].samples[0].value, 1.0);
    assert!(exposed["sluicegate_store_failures"].samples.iter().any(|it| it.labels["reason"] == "unreachable"));

    let request = rule::Request::new("GET", "/leased");
    let end = Instant::now() + Duration::from_secs(30);
    let store = loop {
        // Few enough that the limit lasts for as long as this is tried: of what is used up nothing is leased.
        (0..20).for_each(|_| drop(one.sources.sluice.decide_named("leased", &request)));
        let (_, store) = one.ask("GET", "/v1/store", None).await;
        if store["leases"]["keys"] == 1 {
            break store;
        }
        assert!(Instant::now() < end, "{store}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_fits(&json!({"$ref": "#/components/schemas/Store"}), &store);
    assert!(
        store["leases"]["tokens"].as_u64().unwrap() > 0 && store["leases"]["taken"].as_u64().unwrap() > 0,
        "{store}"
    );
    let exposed = read(&metrics::text(&one.sources, Format::OpenMetrics), Format::OpenMetrics).unwrap();
    prometheus_approves(&metrics::text(&one.sources, Format::Prometheus));
    let value = |family: &str| exposed[family].samples[0].value;
    assert!(value("sluicegate_leases_taken") > 0.0);
    for family in ["leases", "lease_tokens", "leases_renewed", "leases_returned", "leases_expired"] {
        let [sample] = &exposed[&format!("sluicegate_{family}")].samples[..] else { panic!("{family}: several") };
        assert!(sample.labels.is_empty(), "{family}");
    }
    let store = one.until("/v1/store", |store| store["leases"]["keys"] == 0).await;
    assert_eq!(store["leases"]["tokens"], 0);

    drop(server);
    let lost = one.until("/v1/limits", |limits| limits["rules"][0]["degraded"] == true).await;
    let (all, own) = (&lost["rules"][0], &lost["rules"][1]);
    assert_eq!((&all["share_of_nodes"], &all["limits"][0]["amount"]), (&json!(2), &json!(200)));
    assert_eq!((&own["degraded"], &own["limits"][0]["amount"]), (&json!(false), &json!(7)));
    let (_, status) = one.ask("GET", "/v1/status", None).await;
    assert_eq!(status["store"]["state"], "degraded");
    assert!(status["store"]["last_error"].is_string());
}

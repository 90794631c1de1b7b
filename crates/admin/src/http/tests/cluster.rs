//! With a store: added entries are shared, and an unavailable store is reported.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use sluicegate_engine::rule;
use sluicegate_testkit::servers::RedisServer;

use super::metrics::assert_promtool_accepts;
use super::openapi::assert_matches_schema;
use super::{WRITE, call};
use crate::http::Api;
use crate::metrics::exposition_parser::parse;
use crate::metrics::{self, Format};
use crate::reload::{InitialRules, RuleManager, RulesOrigin};
use crate::tokens::Tokens;
use crate::{Providers, store_display_name};

/// One process of the cluster.
struct Node {
    api: Api,
    sources: Providers,
}

impl Node {
    fn new(url: &str, tokens: &Tokens) -> Self {
        let text = format!(
            "store: {{ url: {url}, timeout: 5s, expected_nodes: 4 }}\nrules:\n  - {{ name: all, limits: [400/1m], scope: \
             cluster }}\n  - {{ name: own, limits: [7/1m] }}\n  - {{ name: leased, match: GET /leased, limits: [100000/1h], \
             scope: cluster, cluster: {{ mode: lease }} }}\n"
        );
        let settings = sluicegate_config::parse("rules.yaml", &text).unwrap().settings;
        let sluice = sluicegate::resume(settings.clone(), None).unwrap();
        let sluicegate_config::settings::Store::Redis(store) = &settings.store else { panic!("a Redis") };
        let name = store_display_name(store);
        let start = InitialRules {
            sluice: sluice.clone(),
            origin: RulesOrigin::BuiltIn,
            text,
            settings,
            side_files: Box::new(()),
        };
        let sources = Providers { store: Some(name), ..Providers::new(sluice, RuleManager::new(start)) };
        Self { api: Api::new(sources.clone(), Some(tokens.clone())), sources }
    }

    async fn call(&self, method: &str, path: &str, body: Option<&str>) -> (u16, Value) {
        let request: http::Request<Full<Bytes>> = call(method, path, Some(WRITE), body);
        let response = self.api.handle(request, "127.0.0.1:1".parse().unwrap()).await;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    }

    /// Calls until the response is as wanted.
    async fn poll_until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let (_, body) = self.call("GET", path, None).await;
            if wanted(&body) {
                return body;
            }
            assert!(Instant::now() < end, "{path}: {body}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_are_shared_and_an_unavailable_store_is_reported() {
    let server = RedisServer::start().unwrap();
    let file = std::env::temp_dir().join(format!("sluicegate-admin-cluster-{}", std::process::id()));
    std::fs::write(&file, super::TOKENS).unwrap();
    let tokens = Tokens::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let [one, other] = [0, 1].map(|_| Node::new(&server.url(), &tokens));
    for node in [&one, &other] {
        let store = node.poll_until("/v1/store", |store| store["state"] == "up" && store["nodes"] == 2).await;
        assert!(store["url"].as_str().unwrap().starts_with("redis://"), "{store}");
    }

    let (status, added) = one.call("POST", "/v1/lists/deny", Some(r#"{"condition":"account=='m'","for":"1h"}"#)).await;
    assert_eq!((status, &added["source"]), (201, &json!("cluster")));
    let lists = other.poll_until("/v1/lists", |lists| lists["deny"].as_array().unwrap().len() == 1).await;
    assert_eq!(lists["deny"][0], json!({"condition": added["condition"], "source": "cluster", "expires_in_s": null}));
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("condition", "account  ==  'm'").finish();
    let (_, removed) = other.call("DELETE", &format!("/v1/lists/deny?{query}"), None).await;
    assert_eq!(removed, json!({"removed": true}));
    one.poll_until("/v1/lists", |lists| lists["deny"].as_array().unwrap().is_empty()).await;

    let (status, problem) = one.call("GET", "/v1/keys?rule=all", None).await;
    assert_eq!((status, &problem["type"]), (409, &json!("urn:sluicegate:conflict")));
    let (_, limits) = one.call("GET", "/v1/limits", None).await;
    assert_eq!(
        (&limits["rules"][0]["degraded"], &limits["rules"][0]["limits"][0]["amount"]),
        (&json!(false), &json!(400))
    );
    let text = metrics::text(&one.sources, Format::OpenMetrics);
    let exposed = parse(&text, Format::OpenMetrics).unwrap();
    assert_eq!(exposed["sluicegate_store_up"].samples[0].value, 1.0);
    assert!(exposed["sluicegate_store_failures"].samples.iter().any(|it| it.labels["reason"] == "unreachable"));

    let request = rule::Request::new("GET", "/leased");
    let end = Instant::now() + Duration::from_secs(30);
    let store = loop {
        // Few enough that the limit is not exhausted during the test: an exhausted limit leases nothing.
        (0..20).for_each(|_| drop(one.sources.sluice.rule("leased").map(|rule| rule.decide(&request))));
        let (_, store) = one.call("GET", "/v1/store", None).await;
        if store["leases"]["keys"] == 1 {
            break store;
        }
        assert!(Instant::now() < end, "{store}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_matches_schema(&json!({"$ref": "#/components/schemas/Store"}), &store);
    assert!(
        store["leases"]["tokens"].as_u64().unwrap() > 0 && store["leases"]["acquired"].as_u64().unwrap() > 0,
        "{store}"
    );
    let exposed = parse(&metrics::text(&one.sources, Format::OpenMetrics), Format::OpenMetrics).unwrap();
    assert_promtool_accepts(&metrics::text(&one.sources, Format::Prometheus));
    let value = |family: &str| exposed[family].samples[0].value;
    assert!(value("sluicegate_leases_acquired") > 0.0);
    for family in ["leases", "lease_tokens", "leases_renewed", "leases_returned", "leases_expired"] {
        let [sample] = &exposed[&format!("sluicegate_{family}")].samples[..] else { panic!("{family}: several") };
        assert!(sample.labels.is_empty(), "{family}");
    }
    let store = one.poll_until("/v1/store", |store| store["leases"]["keys"] == 0).await;
    assert_eq!(store["leases"]["tokens"], 0);

    drop(server);
    let degraded = one.poll_until("/v1/limits", |limits| limits["rules"][0]["degraded"] == true).await;
    let (shared, local) = (&degraded["rules"][0], &degraded["rules"][1]);
    assert_eq!((&shared["share_of_nodes"], &shared["limits"][0]["amount"]), (&json!(2), &json!(200)));
    assert_eq!((&local["degraded"], &local["limits"][0]["amount"]), (&json!(false), &json!(7)));
    let (_, status) = one.call("GET", "/v1/status", None).await;
    assert_eq!(status["store"]["state"], "degraded");
    assert!(status["store"]["last_error"].is_string());
}

//! Client certificates, and reload of server certificates.

use std::sync::Arc;

use sluicegate_net::Shutdown;
use tokio_rustls::rustls::{ALL_VERSIONS, ClientConfig};

use crate::support::decision_server::TestDecisionServer;
use crate::support::endpoint::TestEndpoint;
use crate::support::http_client::TestHttpClient;
use crate::support::resp::TestRespClient;
use crate::support::rls::TestRlsClient;
use crate::support::temp_dir::TempDir;
use crate::support::test_certs;

/// Protocols that accept a client, in the order RLS, HTTP, RESP.
async fn accepted_protocols(served: &TestDecisionServer, client: &Arc<ClientConfig>) -> [bool; 3] {
    let at = served.addresses();
    let endpoints = [at[0], at[1], at[2]].map(|at| TestEndpoint::Tls(at, client.clone()));
    let rls = match TestRlsClient::connect(&endpoints[0]).await {
        Ok(mut rls) => rls.check("edge", &[("a", "b")]).await.is_ok(),
        Err(_) => false,
    };
    let http = match TestHttpClient::connect(&endpoints[1]).await {
        Ok(mut web) => web.get("/healthz").await.is_ok(),
        Err(_) => false,
    };
    let resp = match TestRespClient::connect(&endpoints[2]).await {
        Ok(mut resp) => resp.call(&["PING"]).await.is_ok(),
        Err(_) => false,
    };
    [rls, http, resp]
}

fn rules(extra_tls: &str) -> String {
    let tls = format!("{{ address: \"127.0.0.1:0\", tls: {{ certificate: server.pem, key: server.key{extra_tls} }} }}");
    format!("server: {{ rls: {tls}, http: {tls}, resp: {tls} }}\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_client_certificates_of_the_trusted_ca_are_accepted() {
    let dir = TempDir::new();
    for authority in ["ca", "other"] {
        test_certs::create_ca(dir.path(), authority);
    }
    test_certs::create_signed(dir.path(), "server", "ca");
    test_certs::create_signed(dir.path(), "friend", "ca");
    test_certs::create_signed(dir.path(), "stranger", "other");
    let served = TestDecisionServer::start(&dir, &rules(", client_ca: ca.pem"));
    for version in ALL_VERSIONS {
        let client = |certificate| test_certs::client_config(dir.path(), "ca", certificate, &[version]);
        assert_eq!(accepted_protocols(&served, &client(Some("friend"))).await, [true; 3], "{version:?}");
        assert_eq!(accepted_protocols(&served, &client(None)).await, [false; 3], "{version:?}");
        assert_eq!(accepted_protocols(&served, &client(Some("stranger"))).await, [false; 3], "{version:?}");
    }
    // The client also rejects a server certificate of an untrusted CA.
    let untrusting = test_certs::client_config(dir.path(), "other", Some("friend"), ALL_VERSIONS);
    assert_eq!(accepted_protocols(&served, &untrusting).await, [false; 3]);
    served.stop(Shutdown::Close).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_reloaded_and_invalid_ones_ignored() {
    let dir = TempDir::new();
    for authority in ["old", "new"] {
        test_certs::create_ca(dir.path(), authority);
        test_certs::create_signed(dir.path(), &format!("by-{authority}"), authority);
    }
    test_certs::replace_pair(dir.path(), "server", "by-old");
    let served = TestDecisionServer::start(&dir, &rules(""));
    let client = |trusts| test_certs::client_config(dir.path(), trusts, None, ALL_VERSIONS);
    let (old, new) = (client("old"), client("new"));
    assert_eq!(accepted_protocols(&served, &old).await, [true; 3]);
    let endpoint = TestEndpoint::Tls(served.addresses()[2], old.clone());
    let mut open_client = TestRespClient::connect(&endpoint).await.unwrap();
    dir.write("server.pem", "no certificate");
    assert_eq!(served.running.reload_certificates().await.len(), 3, "each protocol reports an error");
    assert_eq!(accepted_protocols(&served, &old).await, [true; 3]);
    test_certs::replace_pair(dir.path(), "server", "by-new");
    assert!(served.running.reload_certificates().await.is_empty());
    assert_eq!(accepted_protocols(&served, &new).await, [true; 3]);
    assert_eq!(accepted_protocols(&served, &old).await, [false; 3]);
    // Open connections continue with the old certificate.
    assert!(open_client.call(&["PING"]).await.is_ok());
    // Changed files are also detected without an explicit reload.
    test_certs::replace_pair(dir.path(), "server", "by-old");
    crate::support::wait_until("the changed certificate is loaded", async || {
        accepted_protocols(&served, &old).await == [true; 3]
    })
    .await;
    assert!(served.messages.lock().unwrap().iter().any(|line| line.contains("certificate reloaded")));
    served.stop(Shutdown::Close).await;
}

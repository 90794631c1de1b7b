//! Certificates of clients, and new ones of the server's.

use std::sync::Arc;

use sluicegate_listen::Stop;
use tokio_rustls::rustls::{ALL_VERSIONS, ClientConfig};

use crate::support::folder::Folder;
use crate::support::made;
use crate::support::place::Place;
use crate::support::resp::Resp;
use crate::support::rls::Rls;
use crate::support::served::Served;
use crate::support::web::Web;

/// Which of the protocols answer a client.
async fn answered(served: &Served, client: &Arc<ClientConfig>) -> [bool; 3] {
    let at = served.addresses();
    let places = [at[0], at[1], at[2]].map(|at| Place::Tls(at, client.clone()));
    let rls = match Rls::to(&places[0]).await {
        Ok(mut rls) => rls.ask("edge", &[("a", "b")]).await.is_ok(),
        Err(_) => false,
    };
    let http = match Web::to(&places[1]).await {
        Ok(mut web) => web.get("/healthz").await.is_ok(),
        Err(_) => false,
    };
    let resp = match Resp::to(&places[2]).await {
        Ok(mut resp) => resp.ask(&["PING"]).await.is_ok(),
        Err(_) => false,
    };
    [rls, http, resp]
}

fn rules(more: &str) -> String {
    let tls = format!("{{ address: \"127.0.0.1:0\", tls: {{ certificate: server.pem, key: server.key{more} }} }}");
    format!("server: {{ rls: {tls}, http: {tls}, resp: {tls} }}\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_clients_of_the_right_authority_are_let_in() {
    let folder = Folder::new();
    for authority in ["ca", "other"] {
        made::authority(folder.path(), authority);
    }
    made::signed(folder.path(), "server", "ca");
    made::signed(folder.path(), "friend", "ca");
    made::signed(folder.path(), "stranger", "other");
    let served = Served::start(&folder, &rules(", client_ca: ca.pem"));
    for version in ALL_VERSIONS {
        let client = |shows| made::client(folder.path(), "ca", shows, &[version]);
        assert_eq!(answered(&served, &client(Some("friend"))).await, [true; 3], "{version:?}");
        assert_eq!(answered(&served, &client(None)).await, [false; 3], "{version:?}");
        assert_eq!(answered(&served, &client(Some("stranger"))).await, [false; 3], "{version:?}");
    }
    // Nor does the client trust whoever another authority vouches for.
    let wary = made::client(folder.path(), "other", Some("friend"), ALL_VERSIONS);
    assert_eq!(answered(&served, &wary).await, [false; 3]);
    served.stop(Stop::Close).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_certificates_are_taken_up_and_bad_ones_are_not() {
    let folder = Folder::new();
    for authority in ["old", "new"] {
        made::authority(folder.path(), authority);
        made::signed(folder.path(), &format!("by-{authority}"), authority);
    }
    made::replace(folder.path(), "server", "by-old");
    let served = Served::start(&folder, &rules(""));
    let client = |trusts| made::client(folder.path(), trusts, None, ALL_VERSIONS);
    let (old, new) = (client("old"), client("new"));
    assert_eq!(answered(&served, &old).await, [true; 3]);
    let kept = Place::Tls(served.addresses()[2], old.clone());
    let mut kept = Resp::to(&kept).await.unwrap();
    folder.write("server.pem", "no certificate");
    assert_eq!(served.running.reload_certificates().await.len(), 3, "each protocol tells of it");
    assert_eq!(answered(&served, &old).await, [true; 3]);
    made::replace(folder.path(), "server", "by-new");
    assert!(served.running.reload_certificates().await.is_empty());
    assert_eq!(answered(&served, &new).await, [true; 3]);
    assert_eq!(answered(&served, &old).await, [false; 3]);
    // Who is in stays in.
    assert!(kept.ask(&["PING"]).await.is_ok());
    // Without being told, it looks by itself.
    made::replace(folder.path(), "server", "by-old");
    crate::support::until("it is read when it changes", async || answered(&served, &old).await == [true; 3]).await;
    assert!(served.told.lock().unwrap().iter().any(|line| line.contains("was renewed")));
    served.stop(Stop::Close).await;
}

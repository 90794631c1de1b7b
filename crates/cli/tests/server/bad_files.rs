//! Files that are not as they should be: it is said which and why, and nobody is served.

use std::net::TcpListener;

use crate::program::refused;
use crate::support::folder::Folder;

/// What the program says to this rule file; it must listen nowhere then.
async fn said(folder: &Folder, server: &str) -> String {
    let place = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let log = refused(folder, &server.replace("PLACE", &place.to_string())).await;
    TcpListener::bind(place).expect("nobody listens there");
    log
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_is_told_with_its_remedy() {
    let folder = Folder::new();
    folder.write("short.txt", "secret\n");
    folder.write("empty.pem", "");
    folder.write("bad/limits.yaml", "domain: edge\ndescriptors: [{ kee: a }]\n");
    folder.write("none/readme.txt", "no rules");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let cases = [
        ("server: {}", "`server` serves nothing"),
        ("server: { threads: 2, ratelimit: none }", "none"),
        ("server: { http: { address: PLACE, secret: missing.txt } }", "missing.txt"),
        ("server: { http: { address: PLACE, secret: short.txt } }", "has 6 bytes; give it 8 or more"),
        ("server: { resp: { address: PLACE, secret: bad } }", "cannot read the secret"),
        ("server: { rls: { address: PLACE, tls: { certificate: c.pem, key: k.pem } } }", "c.pem"),
        ("server: { rls: { address: PLACE, tls: { certificate: empty.pem, key: empty.pem } } }", "empty.pem"),
        ("server: { http: PLACE, resp: TAKEN }", "somebody else does"),
        ("server: { http: PLACE, resp: PLACE }", "PLACE"),
        ("server: { rls: PLACE, ratelimit: bad }", "limits.yaml"),
        ("server: { rls: PLACE, ratelimit: none }", "none"),
        ("server: { rls: PLACE, ratelimit: nowhere }", "nowhere"),
        ("server: { http: { secret: short.txt } }", "address"),
        ("server: { http: nonsense }", "nonsense"),
        ("server: { htp: PLACE }", "http"),
    ];
    for (server, expected) in cases {
        let log = said(&folder, &server.replace("TAKEN", &at)).await;
        let expected = expected.replace("PLACE", "127.0.0.1:");
        assert!(log.contains(&expected), "{server}: {log}");
    }
}

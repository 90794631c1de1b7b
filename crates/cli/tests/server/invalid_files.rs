//! Invalid files: the error names the file and the reason, and the program does not serve.

use std::net::TcpListener;

use super::program::startup_failure;
use super::support::temp_dir::TempDir;

/// Error output for this rule file; the program must not listen.
async fn startup_error(folder: &TempDir, server: &str) -> String {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let log = startup_failure(folder, &server.replace("ADDRESS", &address.to_string())).await;
    TcpListener::bind(address).expect("the address is free");
    log
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_error_names_its_remedy() {
    let folder = TempDir::new();
    folder.write("short.txt", "secret\n");
    folder.write("empty.pem", "");
    folder.write("invalid/limits.yaml", "domain: edge\ndescriptors: [{ kee: a }]\n");
    folder.write("none/readme.txt", "no rules");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let cases = [
        ("server: {}", "`server` has no service"),
        ("server: { threads: 2, ratelimit_dir: none }", "none"),
        ("server: { http: { address: ADDRESS, secret_file: missing.txt } }", "missing.txt"),
        ("server: { http: { address: ADDRESS, secret_file: short.txt } }", "has 6 bytes; the minimum is 8"),
        ("server: { resp: { address: ADDRESS, secret_file: invalid } }", "cannot read the secret"),
        ("server: { rls: { address: ADDRESS, tls: { certificate: c.pem, key: k.pem } } }", "c.pem"),
        ("server: { rls: { address: ADDRESS, tls: { certificate: empty.pem, key: empty.pem } } }", "empty.pem"),
        ("server: { http: ADDRESS, resp: TAKEN }", "already in use"),
        ("server: { http: ADDRESS, resp: ADDRESS }", "ADDRESS"),
        ("server: { rls: ADDRESS, ratelimit_dir: invalid }", "limits.yaml"),
        ("server: { rls: ADDRESS, ratelimit_dir: none }", "none"),
        ("server: { rls: ADDRESS, ratelimit_dir: missing }", "missing"),
        ("server: { http: { secret_file: short.txt } }", "address"),
        ("server: { http: nonsense }", "nonsense"),
        ("server: { htp: ADDRESS }", "http"),
    ];
    for (server, expected) in cases {
        let log = startup_error(&folder, &server.replace("TAKEN", &at)).await;
        let expected = expected.replace("ADDRESS", "127.0.0.1:");
        assert!(log.contains(&expected), "{server}: {log}");
    }
}

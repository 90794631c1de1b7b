//! Parts of an Envoy configuration in `docs/envoy.md`: each is put into the example's file and used by a real
//! Envoy with a decision server that requires it.
//!
//! Envoy admits requests if the call fails, so a refusal proves that the part works.

use std::fs;

use super::page::{PageStep, blocks, read};
use super::session::Session;

const PAGE: &str = "docs/envoy.md";
const SECRET: &str = "open-sesame-0123456789abcdef";

/// The block of the page that begins so, indented.
fn indented_block(begin: &str, indent: usize) -> String {
    let blocks = blocks(&read(PAGE));
    let block = blocks.iter().find(|block| block.kind == "yml" && block.text.starts_with(begin));
    let text = &block.unwrap_or_else(|| panic!("{PAGE} does not show {begin}")).text;
    text.lines().map(|line| format!("{:indent$}{line}\n", "")).collect()
}

/// Starts a server with this `rls` setting and an Envoy with this change; asserts that its calls succeed.
fn assert_envoy_accepts(rls: &str, prepare: impl FnOnce(&Session), change: impl FnOnce(String, &Session) -> String) {
    let mut session = Session::begin();
    session.start_reader_programs();
    prepare(&session);
    let place = session.folder().display().to_string();
    let rules = format!(
        "server: {{ rls: {} }}\nrules:\n  - {{ name: per-path, direction: descriptor, key: \"descriptor['path']\", limits: [3/1h] }}\n",
        rls.replace("HERE", &place)
    );
    let example = read("examples/envoy/envoy.yaml");
    let changed = change(example.clone(), &session);
    assert_ne!(changed, example, "nothing was changed");
    let step = PageStep {
        stops: false,
        files: vec![("rules.yaml".to_owned(), rules), ("envoy.yaml".to_owned(), changed)],
        commands: vec!["sluicegate run rules.yaml".to_owned(), "envoy --config-path envoy.yaml".to_owned()],
        outputs: Vec::new(),
        line: 0,
    };
    session.run_step(&step);
    session.wait_for_output("curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:10000/a", "429");
}

#[test]
fn a_secret_goes_into_the_metadata() {
    let secret = |session: &Session| fs::write(session.folder().join("secret"), SECRET).unwrap();
    assert_envoy_accepts("{ address: 127.0.0.1:8081, secret_file: secret }", secret, |file, _| {
        let line = "                grpc_service: {envoy_grpc: {cluster_name: ratelimit}}\n";
        file.replace(line, &indented_block("grpc_service:", 16).replace("SECRET", SECRET))
    });
}

#[test]
fn certificates_go_into_the_cluster() {
    let tls = "{ certificate: server.pem, key: server.key, client_ca: ca.pem }";
    let certificates = |session: &Session| session.run_all(CERTIFICATES);
    assert_envoy_accepts(&format!("{{ address: 127.0.0.1:8081, tls: {tls} }}"), certificates, |file, _| {
        file.trim_end().to_owned() + "\n" + &indented_block("transport_socket:", 4)
    });
}

/// Commands that create an authority and two certificates.
pub(crate) const CERTIFICATES: &str = "
new='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
openssl req -x509 -days 2 -subj /CN=Tests -keyout ca.key -out ca.pem $new
for who in server client; do
    openssl req -subj /CN=localhost -keyout $who.key -out $who.csr $new
    openssl x509 -req -days 2 -in $who.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out $who.pem \\
        -extfile <(printf 'subjectAltName=IP:127.0.0.1,DNS:localhost\\nbasicConstraints=CA:FALSE\\n')
done";

#[test]
fn a_unix_socket_replaces_the_address() {
    assert_envoy_accepts(
        "{ unix: HERE/rls.sock }",
        |_| (),
        |file, session| {
            let socket = session.folder().join("rls.sock").display().to_string();
            let pipe = indented_block("endpoints: [{lb_endpoints: [{endpoint: {address: {pipe", 6);
            let last = file.trim_end().rfind('\n').unwrap() + 1;
            file[..last].to_owned() + &pipe.replace("/run/sluicegate/rls.sock", &socket)
        },
    );
}

//! What `docs/envoy.md` shows of Envoy's file beside the example: put into the example's file one at a time, for a real
//! Envoy that asks a decision server which wants just that.
//!
//! Envoy lets requests pass when it cannot ask, so a refusal says that it was understood.

use std::fs;

use crate::page::{Step, blocks, read};
use crate::session::Session;

const PAGE: &str = "docs/envoy.md";
const SECRET: &str = "open-sesame-0123456789abcdef";

/// The block of the page that begins so, indented by so much.
fn part(begin: &str, indent: usize) -> String {
    let blocks = blocks(&read(PAGE));
    let block = blocks.iter().find(|block| block.kind == "yml" && block.text.starts_with(begin));
    let text = &block.unwrap_or_else(|| panic!("{PAGE} does not show {begin}")).text;
    text.lines().map(|line| format!("{:indent$}{line}\n", "")).collect()
}

/// A server whose `rls` is this, and an Envoy whose file was changed so: what it asks is understood.
fn is_understood(rls: &str, prepare: impl FnOnce(&Session), change: impl FnOnce(String, &Session) -> String) {
    let mut session = Session::begin();
    session.start_programs();
    prepare(&session);
    let place = session.folder().display().to_string();
    let rules = format!(
        "server: {{ rls: {} }}\nrules:\n  - {{ name: per-path, side: descriptor, key: \"descriptor['path']\", limits: [3/1h] }}\n",
        rls.replace("HERE", &place)
    );
    let example = read("examples/envoy/envoy.yaml");
    let changed = change(example.clone(), &session);
    assert_ne!(changed, example, "nothing was changed");
    let step = Step {
        stops: false,
        files: vec![("rules.yaml".to_owned(), rules), ("envoy.yaml".to_owned(), changed)],
        commands: vec!["sluicegate run rules.yaml".to_owned(), "envoy --config-path envoy.yaml".to_owned()],
        answers: Vec::new(),
        line: 0,
    };
    session.follow(&step);
    session.until_answered("curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:10000/a", "429");
}

#[test]
fn a_secret_goes_into_the_metadata() {
    let secret = |session: &Session| fs::write(session.folder().join("secret"), SECRET).unwrap();
    is_understood("{ address: 127.0.0.1:8081, secret: secret }", secret, |file, _| {
        let line = "                grpc_service: {envoy_grpc: {cluster_name: ratelimit}}\n";
        file.replace(line, &part("grpc_service:", 16).replace("SECRET", SECRET))
    });
}

#[test]
fn certificates_go_into_the_cluster() {
    let tls = "{ certificate: server.pem, key: server.key, client_ca: ca.pem }";
    let certificates = |session: &Session| session.run_all(CERTIFICATES);
    is_understood(&format!("{{ address: 127.0.0.1:8081, tls: {tls} }}"), certificates, |file, _| {
        file.trim_end().to_owned() + "\n" + &part("transport_socket:", 4)
    });
}

/// An authority, and two certificates by it.
pub(crate) const CERTIFICATES: &str = "
new='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
openssl req -x509 -days 2 -subj /CN=Tests -keyout ca.key -out ca.pem $new
for who in server client; do
    openssl req -subj /CN=localhost -keyout $who.key -out $who.csr $new
    openssl x509 -req -days 2 -in $who.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out $who.pem \\
        -extfile <(printf 'subjectAltName=IP:127.0.0.1,DNS:localhost\\nbasicConstraints=CA:FALSE\\n')
done";

#[test]
fn a_unix_socket_takes_the_place_of_the_address() {
    is_understood(
        "{ unix: HERE/rls.sock }",
        |_| (),
        |file, session| {
            let socket = session.folder().join("rls.sock").display().to_string();
            let pipe = part("endpoints: [{lb_endpoints: [{endpoint: {address: {pipe", 6);
            let last = file.trim_end().rfind('\n').unwrap() + 1;
            file[..last].to_owned() + &pipe.replace("/run/sluicegate/rls.sock", &socket)
        },
    );
}

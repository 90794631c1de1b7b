//! Certificate reload while connections arrive.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use super::program::{Program, rules_with_tls, wait_until};
use super::protocols::{HttpTransport, HyperLoad};
use super::upstream::Upstream;

/// Creates a certificate for this name, signed by `ca.pem`, and installs it key first, as renewal tools do.
pub(crate) fn write_certificate(folder: &Path, name: &str) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    if !folder.join("ca.pem").exists() {
        openssl(folder, &format!("req -x509 -days 2 -subj /CN=Tests -keyout ca.key -out ca.pem {key}"));
    }
    fs::write(folder.join("names"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n").unwrap();
    openssl(folder, &format!("req -subj /CN={name} -keyout {name}.key -out {name}.csr {key}"));
    let by = "-CA ca.pem -CAkey ca.key -CAcreateserial -extfile names";
    openssl(folder, &format!("x509 -req -days 2 -in {name}.csr {by} -out {name}.pem"));
    fs::rename(folder.join(format!("{name}.key")), folder.join("key.pem")).unwrap();
    fs::rename(folder.join(format!("{name}.pem")), folder.join("cert.pem")).unwrap();
}

fn openssl(folder: &Path, words: &str) {
    let made = Command::new("openssl").args(words.split_whitespace()).current_dir(folder).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Subject of the certificate that clients see.
pub(crate) fn served_certificate(at: SocketAddr) -> String {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &at.to_string(), "-servername", "localhost"]).stdin(Stdio::null());
    let output = String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned();
    let subject = output.lines().find(|line| line.starts_with("subject=")).unwrap_or_default();
    subject.rsplit('=').next().unwrap_or_default().trim().to_owned()
}

#[test]
fn certificates_reload_on_sighup_and_on_change() {
    let upstream = Upstream::start();
    let program = Program::start("tls", &rules_with_tls(&upstream, ""), |folder| write_certificate(folder, "one"));
    assert_eq!(served_certificate(program.at), "one");
    // An invalid certificate changes nothing.
    let valid = fs::read(program.folder.join("cert.pem")).unwrap();
    fs::write(program.folder.join("cert.pem"), "no certificate").unwrap();
    program.signal("HUP");
    wait_until("the error is logged", || program.log().contains("certificate not reloaded"));
    assert_eq!(served_certificate(program.at), "one");
    fs::write(program.folder.join("cert.pem"), valid).unwrap();
    write_certificate(&program.folder, "two");
    program.signal("HUP");
    wait_until("it is reloaded on SIGHUP", || served_certificate(program.at) == "two");
    write_certificate(&program.folder, "three");
    wait_until("it is read when it changes", || served_certificate(program.at) == "three");
    assert!(program.log().contains("certificate reloaded"), "{}", program.log());
    program.signal("TERM");
}

/// Existing connections keep the old certificate, new ones get either; no connection is refused.
#[test]
fn no_request_is_lost_by_new_certificates_under_load() {
    let upstream = Upstream::start();
    let program =
        Program::start("renewals", &rules_with_tls(&upstream, ""), |folder| write_certificate(folder, "first"));
    let load = HyperLoad::on(
        &program,
        &[HttpTransport::Http1Tls, HttpTransport::Http2Tls, HttpTransport::Http1TlsOnce, HttpTransport::Http1TlsOnce],
    );
    load.wait_for_requests(20);
    for name in ["second", "third", "fourth"] {
        write_certificate(&program.folder, name);
        program.signal("HUP");
        wait_until("the new one is shown", || served_certificate(program.at) == name);
        load.wait_for_requests(20);
    }
    let (done, failed) = load.stop();
    assert!(failed.is_empty(), "of {done}: {failed:?}\n{}", program.log());
    program.signal("TERM");
}

//! Certificates that change while connections come in.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::program::{Program, rules_with_tls, until};
use crate::protocols::{Modern, Way};
use crate::upstream::Upstream;

/// Makes a certificate for this name, by the authority in `ca.pem`, and puts it in place key first, as those who renew
/// them do.
pub(crate) fn certify(folder: &Path, name: &str) {
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

/// For whom the certificate is that clients see.
pub(crate) fn certified(at: SocketAddr) -> String {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &at.to_string(), "-servername", "localhost"]).stdin(Stdio::null());
    let said = String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned();
    let subject = said.lines().find(|line| line.starts_with("subject=")).unwrap_or_default();
    subject.rsplit('=').next().unwrap_or_default().trim().to_owned()
}

#[test]
fn certificates_are_read_again_when_told_and_when_they_change() {
    let upstream = Upstream::start();
    let program = Program::start("tls", &rules_with_tls(&upstream, ""), |folder| certify(folder, "one"));
    assert_eq!(certified(program.at), "one");
    // A bad one changes nothing.
    let good = fs::read(program.folder.join("cert.pem")).unwrap();
    fs::write(program.folder.join("cert.pem"), "no certificate").unwrap();
    program.signal("HUP");
    until("it is told", || program.log().contains("a certificate stays as it was"));
    assert_eq!(certified(program.at), "one");
    fs::write(program.folder.join("cert.pem"), good).unwrap();
    certify(&program.folder, "two");
    program.signal("HUP");
    until("it is read when told", || certified(program.at) == "two");
    certify(&program.folder, "three");
    until("it is read when it changes", || certified(program.at) == "three");
    assert!(program.log().contains("the certificate was renewed"), "{}", program.log());
    program.signal("TERM");
}

/// Whoever is connected goes on by the old one, whoever comes gets either: nobody is turned away.
#[test]
fn no_request_is_lost_by_new_certificates_under_load() {
    let upstream = Upstream::start();
    let program = Program::start("renewals", &rules_with_tls(&upstream, ""), |folder| certify(folder, "first"));
    let load = Modern::on(&program, &[Way::Http1Tls, Way::Http2Tls, Way::Http1TlsOnce, Way::Http1TlsOnce]);
    load.go_on(20);
    for name in ["second", "third", "fourth"] {
        certify(&program.folder, name);
        program.signal("HUP");
        until("the new one is shown", || certified(program.at) == name);
        load.go_on(20);
    }
    let (done, failed) = load.end();
    assert!(failed.is_empty(), "of {done}: {failed:?}\n{}", program.log());
    program.signal("TERM");
}

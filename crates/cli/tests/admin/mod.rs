//! Admin listener of the built program: with TLS, and with an unavailable store.
#![cfg(unix)]

use crate::program;
mod store_unavailable;
mod tls;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use program::{Program, wait_until};

const TOKEN: &str = "a-token-for-tests-0123456789";

/// Starts a program with a decision server and an admin listener, these settings, and the files that `prepare`
/// writes.
fn started(text: &str, prepare: impl FnOnce(&Path)) -> Program {
    let text = format!("watch: false\nserver: {{ http: \"127.0.0.1:0\" }}\n{text}");
    let program = Program::start_with(&text, |folder| {
        fs::write(folder.join("tokens"), format!("ann {TOKEN}\n")).unwrap();
        prepare(folder);
    });
    wait_until("the dashboard is up", || program.log().contains("dashboard at "));
    program
}

/// Address of the admin listener.
fn admin(program: &Program) -> SocketAddr {
    let log = program.log();
    let address = log.split("dashboard at ").nth(1).and_then(|rest| rest.split('/').nth(2));
    address.unwrap_or_else(|| panic!("{log}")).parse().unwrap()
}

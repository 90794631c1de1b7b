//! The admin listener of the built program, with what surrounds it in real life: encryption, and a store that is away.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod away;
#[path = "../program/mod.rs"]
mod program;
mod tls;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use program::{Program, until};

const TOKEN: &str = "a-token-for-tests-0123456789";

/// A program with a decision server and an admin listener, set as this text says, and what `prepare` puts beside it.
fn started(text: &str, prepare: impl FnOnce(&Path)) -> Program {
    let text = format!("watch: false\nserver: {{ http: \"127.0.0.1:0\" }}\n{text}");
    let program = Program::start_with(&text, |folder| {
        fs::write(folder.join("tokens"), format!("ann {TOKEN}\n")).unwrap();
        prepare(folder);
    });
    until("the dashboard is there", || program.log().contains("dashboard at "));
    program
}

/// Where the admin listener is.
fn admin(program: &Program) -> SocketAddr {
    let log = program.log();
    let place = log.split("dashboard at ").nth(1).and_then(|rest| rest.split('/').nth(2));
    place.unwrap_or_else(|| panic!("{log}")).parse().unwrap()
}

//! `server` and `admin`.

use std::net::SocketAddr;

use super::fields::Fields;
use super::listener::{Listener, listener};
use crate::diagnostic::Finding;
use crate::settings::{Admin, Server};

/// Reads `server`.
pub(crate) fn server(fields: &Fields<'_>, listeners: &mut Vec<Listener>) -> Server {
    Server {
        rls: listener(fields, "rls", listeners),
        http: listener(fields, "http", listeners),
        resp: listener(fields, "resp", listeners),
    }
}

/// Reads `admin`.
pub(crate) fn admin(fields: &Fields<'_>, listeners: &mut Vec<Listener>) -> Admin {
    let listen = listener(fields, "listen", listeners).unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 9900)));
    if !listen.ip().is_loopback() {
        fields.context.report(
            Finding::warning(fields.value_span("listen"), "the admin pages can be reached from other machines")
                .label("not a loopback address")
                .help("listen on 127.0.0.1 unless a firewall stands before it"),
        );
    }
    Admin { listen }
}

//! Certificate reload for all listeners of a server.

use std::sync::Arc;

use sluicegate_engine::clock::ClockHandle;

use super::Acceptor;
use crate::tls::{CertReload, CertificateError};

/// Callback for messages to the operator, one line each.
///
/// It is a trait object so that services are not generic over it: otherwise a whole server would be compiled
/// again in every program that starts it.
pub type OperatorLog = Arc<dyn Fn(&str) + Send + Sync>;

/// Watches all certificates forever on the current runtime. Reloads, and bad changes that have no effect, are
/// reported.
pub fn watch_certificates(acceptors: &[Arc<Acceptor>], clock: &ClockHandle, log: &OperatorLog) {
    for acceptor in acceptors {
        let (acceptor, clock, log) = (Arc::clone(acceptor), clock.clone(), Arc::clone(log));
        tokio::spawn(async move {
            let on_reload = |result| match result {
                Ok(CertReload::Reloaded) => log("certificate reloaded"),
                Ok(CertReload::Unchanged) => {}
                Err(error) => log(&format!("certificate reload failed, the current one stays active: {error}")),
            };
            acceptor.watch(&clock, on_reload).await;
        });
    }
}

/// Reloads all certificates. Returns the errors of bad ones, which stay unchanged.
pub async fn reload_certificates(acceptors: &[Arc<Acceptor>]) -> Vec<CertificateError> {
    let mut bad = Vec::new();
    for acceptor in acceptors {
        bad.extend(acceptor.reload().await.err());
    }
    bad
}

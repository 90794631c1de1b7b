//! Certificates that change while they are in use, of all places a server listens at.

use std::sync::Arc;

use sluicegate_engine::clock::ClockHandle;

use crate::entrance::Entrance;
use crate::tls::{CertificateError, Renewal};

/// Who hears what an operator should know, a line at a time.
///
/// It is behind a pointer so that a service is one type and not another for each who listens: a whole server would be
/// compiled again in every program that starts it.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// Looks after all certificates, for ever, on the runtime this is called in. `tell` hears of renewals and of changes
/// for the worse, which have no effect.
pub fn watch_certificates(entrances: &[Arc<Entrance>], clock: &ClockHandle, tell: &Tell) {
    for entrance in entrances {
        let (entrance, clock, tell) = (Arc::clone(entrance), clock.clone(), Arc::clone(tell));
        tokio::spawn(async move {
            let hear = |renewal| match renewal {
                Ok(Renewal::Renewed) => tell("the certificate was renewed"),
                Ok(Renewal::Unchanged) => {}
                Err(error) => tell(&format!("the certificate stays as it was: {error}")),
            };
            entrance.watch(&clock, hear).await;
        });
    }
}

/// Reads all certificates again. Those that are bad are told of, and stay as they were.
pub async fn reload_certificates(entrances: &[Arc<Entrance>]) -> Vec<CertificateError> {
    let mut bad = Vec::new();
    for entrance in entrances {
        bad.extend(entrance.reload().await.err());
    }
    bad
}

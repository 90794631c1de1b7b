//! Tests of upstreams as the proxy uses them, with real sockets.

mod certificates;
mod checking;
mod connecting;
mod encrypting;
mod picking;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_config::settings::{self, Servers};
use sluicegate_engine::clock::ClockHandle;

use super::{Upstream, Upstreams};

/// Settings of an upstream with these servers and defaults.
fn plain<U: Into<String>>(urls: impl IntoIterator<Item = U>) -> settings::Upstream {
    settings::Upstream::new("shop", Servers::Urls(urls.into_iter().map(Into::into).collect()))
}

fn upstreams(settings: settings::Upstream, clock: impl Into<ClockHandle>) -> Upstreams {
    Upstreams::new(&[settings], Path::new("/nowhere"), &clock.into()).unwrap()
}

fn upstream(settings: settings::Upstream, clock: impl Into<ClockHandle>) -> Arc<Upstream> {
    Arc::clone(upstreams(settings, clock).get(0))
}

/// Protects against hanging tests only.
async fn with_timeout<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("timed out")
}

/// Lets other tasks and sockets make progress until the condition holds.
async fn wait_until(mut holds: impl FnMut() -> bool) {
    with_timeout(async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

//! Upstreams as the proxy uses them, with real sockets where there are any.

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

/// An upstream of these servers about which nothing else is said.
fn plain<U: Into<String>>(urls: impl IntoIterator<Item = U>) -> settings::Upstream {
    settings::Upstream::new("shop", Servers::Urls(urls.into_iter().map(Into::into).collect()))
}

fn upstreams(settings: settings::Upstream, clock: impl Into<ClockHandle>) -> Upstreams {
    Upstreams::new(&[settings], Path::new("/nowhere"), &clock.into()).unwrap()
}

fn upstream(settings: settings::Upstream, clock: impl Into<ClockHandle>) -> Arc<Upstream> {
    Arc::clone(upstreams(settings, clock).get(0))
}

/// Against hanging only.
async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it hangs")
}

/// Lets other tasks and the sockets go on until it is so.
async fn until(mut so: impl FnMut() -> bool) {
    in_time(async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

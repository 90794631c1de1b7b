//! State of a worker thread: its connections and upstream pools.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_net::ConnectionTasks;

use crate::affinity::WorkerHandle;
use crate::context::GatewayContext;
use crate::counters::RequestCounters;
use crate::idle_pool::IdlePool;
use crate::log::LogWriter;
use crate::log::request_id::RequestIdGenerator;
use crate::pool::UpstreamPool;

/// Interval of the sweep of idle upstream connections.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// The same for upstreams with a connection limit, where requests may wait for a permit.
const BOUNDED_SWEEP_INTERVAL: Duration = Duration::from_millis(20);

/// State of one worker thread.
pub(crate) struct Worker {
    pub(crate) gateway: Arc<GatewayContext>,
    /// Upstream pools, by upstream index.
    pub(crate) pools: Vec<Arc<UpstreamPool>>,
    /// Access-log writer, if a log is configured.
    pub(crate) log: Option<WorkerLog>,
    /// Request counters.
    pub(crate) counters: Arc<RequestCounters>,
    /// Tasks of its connections.
    pub(crate) tasks: ConnectionTasks,
    /// Index of the worker.
    pub(crate) index: usize,
}

/// Access log of one worker.
pub(crate) struct WorkerLog {
    pub(crate) writer: LogWriter,
    pub(crate) ids: RequestIdGenerator,
}

impl Worker {
    pub(crate) fn new(gateway: Arc<GatewayContext>, index: usize) -> Arc<Self> {
        let pools =
            gateway.upstreams.all().iter().map(|it| UpstreamPool::new(Arc::clone(it), gateway.clock.clone())).collect();
        let log =
            gateway.access_log.as_ref().map(|log| WorkerLog { writer: log.writer(), ids: RequestIdGenerator::new() });
        let counters = gateway.counters.register();
        Arc::new(Self { gateway, pools, log, counters, tasks: ConnectionTasks::default(), index })
    }

    /// The part of this worker that other workers can see.
    pub(crate) fn handle(&self) -> &WorkerHandle {
        self.gateway.worker_registry.get(self.index)
    }

    /// Its parked connections; `None` if epoll is not available.
    pub(crate) fn idle_pool(&self) -> Option<&IdlePool> {
        self.handle().idle_pool.as_ref()
    }

    /// Closes unneeded idle upstream connections.
    pub(crate) async fn sweep(self: Arc<Self>) {
        let is_bounded = self.pools.iter().any(|pool| pool.upstream().settings().max_connections.is_some());
        let every = if is_bounded { BOUNDED_SWEEP_INTERVAL } else { SWEEP_INTERVAL };
        loop {
            self.gateway.clock.sleep(every).await;
            self.pools.iter().for_each(|pool| pool.sweep());
        }
    }
}

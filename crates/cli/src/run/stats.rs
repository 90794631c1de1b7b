//! Adapters that supply service statistics to the admin API.

use std::io;
use std::sync::Arc;

use sluicegate::Sluice;
use sluicegate::adaptive::controller::{ControlLoop, ControlLoopHandle};
use sluicegate::adaptive::signals::HostSignals;
use sluicegate_admin::{AccessLogStats, ConnectionStats, GatewayStats, LimitStats, ServerStats, UpstreamStats};
use sluicegate_gateway::{GatewayMonitor, Health, UpstreamStatus};
use sluicegate_server::LimitCounts;

pub(super) fn gateway_stats(monitor: GatewayMonitor) -> Arc<dyn Fn() -> GatewayStats + Send + Sync> {
    Arc::new(move || GatewayStats {
        connections: ConnectionStats::from(monitor.listener()),
        in_flight: monitor.in_flight(),
        responses_by_class: monitor.responses_by_class().to_vec(),
        migrated_connections: monitor.migrated_connections(),
        access_log: monitor.log_stats().map(|(dropped_lines, failures)| AccessLogStats { dropped_lines, failures }),
        upstreams: monitor.upstreams().into_iter().map(upstream).collect(),
    })
}

/// Starts the control loop of the adaptive rules, with the gateway's connection count as a signal.
pub(super) fn start_controller(sluice: &Sluice, gateway: Option<GatewayMonitor>) -> io::Result<ControlLoopHandle> {
    let machine = match gateway {
        Some(monitor) => HostSignals::new().with_connections(move || monitor.listener().counts().open),
        None => HostSignals::new(),
    };
    ControlLoop::new(sluice, machine).spawn()
}

pub(super) fn server_stats(monitor: sluicegate_server::ServerMonitor) -> Arc<dyn Fn() -> ServerStats + Send + Sync> {
    Arc::new(move || ServerStats {
        connections: ConnectionStats::from(monitor.listener()),
        requests: monitor.calls().to_vec(),
        zero_limits: monitor.zero_limits().into_iter().map(limit).collect(),
        values: monitor.detailed_limits().into_iter().map(limit).collect(),
    })
}

fn limit(counts: LimitCounts) -> LimitStats {
    let LimitCounts { limit, entries, admitted, refused, would_refuse } = counts;
    LimitStats { limit, entries, admitted, refused, would_refuse }
}

fn upstream(status: UpstreamStatus) -> UpstreamStats {
    let UpstreamStatus { name, servers, .. } = status;
    let up = servers.iter().filter(|server| matches!(server.health, Health::Healthy)).count() as u64;
    UpstreamStats {
        name,
        up,
        down: servers.len() as u64 - up,
        in_flight: servers.iter().map(|server| server.in_flight).sum(),
        failures: servers.iter().map(|server| server.failures).sum(),
    }
}

//! How services fare, as the admin pages tell it.

use std::io;
use std::sync::Arc;

use sluicegate::Sluice;
use sluicegate::adaptive::pilot::{Pilot, Steering};
use sluicegate::adaptive::signals::Machine;
use sluicegate_admin::{ConnectionReading, GatewayReading, LimitReading, LogReading, ServerReading, UpstreamReading};
use sluicegate_gateway::{Health, UpstreamStatus, Vitals};
use sluicegate_server::LimitCounts;

pub(super) fn of_gateway(vitals: Vitals) -> Arc<dyn Fn() -> GatewayReading + Send + Sync> {
    Arc::new(move || GatewayReading {
        connections: ConnectionReading::from(vitals.door()),
        in_flight: vitals.under_way(),
        answered: vitals.answered().to_vec(),
        moved: vitals.moved(),
        log: vitals.log_losses().map(|(lost, failures)| LogReading { lost, failures }),
        upstreams: vitals.upstreams().into_iter().map(upstream).collect(),
    })
}

/// Steers the rules that protect the process, also by how many connections the gateway has.
pub(super) fn steer(sluice: &Sluice, gateway: Option<Vitals>) -> io::Result<Steering> {
    let machine = match gateway {
        Some(vitals) => Machine::new().with_connections(move || vitals.door().counts().open),
        None => Machine::new(),
    };
    Pilot::new(sluice, machine).spawn()
}

pub(super) fn of_server(vitals: sluicegate_server::Vitals) -> Arc<dyn Fn() -> ServerReading + Send + Sync> {
    Arc::new(move || ServerReading {
        connections: ConnectionReading::from(vitals.door()),
        requests: vitals.calls().to_vec(),
        zero_limits: vitals.zero_limits().into_iter().map(limit).collect(),
        values: vitals.values().into_iter().map(limit).collect(),
    })
}

fn limit(counts: LimitCounts) -> LimitReading {
    let LimitCounts { limit, entries, admitted, refused, would_refuse } = counts;
    LimitReading { limit, entries, admitted, refused, would_refuse }
}

fn upstream(status: UpstreamStatus) -> UpstreamReading {
    let UpstreamStatus { name, servers, .. } = status;
    let up = servers.iter().filter(|server| matches!(server.health, Health::Well)).count() as u64;
    UpstreamReading {
        name,
        up,
        down: servers.len() as u64 - up,
        in_flight: servers.iter().map(|server| server.in_flight).sum(),
        failures: servers.iter().map(|server| server.failures).sum(),
    }
}

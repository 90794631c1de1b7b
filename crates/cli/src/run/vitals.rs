//! How services fare, as the admin pages tell it.

use std::sync::Arc;

use sluicegate_admin::{ConnectionReading, GatewayReading, ServerReading, UpstreamReading};
use sluicegate_gateway::{Health, UpstreamStatus, Vitals};

pub(super) fn of_gateway(vitals: Vitals) -> Arc<dyn Fn() -> GatewayReading + Send + Sync> {
    Arc::new(move || GatewayReading {
        connections: ConnectionReading::from(vitals.door()),
        in_flight: vitals.under_way(),
        answered: vitals.answered().to_vec(),
        upstreams: vitals.upstreams().into_iter().map(upstream).collect(),
    })
}

pub(super) fn of_server(vitals: sluicegate_server::Vitals) -> Arc<dyn Fn() -> ServerReading + Send + Sync> {
    Arc::new(move || ServerReading {
        connections: ConnectionReading::from(vitals.door()),
        requests: vitals.calls().to_vec(),
    })
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

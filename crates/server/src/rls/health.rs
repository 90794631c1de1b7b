//! gRPC health and reflection services, implemented by tonic.

use http::{Request, Response};
use hyper::body::Incoming;
use tokio::sync::watch;
use tonic::Status;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};
use tower_service::Service;

use super::grpc::{GrpcBody, error_response};
use super::proto::FILE_DESCRIPTOR_SET;

/// Service names in health checks: the server, the name used by the reference implementation, and the service
/// itself.
const HEALTH_SERVICE_NAMES: [&str; 3] = ["", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"];

/// Health and reflection.
pub(super) struct HealthEndpoints {
    routes: Routes,
    health: HealthReporter,
    phase: watch::Sender<ServingPhase>,
}

/// Serving phase of the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ServingPhase {
    /// Serving.
    Serving,
    /// Serving, and reported as about to stop.
    Draining,
    /// Stopped.
    Stopped,
}

impl HealthEndpoints {
    /// Creates the services, healthy from the start. `max_request_size` bounds the messages.
    pub(super) fn new(max_request_size: usize) -> Result<Self, tonic_reflection::server::Error> {
        let health = HealthReporter::new();
        let health_server = HealthServer::new(HealthService::from_health_reporter(health.clone()));
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let routes = Routes::new(health_server.max_decoding_message_size(max_request_size))
            .add_service(reflection().build_v1()?.max_decoding_message_size(max_request_size))
            .add_service(reflection().build_v1alpha()?.max_decoding_message_size(max_request_size))
            .prepare();
        Ok(Self { routes, health, phase: watch::Sender::new(ServingPhase::Serving) })
    }

    /// Reports `SERVING`.
    pub(super) async fn set_serving(&self) {
        self.set_status(ServingStatus::Serving).await;
    }

    /// Reports `NOT_SERVING`, once.
    pub(super) async fn drain(&self) {
        if !self.is_draining() {
            self.set_status(ServingStatus::NotServing).await;
            self.phase.send_replace(ServingPhase::Draining);
        }
    }

    /// Ends open watch streams, after their last update.
    pub(super) fn close_watchers(&self) {
        self.phase.send_replace(ServingPhase::Stopped);
    }

    async fn set_status(&self, status: ServingStatus) {
        for name in HEALTH_SERVICE_NAMES {
            self.health.set_service_status(name, status).await;
        }
    }

    pub(super) fn is_draining(&self) -> bool {
        *self.phase.borrow() != ServingPhase::Serving
    }

    /// Handles a health or reflection call, or replies that there is no such method. Endless streams, such as health
    /// watches, end on shutdown.
    pub(super) fn call(&self, request: Request<Incoming>) -> impl Future<Output = Response<GrpcBody>> + Send + 'static {
        let response = self.routes.clone().call(request);
        let mut phase = self.phase.subscribe();
        let stopped = async move {
            // A dropped sender means shutdown as well.
            drop(phase.wait_for(|phase| *phase == ServingPhase::Stopped).await);
        };
        async move {
            match response.await {
                Ok(response) => response.map(|body| GrpcBody::Tonic(body, Box::pin(stopped))),
                Err(error) => error_response(Status::internal(error.to_string())),
            }
        }
    }
}

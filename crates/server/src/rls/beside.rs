//! What stands beside the service itself: health and reflection, as tonic has them.

use http::{Request, Response};
use hyper::body::Incoming;
use tokio::sync::watch;
use tonic::Status;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};
use tower_service::Service;

use super::grpc::{AnswerBody, refuse};
use super::proto::DESCRIPTIONS;

/// Under what names clients ask about our health: the server's, the one that the reference has, and the
/// service's own.
const NAMES: [&str; 3] = ["", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"];

/// Health and reflection.
pub(super) struct Beside {
    routes: Routes,
    health: HealthReporter,
    phase: watch::Sender<Phase>,
}

/// How far a server is on its way out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It serves.
    Serving,
    /// It serves, and has said that it will stop.
    Draining,
    /// It stops.
    Leaving,
}

impl Beside {
    /// Healthy from the start. `max_request` bounds the messages.
    pub(super) fn new(max_request: usize) -> Result<Self, tonic_reflection::server::Error> {
        let health = HealthReporter::new();
        let health_server = HealthServer::new(HealthService::from_health_reporter(health.clone()));
        let described = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(DESCRIPTIONS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let routes = Routes::new(health_server.max_decoding_message_size(max_request))
            .add_service(described().build_v1()?.max_decoding_message_size(max_request))
            .add_service(described().build_v1alpha()?.max_decoding_message_size(max_request))
            .prepare();
        Ok(Self { routes, health, phase: watch::Sender::new(Phase::Serving) })
    }

    /// Tells clients to come.
    pub(super) async fn welcome(&self) {
        self.tell(ServingStatus::Serving).await;
    }

    /// Tells clients to go elsewhere, once.
    pub(super) async fn drain(&self) {
        if !self.is_draining() {
            self.tell(ServingStatus::NotServing).await;
            self.phase.send_replace(Phase::Draining);
        }
    }

    /// Ends what would go on for ever, after the last that watchers hear.
    pub(super) fn leave(&self) {
        self.phase.send_replace(Phase::Leaving);
    }

    async fn tell(&self, status: ServingStatus) {
        for name in NAMES {
            self.health.set_service_status(name, status).await;
        }
    }

    pub(super) fn is_draining(&self) -> bool {
        *self.phase.borrow() != Phase::Serving
    }

    /// Answers a call of theirs, or says that there is no such call. What would go on for ever, such as the watching
    /// of our health, ends when we leave.
    pub(super) fn answer(
        &self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<AnswerBody>> + Send + 'static {
        let answering = self.routes.clone().call(request);
        let mut phase = self.phase.subscribe();
        let left = async move {
            // That nobody can say so any more is the same.
            drop(phase.wait_for(|phase| *phase == Phase::Leaving).await);
        };
        async move {
            match answering.await {
                Ok(response) => response.map(|body| AnswerBody::Tonic(body, Box::pin(left))),
                Err(error) => refuse(Status::internal(error.to_string())),
            }
        }
    }
}

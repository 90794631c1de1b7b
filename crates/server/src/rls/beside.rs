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
    draining: watch::Sender<bool>,
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
        Ok(Self { routes, health, draining: watch::Sender::new(false) })
    }

    /// Tells clients whether to come.
    pub(super) async fn tell(&self, status: ServingStatus) {
        for name in NAMES {
            self.health.set_service_status(name, status).await;
        }
        // After the last that watchers hear: then what they wait for ends.
        self.draining.send_replace(status != ServingStatus::Serving);
    }

    pub(super) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Answers a call of theirs, or says that there is no such call. What would go on for ever, such as the watching
    /// of our health, ends when we drain.
    pub(super) fn answer(
        &self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<AnswerBody>> + Send + 'static {
        let answering = self.routes.clone().call(request);
        let mut draining = self.draining.subscribe();
        let drained = async move {
            // That nobody can say so any more is the same.
            drop(draining.wait_for(|is_draining| *is_draining).await);
        };
        async move {
            match answering.await {
                Ok(response) => response.map(|body| AnswerBody::Tonic(body, Box::pin(drained))),
                Err(error) => refuse(Status::internal(error.to_string())),
            }
        }
    }
}

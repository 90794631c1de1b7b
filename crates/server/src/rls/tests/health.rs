//! Health and reflection.

use http::StatusCode;
use tokio::time::timeout;
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

use super::support::{RlsTestServer, TEST_TIMEOUT, serve};

const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";

async fn channel(served: &RlsTestServer) -> tonic::transport::Channel {
    tonic::transport::Channel::from_shared(format!("http://{}", served.address)).unwrap().connect().await.unwrap()
}

async fn health(served: &RlsTestServer, service: &str) -> Result<HealthCheckResponse, tonic::Status> {
    let request = HealthCheckRequest { service: service.to_owned() };
    Ok(HealthClient::new(channel(served).await).check(request).await?.into_inner())
}

#[tokio::test]
async fn health_is_reported_for_all_service_names() {
    let served = serve([]).await;
    for name in ["", "ratelimit", SERVICE] {
        assert_eq!(health(&served, name).await.unwrap().status(), ServingStatus::Serving, "{name}");
    }
    assert_eq!(health(&served, "other").await.unwrap_err().code(), Code::NotFound);
    assert_eq!(served.rls.healthcheck().status(), StatusCode::OK);
}

#[tokio::test]
async fn watchers_see_draining() {
    let served = serve([]).await;
    let request = HealthCheckRequest { service: "ratelimit".to_owned() };
    let mut watch = HealthClient::new(channel(&served).await).watch(request).await.unwrap().into_inner();
    let mut next = async || timeout(TEST_TIMEOUT, watch.message()).await.unwrap().unwrap().unwrap().status();
    assert_eq!(next().await, ServingStatus::Serving);
    served.rls.drain().await;
    assert_eq!(next().await, ServingStatus::NotServing);
    for name in ["", "ratelimit", SERVICE] {
        assert_eq!(health(&served, name).await.unwrap().status(), ServingStatus::NotServing, "{name}");
    }
    assert_eq!(served.rls.healthcheck().status(), StatusCode::INTERNAL_SERVER_ERROR);
}

async fn reflect(served: &RlsTestServer, message: MessageRequest) -> MessageResponse {
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(message) };
    let mut client = ServerReflectionClient::new(channel(served).await);
    let stream = tokio_stream_once(request);
    let mut responses = client.server_reflection_info(stream).await.unwrap().into_inner();
    let response: ServerReflectionResponse =
        timeout(TEST_TIMEOUT, responses.message()).await.unwrap().unwrap().unwrap();
    response.message_response.unwrap()
}

/// A stream of one item.
fn tokio_stream_once<T: Send + 'static>(item: T) -> impl tonic::IntoStreamingRequest<Message = T> {
    tonic::Request::new(futures_util::stream::once(async move { item }))
}

#[tokio::test]
async fn reflection_v1_describes_the_service() {
    let served = serve([]).await;
    let MessageResponse::ListServicesResponse(listed) =
        reflect(&served, MessageRequest::ListServices(String::new())).await
    else {
        panic!("no list")
    };
    let mut names: Vec<&str> = listed.service.iter().map(|service| service.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, [SERVICE, "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"]);
    for symbol in [SERVICE, "envoy.extensions.common.ratelimit.v3.RateLimitDescriptor", "google.protobuf.Struct"] {
        let response = reflect(&served, MessageRequest::FileContainingSymbol(symbol.to_owned())).await;
        assert!(matches!(response, MessageResponse::FileDescriptorResponse(_)), "{symbol}");
    }
}

#[tokio::test]
async fn reflection_v1alpha_describes_the_service() {
    use tonic_reflection::pb::v1alpha;
    let served = serve([]).await;
    let message = v1alpha::server_reflection_request::MessageRequest::ListServices(String::new());
    let request = v1alpha::ServerReflectionRequest { host: String::new(), message_request: Some(message) };
    let mut client = v1alpha::server_reflection_client::ServerReflectionClient::new(channel(&served).await);
    let mut responses = client.server_reflection_info(tokio_stream_once(request)).await.unwrap().into_inner();
    let response = timeout(TEST_TIMEOUT, responses.message()).await.unwrap().unwrap().unwrap();
    let Some(v1alpha::server_reflection_response::MessageResponse::ListServicesResponse(listed)) =
        response.message_response
    else {
        panic!("no list")
    };
    assert!(listed.service.iter().any(|service| service.name == SERVICE));
}

//! Authorization by secret.

use std::fs;

use tonic::Code;
use tonic::metadata::MetadataValue;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::support::{RlsTestServer, RlsTestSetup, descriptor, per_minute, request, rule};
use crate::Secret;
use crate::rls::proto;

async fn served() -> RlsTestServer {
    let dir = std::env::temp_dir().join(format!("sluicegate-rls-secret-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let file = dir.join(format!("{:?}", std::thread::current().id()));
    fs::write(&file, "correct horse\n").unwrap();
    let secret = Secret::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    RlsTestSetup { rules: vec![rule("total", per_minute(1))], secret: Some(secret), ..RlsTestSetup::default() }
        .serve()
        .await
}

async fn call_with_secret(
    served: &RlsTestServer,
    credentials: Option<&str>,
) -> Result<proto::RateLimitResponse, tonic::Status> {
    let mut call = tonic::Request::new(request("edge", [descriptor(&[("a", "b")])]));
    if let Some(credentials) = credentials {
        call.metadata_mut().insert("authorization", MetadataValue::try_from(credentials).unwrap());
    }
    Ok(served.client.clone().should_rate_limit(call).await?.into_inner())
}

#[tokio::test]
async fn calls_without_the_secret_are_refused() {
    let served = served().await;
    for credentials in [
        None,
        Some(""),
        Some("Bearer"),
        Some("Bearer "),
        Some("Bearer wrong horse"),
        Some("Bearer correct hors"),
        Some("Bearer correct horse2"),
        Some("Basic correct horse"),
        Some("correct horse"),
    ] {
        let status = call_with_secret(&served, credentials).await.unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated, "{credentials:?}");
    }
    // None of them consumed anything.
    assert_eq!(call_with_secret(&served, Some("Bearer correct horse")).await.unwrap().overall_code(), proto::Code::Ok);
    assert_eq!(
        call_with_secret(&served, Some("bearer correct horse")).await.unwrap().overall_code(),
        proto::Code::OverLimit
    );
}

#[tokio::test]
async fn only_health_is_public() {
    let served = served().await;
    let channel = tonic::transport::Channel::from_shared(format!("http://{}", served.address)).unwrap();
    let channel = channel.connect().await.unwrap();
    let call = HealthCheckRequest { service: "ratelimit".to_owned() };
    assert!(HealthClient::new(channel.clone()).check(call).await.is_ok());
    let mut reflection = tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient::new(channel);
    let no_requests = futures_util::stream::empty::<tonic_reflection::pb::v1::ServerReflectionRequest>();
    assert_eq!(reflection.server_reflection_info(no_requests).await.unwrap_err().code(), Code::Unauthenticated);
}

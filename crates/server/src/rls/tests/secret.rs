//! Who may ask.

use std::fs;

use tonic::Code;
use tonic::metadata::MetadataValue;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::support::{Served, Setup, descriptor, per_minute, request, rule};
use crate::Secret;
use crate::rls::proto;

async fn served() -> Served {
    let folder = std::env::temp_dir().join(format!("sluicegate-rls-secret-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("{:?}", std::thread::current().id()));
    fs::write(&file, "correct horse\n").unwrap();
    let secret = Secret::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    Setup { rules: vec![rule("total", per_minute(1))], secret: Some(secret), ..Setup::default() }.serve().await
}

async fn ask(served: &Served, shown: Option<&str>) -> Result<proto::RateLimitResponse, tonic::Status> {
    let mut asked = tonic::Request::new(request("edge", [descriptor(&[("a", "b")])]));
    if let Some(shown) = shown {
        asked.metadata_mut().insert("authorization", MetadataValue::try_from(shown).unwrap());
    }
    Ok(served.client.clone().should_rate_limit(asked).await?.into_inner())
}

#[tokio::test]
async fn only_those_who_show_the_secret_may_ask() {
    let served = served().await;
    for shown in [
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
        let status = ask(&served, shown).await.unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated, "{shown:?}");
    }
    // None of them has taken anything.
    assert_eq!(ask(&served, Some("Bearer correct horse")).await.unwrap().overall_code(), proto::Code::Ok);
    assert_eq!(ask(&served, Some("bearer correct horse")).await.unwrap().overall_code(), proto::Code::OverLimit);
}

#[tokio::test]
async fn health_is_told_to_everybody_and_nothing_else_is() {
    let served = served().await;
    let channel = tonic::transport::Channel::from_shared(format!("http://{}", served.address)).unwrap();
    let channel = channel.connect().await.unwrap();
    let asked = HealthCheckRequest { service: "ratelimit".to_owned() };
    assert!(HealthClient::new(channel.clone()).check(asked).await.is_ok());
    let mut reflection = tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient::new(channel);
    let nothing = futures_util::stream::empty::<tonic_reflection::pb::v1::ServerReflectionRequest>();
    assert_eq!(reflection.server_reflection_info(nothing).await.unwrap_err().code(), Code::Unauthenticated);
}

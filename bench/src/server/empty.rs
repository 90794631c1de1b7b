//! Baseline services: they parse the request and return a constant response.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::{env, process};

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt;
use clap::ValueEnum;
use serde::Deserialize;
use tokio::net::TcpListener;
use tonic::{Request, Status, async_trait};

use super::proto::{Code, RateLimitRequest, RateLimitResponse, RateLimitService, RateLimitServiceServer};
use crate::programs::program::{Program, free_port};
use crate::programs::temp_dir::TempDir;

/// Number of worker threads, as in the rule files of the Sluicegate side.
const THREADS: usize = 2;

/// Protocol of a baseline service.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum EmptyService {
    /// Envoy's rate limit service, with tonic.
    Rls,
    /// `/v1/check`, with axum.
    Http,
}

impl EmptyService {
    /// Starts the service in a separate process.
    pub(crate) fn start(self) -> Program {
        let (name, service) = match self {
            Self::Rls => ("empty tonic service", "rls"),
            Self::Http => ("empty axum handler", "http"),
        };
        let port = free_port();
        Program::start(name, port, TempDir::new(), |_| {
            let mut command = process::Command::new(env::current_exe().expect("path of the bench executable"));
            command.args(["empty", service, &port.to_string()]);
            command
        })
    }
}

/// Serves until the process is killed.
pub(crate) fn run_empty(service: EmptyService, port: u16) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    // Spawned on a worker thread: the thread in `block_on` is not one of the workers.
    runtime.block_on(async move {
        let serving = match service {
            EmptyService::Rls => {
                tokio::spawn(async move { serve_rls(address).await.map_err(|error| error.to_string()) })
            }
            EmptyService::Http => {
                tokio::spawn(async move { serve_http(address).await.map_err(|error| error.to_string()) })
            }
        };
        serving.await?.map_err(Into::into)
    })
}

async fn serve_rls(address: SocketAddr) -> Result<(), tonic::transport::Error> {
    tonic::transport::Server::builder().add_service(RateLimitServiceServer::new(AlwaysOk)).serve(address).await
}

/// Returns OK for every request.
struct AlwaysOk;

#[async_trait]
impl RateLimitService for AlwaysOk {
    async fn should_rate_limit(
        &self,
        _: Request<RateLimitRequest>,
    ) -> Result<tonic::Response<RateLimitResponse>, Status> {
        let response = RateLimitResponse { overall_code: Code::Ok.into(), ..RateLimitResponse::default() };
        Ok(tonic::Response::new(response))
    }
}

async fn serve_http(address: SocketAddr) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?.tap_io(|stream| drop(stream.set_nodelay(true)));
    axum::serve(listener, Router::new().route("/v1/check", post(check))).await
}

/// Request body of the case.
#[derive(Deserialize)]
struct CheckBody<'a> {
    rule: &'a str,
    client_ip: &'a str,
}

/// Response of Sluicegate to the first such request.
const RESPONSE_BODY: &str = include_str!("response.json");

async fn check(body: Bytes) -> Response {
    match serde_json::from_slice::<CheckBody<'_>>(&body) {
        Ok(CheckBody { rule, client_ip }) if !rule.is_empty() && !client_ip.is_empty() => {
            ([(CONTENT_TYPE, "application/json")], RESPONSE_BODY).into_response()
        }
        _ => StatusCode::BAD_REQUEST.into_response(),
    }
}

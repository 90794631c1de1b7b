//! The peers that decide nothing: they read what they are asked, and answer the same to everybody.

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
use crate::programs::folder::Folder;
use crate::programs::program::{Program, free_port};

/// As many as the rule files say for ours.
const THREADS: usize = 2;

/// What it speaks.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Empty {
    /// Envoy's rate limit service, with tonic.
    Rls,
    /// `/v1/check`, with axum.
    Http,
}

impl Empty {
    /// Starts it in a process of its own.
    pub(crate) fn start(self) -> Program {
        let (name, service) = match self {
            Self::Rls => ("the empty tonic service", "rls"),
            Self::Http => ("the empty axum handler", "http"),
        };
        let port = free_port();
        Program::start(name, port, Folder::new(), |_| {
            let mut command = process::Command::new(env::current_exe().expect("the path of this program"));
            command.args(["empty", service, &port.to_string()]);
            command
        })
    }
}

/// Serves until the process is ended.
pub(crate) fn run_empty(service: Empty, port: u16) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    // On a worker: the thread that waits for this one does not serve.
    runtime.block_on(async move {
        let serving = match service {
            Empty::Rls => tokio::spawn(async move { serve_rls(address).await.map_err(|error| error.to_string()) }),
            Empty::Http => tokio::spawn(async move { serve_http(address).await.map_err(|error| error.to_string()) }),
        };
        serving.await?.map_err(Into::into)
    })
}

async fn serve_rls(address: SocketAddr) -> Result<(), tonic::transport::Error> {
    tonic::transport::Server::builder().add_service(RateLimitServiceServer::new(Fine)).serve(address).await
}

/// Says that everything is within its limit.
struct Fine;

#[async_trait]
impl RateLimitService for Fine {
    async fn should_rate_limit(
        &self,
        _: Request<RateLimitRequest>,
    ) -> Result<tonic::Response<RateLimitResponse>, Status> {
        let answer = RateLimitResponse { overall_code: Code::Ok.into(), ..RateLimitResponse::default() };
        Ok(tonic::Response::new(answer))
    }
}

async fn serve_http(address: SocketAddr) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?.tap_io(|stream| drop(stream.set_nodelay(true)));
    axum::serve(listener, Router::new().route("/v1/check", post(check))).await
}

/// What the request of the case has in it.
#[derive(Deserialize)]
struct Check<'a> {
    rule: &'a str,
    client_ip: &'a str,
}

/// What ours says about such a request when it comes first.
const ANSWER: &str = include_str!("answer.json");

async fn check(body: Bytes) -> Response {
    match serde_json::from_slice::<Check<'_>>(&body) {
        Ok(Check { rule, client_ip }) if !rule.is_empty() && !client_ip.is_empty() => {
            ([(CONTENT_TYPE, "application/json")], ANSWER).into_response()
        }
        _ => StatusCode::BAD_REQUEST.into_response(),
    }
}

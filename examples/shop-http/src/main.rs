//! Serves the shop on 127.0.0.1:3000 until it is interrupted.
#![allow(clippy::print_stdout, reason = "prints the listen address")]

use std::net::SocketAddr;

use sluicegate::clock::ClockHandle;
use sluicegate::config;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rules =
        std::env::args().nth(1).unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/rules.yaml").to_owned());
    let limits = shop_http::limits(config::load(&rules)?.settings, ClockHandle::system())?;
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}, rules from {rules}", listener.local_addr()?);
    let app = shop_http::app(limits).into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, app).await?;
    Ok(())
}

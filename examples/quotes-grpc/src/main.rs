//! Serves quotes on 127.0.0.1:50051 until it is interrupted.
#![allow(clippy::print_stdout, reason = "prints the listen address")]

use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rules =
        std::env::args().nth(1).unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/rules.yaml").to_owned());
    let limits = sluicegate::layer(&rules)?.build();
    let listener = TcpListener::bind("127.0.0.1:50051").await?;
    println!("listening on {}, rules from {rules}", listener.local_addr()?);
    quotes_grpc::serve(listener, limits, std::future::pending()).await?;
    Ok(())
}

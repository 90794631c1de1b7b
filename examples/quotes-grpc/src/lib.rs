//! A gRPC service behind rules.
//!
//! [`serve`] lays a [`LimitLayer`] around the whole server: it sees every call before tonic does, and what
//! it refuses is answered with `RESOURCE_EXHAUSTED` and the time to wait. Run it with
//! `cargo run -p quotes-grpc`; the rules are in `rules.yaml` beside it.

use std::future::Future;
use std::pin::Pin;

use sluicegate::tower::LimitLayer;
use tokio::net::TcpListener;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status};

/// The service, as its description says.
#[allow(missing_docs, clippy::all, unreachable_pub, reason = "made by tonic")]
pub mod quotes {
    tonic::include_proto!("quotes");
}

use quotes::quotes_server::{Quotes, QuotesServer};
use quotes::{Quote, QuoteRequest};

/// Knows the price of everything.
struct Prices;

fn price(symbol: &str) -> Quote {
    let cents = symbol.bytes().map(u64::from).sum();
    Quote { symbol: symbol.to_owned(), cents }
}

#[tonic::async_trait]
impl Quotes for Prices {
    async fn get(&self, request: Request<QuoteRequest>) -> Result<Response<Quote>, Status> {
        Ok(Response::new(price(&request.into_inner().symbol)))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<Quote, Status>> + Send>>;

    /// One price at once, and the stream stays open until the client goes.
    async fn watch(&self, request: Request<QuoteRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        let first = sender.send(price(&request.into_inner().symbol)).await;
        first.map_err(|_| Status::cancelled("the watcher has gone"))?;
        // The sender lives as long as the stream: no more prices, but no end either.
        let open = ReceiverStream::new(receiver).map(move |quote| {
            let _ = &sender;
            Ok(quote)
        });
        Ok(Response::new(Box::pin(open)))
    }
}

/// Serves until `until` resolves.
pub async fn serve(
    listener: TcpListener,
    limits: LimitLayer,
    until: impl Future<Output = ()>,
) -> Result<(), tonic::transport::Error> {
    tonic::transport::Server::builder()
        .layer(limits)
        .add_service(QuotesServer::new(Prices))
        .serve_with_incoming_shutdown(TcpListenerStream::new(listener), until)
        .await
}

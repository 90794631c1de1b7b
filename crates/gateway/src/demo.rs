//! The built-in demo upstream, to try the gateway without a server.
//!
//! It runs inside the gateway and sees requests as clients send them, without the forwarded headers that other
//! upstreams get.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response};

use crate::head;

/// Responds to any request with its method, target and host.
pub(crate) fn respond<B>(request: &Request<B>) -> Response<Bytes> {
    let target = request.uri().path_and_query().map_or("*", http::uri::PathAndQuery::as_str);
    let text = format!(
        "Hello from the built-in demo. The rules admitted this request:\n\n  {} {target}\n  host: {}\n",
        request.method(),
        head::authority(request),
    );
    let mut response = Response::new(Bytes::from(text));
    // Plain text in any case: it repeats data from the client.
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demo_echoes_the_request() {
        let request = Request::post("/orders?draft=1").header("host", "shop.example").body(()).unwrap();
        let response = respond(&request);
        let text = std::str::from_utf8(response.body()).unwrap();
        assert!(text.ends_with("\n  POST /orders?draft=1\n  host: shop.example\n"), "{text}");
        assert_eq!(response.headers()[CONTENT_TYPE], "text/plain; charset=utf-8");
    }
}

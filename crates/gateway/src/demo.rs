//! The built-in upstream: a program to try the gateway with.
//!
//! It stands inside the gateway, so it sees requests as clients send them: what other upstreams are told about
//! where a request comes from is not there.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response};

use crate::head;

/// Answers any request with what was asked.
pub(crate) fn answer<B>(request: &Request<B>) -> Response<Bytes> {
    let target = request.uri().path_and_query().map_or("*", http::uri::PathAndQuery::as_str);
    let text = format!(
        "Hello from the built-in demo. The rules have let this request through:\n\n  {} {target}\n  host: {}\n",
        request.method(),
        head::authority(request),
    );
    let mut answer = Response::new(Bytes::from(text));
    // As text whatever it looks like: it repeats what anybody sent.
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_was_asked() {
        let request = Request::post("/orders?draft=1").header("host", "shop.example").body(()).unwrap();
        let answer = answer(&request);
        let text = std::str::from_utf8(answer.body()).unwrap();
        assert!(text.ends_with("\n  POST /orders?draft=1\n  host: shop.example\n"), "{text}");
        assert_eq!(answer.headers()[CONTENT_TYPE], "text/plain; charset=utf-8");
    }
}

//! Invalid requests.

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use proptest::prelude::*;
use prost::Message;
use tonic::Code;

use super::support::{MAX_CHECKS, MAX_REQUEST, RlsTestServer, descriptor, per_minute, request, rule, serve};
use crate::rls::decode;
use crate::rls::proto::{self, RateLimitDescriptor, RateLimitOverride};

const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

#[tokio::test]
async fn an_invalid_request_is_refused_and_consumes_nothing() {
    let served = serve([rule("total", per_minute(1))]).await;
    let overridden = |unit, unit_multiplier| RateLimitDescriptor {
        limit: Some(RateLimitOverride { requests_per_unit: 1, unit, unit_multiplier }),
        ..descriptor(&[("a", "b")])
    };
    let good = || descriptor(&[("a", "b")]);
    let crowded: Vec<_> = (0..=decode::MAX_ENTRIES).map(|_| ("a", "b")).collect();
    for (request, expected) in [
        (request("", [good()]), "the domain is empty"),
        (request("edge", []), "no descriptors"),
        (request("edge", [good(), descriptor(&[])]), "descriptor 2 has no entries"),
        (request("edge", [good(), descriptor(&[("", "b")])]), "descriptor 2 has an entry without a key"),
        (request("edge", [good(), descriptor(&crowded)]), "descriptor 2 has more than 128 entries"),
        (request("edge", vec![good(); MAX_CHECKS + 1]), "more than 100 descriptors"),
        (request("edge", vec![descriptor(&[]); 10_000]), "more than 100 descriptors"),
        (request("edge", [good(), overridden(0, None)]), "the limit override of descriptor 2 has the unknown unit 0"),
        (request("edge", [good(), overridden(8, None)]), "the unknown unit 8"),
        (request("edge", [good(), overridden(-1, None)]), "the unknown unit -1"),
        (request("edge", [good(), overridden(1, Some(0))]), "descriptor 2 has a unit_multiplier of 0"),
    ] {
        let status = served.call_error(request).await;
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains(expected), "{}", status.message());
    }
    // Windows that cannot be counted are found only when they are checked.
    let status = served.call_error(request("edge", [good(), overridden(6, Some(u32::MAX))])).await;
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(served.check_one(good()).await, (proto::Code::Ok, 0));
}

#[tokio::test]
async fn an_oversized_request_is_refused() {
    let served = serve([]).await;
    let long = "x".repeat(MAX_REQUEST);
    let status = served.call_error(request("edge", [descriptor(&[("a", &long)])])).await;
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().contains("the maximum is 65536"), "{}", status.message());
    let fits = "x".repeat(MAX_REQUEST - 64);
    assert_eq!(served.check_one(descriptor(&[("a", &fits)])).await.0, proto::Code::Ok);
}

#[tokio::test]
async fn unusual_text_is_accepted() {
    let served = serve([rule("total", per_minute(100))]).await;
    let long = "y".repeat(10_000);
    for value in ["", "\0", "a\r\nb: c", "{}", "{tag}", "\u{202e}", &long] {
        assert_eq!(served.check_one(descriptor(&[("key", value)])).await.0, proto::Code::Ok);
        assert_eq!(served.check_one(descriptor(&[(&format!("k{value}"), "v")])).await.0, proto::Code::Ok);
    }
}

/// A call without a gRPC client.
async fn raw(served: &RlsTestServer, request: Request<Full<Bytes>>) -> (StatusCode, String, String) {
    let stream = tokio::net::TcpStream::connect(served.address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
    let collected = body.collect().await.unwrap();
    let status =
        parts.headers.get("grpc-status").or(collected.trailers().and_then(|trailers| trailers.get("grpc-status")));
    let grpc_status = status.map(|status| status.to_str().unwrap().to_owned()).unwrap_or_default();
    let text = String::from_utf8_lossy(&collected.to_bytes()).into_owned();
    connection.abort();
    (parts.status, grpc_status, text)
}

fn post(path: &str) -> http::request::Builder {
    Request::builder().method(Method::POST).uri(format!("http://edge{path}")).header("content-type", "application/grpc")
}

#[tokio::test]
async fn an_invalid_grpc_call_is_refused() {
    let served = serve([]).await;
    let framed = |message: &[u8]| {
        let mut bytes = vec![0];
        bytes.extend_from_slice(&(message.len() as u32).to_be_bytes());
        bytes.extend_from_slice(message);
        Bytes::from(bytes)
    };
    let good = framed(&request("edge", [descriptor(&[("a", "b")])]).encode_to_vec());
    let call = |path: &str, body: &Bytes| post(path).body(Full::new(body.clone())).unwrap();
    for (call, status) in [
        (call(PATH, &good), "0"),
        (call(PATH, &Bytes::new()), "13"),
        (call(PATH, &good.slice(..3)), "13"),
        (call(PATH, &good.slice(..good.len() - 1)), "13"),
        (call(PATH, &[good.clone(), good.clone()].concat().into()), "13"),
        (call(PATH, &framed(b"\xff\xff\xff\xff")), "3"),
        (call(PATH, &framed(b"\x12\xff\xff\xff\xff\x0f")), "3"),
        (call(PATH, &framed(b"\x0a\x02\xff\xfe")), "3"),
        (call(PATH, &framed(b"")), "3"),
        (call("/envoy.service.ratelimit.v3.RateLimitService/Other", &good), "12"),
        (call("/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit", &good), "12"),
        (call("/", &good), "12"),
    ] {
        let path = call.uri().path().to_owned();
        let (http, grpc_status, _) = raw(&served, call).await;
        assert_eq!((http, grpc_status.as_str()), (StatusCode::OK, status), "{path}");
    }
    let compressed = post(PATH).header("grpc-encoding", "gzip").body(Full::new(good.clone())).unwrap();
    assert_eq!(raw(&served, compressed).await.1, "12");
    let plain = post(PATH).header("grpc-encoding", "identity").body(Full::new(good.clone())).unwrap();
    assert_eq!(raw(&served, plain).await.1, "0");
    let get = Request::builder().uri(format!("http://edge{PATH}")).body(Full::default()).unwrap();
    let (status, _, text) = raw(&served, get).await;
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert!(text.contains("gRPC"), "{text}");
}

proptest! {
    /// Any input is decoded or refused, and decoded requests are within their limits.
    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(request) = decode::decode(Bytes::from(bytes), 3) {
            prop_assert!((1..=3).contains(&request.descriptors.len()));
        }
    }

    /// Nearly valid requests as well.
    #[test]
    fn a_damaged_request_is_decoded_or_refused(at in any::<usize>(), with in any::<u8>(), cut in any::<usize>()) {
        let limit = RateLimitOverride { requests_per_unit: 7, unit: 2, unit_multiplier: Some(3) };
        let overridden = RateLimitDescriptor { limit: Some(limit), hits_addend: Some(1 << 40), ..descriptor(&[("c", "d")]) };
        let mut bytes = request("edge", [descriptor(&[("a", "b")]), overridden]).encode_to_vec();
        let at = at % bytes.len();
        bytes[at] = with;
        bytes.truncate(cut % (bytes.len() + 1));
        let _ = decode::decode(Bytes::from(bytes), 3);
    }
}

//! Envoy's rate limit service: `rls`.

use prost::Message;
use tokio::runtime::Runtime;

use super::h2load::H2Load;
use super::proto::{Code, Entry, RateLimitDescriptor, RateLimitRequest, RateLimitResponse, RateLimitServiceClient};
use super::{EmptyService, assert_all_admitted};
use crate::programs::program::Program;
use crate::programs::rounds::median_of;
use crate::programs::sluicegate;
use crate::report::{Goal, Row, Unit};
use crate::runner::Scale;

const REQUESTS: u32 = 200_000;

pub(crate) fn described(scale: Scale) -> Vec<Row> {
    let ours = sluicegate::run(|port, _| include_str!("rls.yaml").replace("PORT", &port.to_string()));
    let empty = EmptyService::Rls.start();
    let load = H2Load {
        path: "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
        options: &["-c", "4", "-m", "64", "-H", "content-type: application/grpc", "-H", "te: trailers"],
        body: grpc_frame(&rate_limit_request()),
        min_response_bytes: grpc_frame(&RateLimitResponse { overall_code: Code::Ok.into(), ..Default::default() }).len()
            as u64,
    };
    let client = RlsClient::new();
    for program in [&ours, &empty] {
        client.assert_admits(program);
        // Warm-up.
        load.per_second(program, scale.size(REQUESTS) / 4);
    }
    let (rounds, requests) = (if scale.quick { 3 } else { 5 }, scale.size(REQUESTS));
    let before = client.remaining(&ours);
    let [our_rate, theirs] = median_of(rounds, [&ours, &empty], |program| load.per_second(program, requests));
    assert_all_admitted(before, client.remaining(&ours), u64::from(requests) * rounds as u64);
    let peer = "empty tonic service";
    vec![Row { case: "rls", peer, unit: Unit::PerSecond, ours: our_rate, theirs, goal: Goal::ratio(0.85) }]
}

/// Request of a proxy for one client.
fn rate_limit_request() -> RateLimitRequest {
    let client = Entry { key: "remote_address".to_owned(), value: "203.0.113.9".to_owned() };
    let descriptor = RateLimitDescriptor { entries: vec![client], ..Default::default() };
    RateLimitRequest { domain: "bench".to_owned(), descriptors: vec![descriptor], ..Default::default() }
}

/// gRPC frame: compression flag, length, message.
fn grpc_frame(message: &impl Message) -> Vec<u8> {
    let message = message.encode_to_vec();
    let length = u32::try_from(message.len()).expect("message length fits 32 bits");
    [&[0], &length.to_be_bytes()[..], &message].concat()
}

/// gRPC client that checks the responses.
struct RlsClient(Runtime);

impl RlsClient {
    fn new() -> Self {
        Self(tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime builds"))
    }

    fn check(&self, program: &Program, request: RateLimitRequest) -> RateLimitResponse {
        let address = format!("http://127.0.0.1:{}", program.port());
        let result = self.0.block_on(async {
            let mut client = RateLimitServiceClient::connect(address).await.expect("connection opens");
            client.should_rate_limit(request).await
        });
        result.unwrap_or_else(|status| panic!("{}: {status}", program.name())).into_inner()
    }

    fn assert_admits(&self, program: &Program) {
        let response = self.check(program, rate_limit_request());
        assert!(response.overall_code == i32::from(Code::Ok), "{}: {response:?}", program.name());
    }

    /// Remaining quota of the limit.
    fn remaining(&self, ours: &Program) -> u64 {
        let mut peek = rate_limit_request();
        peek.descriptors[0].hits_addend = Some(0);
        let response = self.check(ours, peek);
        let [status] = &response.statuses[..] else { panic!("expected one status: {response:?}") };
        status.limit_remaining.into()
    }
}

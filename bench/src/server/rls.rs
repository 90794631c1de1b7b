//! Envoy's rate limit service: `rls`.

use prost::Message;
use tokio::runtime::Runtime;

use super::h2load::Load;
use super::proto::{Code, Entry, RateLimitDescriptor, RateLimitRequest, RateLimitResponse, RateLimitServiceClient};
use super::{Empty, prove_all_were_let_in};
use crate::programs::program::Program;
use crate::programs::rounds::median_of;
use crate::programs::sluicegate;
use crate::report::{Goal, Row, Unit};
use crate::runner::Scale;

const REQUESTS: u32 = 200_000;

pub(crate) fn described(scale: Scale) -> Vec<Row> {
    let ours = sluicegate::run(|port| include_str!("rls.yaml").replace("PORT", &port.to_string()));
    let empty = Empty::Rls.start();
    let load = Load {
        path: "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
        options: &["-c", "4", "-m", "64", "-H", "content-type: application/grpc", "-H", "te: trailers"],
        body: framed(&asked()),
        least: framed(&RateLimitResponse { overall_code: Code::Ok.into(), ..Default::default() }).len() as u64,
    };
    let asking = Asking::new();
    for side in [&ours, &empty] {
        asking.prove_it_admits(side);
        // Not counted: the first requests are slower.
        load.per_second(side, scale.size(REQUESTS) / 4);
    }
    let (rounds, requests) = (if scale.quick { 3 } else { 5 }, scale.size(REQUESTS));
    let before = asking.left(&ours);
    let [mine, theirs] = median_of(rounds, [&ours, &empty], |side| load.per_second(side, requests));
    prove_all_were_let_in(before, asking.left(&ours), u64::from(requests) * rounds as u64);
    let peer = "empty tonic service";
    vec![Row { case: "rls", peer, unit: Unit::PerSecond, ours: mine, theirs, goal: Goal::ratio(0.85) }]
}

/// What a proxy asks for a client.
fn asked() -> RateLimitRequest {
    let client = Entry { key: "remote_address".to_owned(), value: "203.0.113.9".to_owned() };
    let descriptor = RateLimitDescriptor { entries: vec![client], ..Default::default() };
    RateLimitRequest { domain: "bench".to_owned(), descriptors: vec![descriptor], ..Default::default() }
}

/// A message as gRPC sends it: not compressed, its length, itself.
fn framed(message: &impl Message) -> Vec<u8> {
    let message = message.encode_to_vec();
    let length = u32::try_from(message.len()).expect("a short message");
    [&[0], &length.to_be_bytes()[..], &message].concat()
}

/// A client that looks at the answers.
struct Asking(Runtime);

impl Asking {
    fn new() -> Self {
        Self(tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime"))
    }

    fn ask(&self, side: &Program, request: RateLimitRequest) -> RateLimitResponse {
        let address = format!("http://127.0.0.1:{}", side.port());
        let answer = self.0.block_on(async {
            let mut client = RateLimitServiceClient::connect(address).await.expect("a connection");
            client.should_rate_limit(request).await
        });
        answer.unwrap_or_else(|status| panic!("{}: {status}", side.name())).into_inner()
    }

    fn prove_it_admits(&self, side: &Program) {
        let answer = self.ask(side, asked());
        assert!(answer.overall_code == i32::from(Code::Ok), "{}: {answer:?}", side.name());
    }

    /// What is left of the limit.
    fn left(&self, ours: &Program) -> u64 {
        let mut look = asked();
        look.descriptors[0].hits_addend = Some(0);
        let answer = self.ask(ours, look);
        let [status] = &answer.statuses[..] else { panic!("one status for one descriptor: {answer:?}") };
        status.limit_remaining.into()
    }
}

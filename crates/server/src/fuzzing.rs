//! Entry points of the fuzz targets: each decoder with the code behind it, fed with arbitrary bytes.
//!
//! Everything runs in memory with its own rules and a manual clock, so the same bytes always give the same reply.
//! Any violated expectation panics.

#![allow(clippy::expect_used, clippy::missing_panics_doc, reason = "a fuzz target panics to report a finding")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, header};
use http_body_util::{BodyExt, Full};
use sluicegate_config::settings::Server;
use sluicegate_engine::Sluice;
use sluicegate_engine::adhoc::AdHoc;
use sluicegate_engine::clock::{ClockHandle, ManualClock};
use sluicegate_http_adapter::HeaderStyle;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use crate::active_domains::ActiveDomains;
use crate::http::HttpApi;
use crate::resp::{Resp, RespLimits};
use crate::rls::{Rls, RlsConfig};

const RULES: &str = "
rules:
  - { name: logins, key: account, limits: [3/1h] }
  - { name: total, match: service shop, limits: [{ token_bucket: 5/s, burst: 10 }] }
  - { name: edge, direction: descriptor, key: \"descriptor['remote_address']\", limits: [3/1h] }
";

/// Maximum number of input bytes per decoder.
const MAX_INPUT_BYTES: usize = 1 << 16;

/// All decoders of untrusted input.
pub struct FuzzTargets {
    runtime: Runtime,
    clock: ManualClock,
    api: HttpApi,
    rls: Rls,
}

impl FuzzTargets {
    /// Creates decoders with fresh state.
    #[expect(clippy::new_without_default, reason = "there is no meaningful default")]
    pub fn new() -> Self {
        let runtime = Builder::new_current_thread().build().expect("a runtime can be built");
        let clock = ManualClock::new();
        let settings = sluicegate_config::parse("rules.yaml", RULES).expect("the rules are valid").settings;
        let sluice = Sluice::builder().rules(settings.rules).clock(clock.clone()).memory(1 << 22).build();
        let sluice = sluice.expect("the rules fit into memory");
        let api = HttpApi::new(sluice.clone(), &Server::default(), HeaderStyle::Ietf, None);
        let adhoc = Arc::new(AdHoc::new(1_000, clock.clone()).expect("the capacity is valid"));
        let (style, max_request_size) = (HeaderStyle::Ietf, MAX_INPUT_BYTES);
        let config = RlsConfig {
            domains: ActiveDomains::default(),
            secret: None,
            style,
            max_request_size,
            read_timeout: Duration::from_secs(30),
            max_checks: 1_000,
        };
        let rls = runtime.block_on(Rls::new(sluice, adhoc, config)).expect("the service can be built");
        Self { runtime, clock, api, rls }
    }

    /// RESP commands: the replies are the same if the bytes arrive at once or in small chunks.
    pub fn resp(&self, bytes: &[u8]) {
        let bytes = bytes.get(..MAX_INPUT_BYTES).unwrap_or(bytes);
        let at_once = self.resp_replies(bytes, bytes.len().max(1));
        assert_eq!(self.resp_replies(bytes, 7), at_once, "the replies depend on the chunk size");
    }

    /// Replies of a fresh server to commands that arrive in chunks of this length.
    fn resp_replies(&self, bytes: &[u8], chunk_size: usize) -> Vec<u8> {
        let sluice =
            Sluice::builder().clock(self.clock.clone()).memory(1 << 16).build().expect("an empty rule set is valid");
        let adhoc = Arc::new(AdHoc::new(1_000, self.clock.clone()).expect("the capacity is valid"));
        let clock = ClockHandle::new(self.clock.clone());
        let limits = RespLimits {
            max_request_size: MAX_INPUT_BYTES,
            command_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(60),
        };
        let resp = Resp::new(sluice, adhoc, None, limits, clock);
        let (client, server) = duplex(2 * MAX_INPUT_BYTES);
        let (mut reader, mut writer) = tokio::io::split(client);
        let (_closing, closed) = watch::channel(());
        self.runtime.block_on(async {
            let mut replies = Vec::new();
            let send = async {
                for chunk in bytes.chunks(chunk_size) {
                    // The server stops reading after a protocol error.
                    if writer.write_all(chunk).await.is_err() {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
                // The server may have closed the connection already.
                drop(writer.shutdown().await);
            };
            let serve = async {
                resp.serve(server, closed).await;
            };
            let (_, _, read) = tokio::join!(serve, send, reader.read_to_end(&mut replies));
            read.expect("the stream can be read to its end");
            replies
        })
    }

    /// Body of an HTTP check: decided or refused with a problem document, never a server error.
    pub fn check(&self, bytes: &[u8]) {
        let mut request =
            Request::post("/v1/check").body(Full::new(Bytes::copy_from_slice(bytes))).expect("the request is valid");
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.runtime.block_on(async {
            let response = self.api.handle(request, SocketAddr::from((Ipv4Addr::LOCALHOST, 1))).await;
            let status = response.status();
            assert!(matches!(status.as_u16(), 200 | 400 | 404 | 413), "{status}");
            let body = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            serde_json::from_slice::<serde_json::Value>(&body).expect("the response is JSON");
        });
    }

    /// A `RateLimitRequest` in protobuf.
    pub fn rls(&self, bytes: &[u8]) {
        self.rls.can_decide(Bytes::copy_from_slice(bytes));
    }

    /// A `RateLimitRequest` in JSON: the status is 200, 429 or 400.
    pub fn rls_json(&self, bytes: &[u8]) {
        let response = self.runtime.block_on(self.rls.handle_json(Bytes::copy_from_slice(bytes)));
        assert!(matches!(response.status().as_u16(), 200 | 400 | 429), "{}", response.status());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    /// The seed inputs of a target.
    fn seeds(target: &str) -> Vec<Vec<u8>> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
        let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(!files.is_empty());
        files.into_iter().map(|file| fs::read(file).unwrap()).collect()
    }

    /// Two seeds, cut and joined at arbitrary positions, with some bytes inserted and some changed.
    fn mutated(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
        let piece = (prop::sample::select(seeds), any::<prop::sample::Index>(), any::<prop::sample::Index>());
        let piece = piece.prop_map(|(seed, one, other)| {
            let (one, other) = (one.index(seed.len() + 1), other.index(seed.len() + 1));
            seed[one.min(other)..one.max(other)].to_vec()
        });
        let between = prop::collection::vec(any::<u8>(), 0..6);
        let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
        (piece.clone(), between, piece, changes).prop_map(|(start, between, end, changes)| {
            let mut bytes = [start, between, end].concat();
            for (index, byte) in changes {
                if !bytes.is_empty() {
                    let at = index.index(bytes.len());
                    bytes[at] = byte;
                }
            }
            bytes
        })
    }

    /// Runs a target without the fuzzer: the seeds themselves, then thousands of inputs derived from them.
    fn explore(target: &str, feed: impl Fn(&FuzzTargets, &[u8])) {
        let targets = FuzzTargets::new();
        let seeds = seeds(target);
        seeds.iter().for_each(|seed| feed(&targets, seed));
        let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3_000) };
        proptest!(config, |(bytes in mutated(seeds))| feed(&targets, &bytes));
    }

    #[test]
    fn resp() {
        explore("resp", FuzzTargets::resp);
    }

    #[test]
    fn check() {
        explore("check", FuzzTargets::check);
    }

    #[test]
    fn rls() {
        explore("rls", FuzzTargets::rls);
    }

    #[test]
    fn rls_json() {
        explore("rls_json", FuzzTargets::rls_json);
    }

    #[test]
    fn ratelimit() {
        explore("ratelimit", |_, bytes| {
            let Ok(text) = str::from_utf8(bytes) else { return };
            // Errors must also render without a panic.
            if let Err(report) = sluicegate_import::envoy_ratelimit::Domains::parse(&[("a.yaml".into(), text.into())]) {
                assert!(!report.to_string().is_empty());
            }
        });
    }
}

//! What the fuzz targets call: each reader with whatever follows it, fed with any bytes.
//!
//! Everything runs in memory, by rules of its own and on a clock that stands still, so the same bytes always have the
//! same answer. Whatever should not be is a panic.

#![allow(clippy::expect_used, clippy::missing_panics_doc, reason = "a fuzz target panics to tell what it found")]

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
use sluicegate_http::HeaderStyle;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use crate::domains::DomainsInForce;
use crate::http::Api;
use crate::resp::{Bounds, Resp};
use crate::rls::{Rls, Terms};

const RULES: &str = "
rules:
  - { name: logins, key: account, limits: [3/1h] }
  - { name: total, match: service shop, limits: [{ token_bucket: 5/s, burst: 10 }] }
  - { name: edge, side: descriptor, key: \"descriptor['remote_address']\", limits: [3/1h] }
";

/// The most bytes that a reader is fed.
const LONGEST: usize = 1 << 16;

/// Everything that reads what strangers send.
pub struct Readers {
    runtime: Runtime,
    clock: ManualClock,
    api: Api,
    rls: Rls,
}

impl Readers {
    /// Readers that nobody has asked yet.
    #[expect(clippy::new_without_default, reason = "it is not a thing with a default")]
    pub fn new() -> Self {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let clock = ManualClock::new();
        let settings = sluicegate_config::parse("rules.yaml", RULES).expect("good rules").settings;
        let sluice = Sluice::builder().rules(settings.rules).clock(clock.clone()).memory(1 << 22).build();
        let sluice = sluice.expect("rules that fit");
        let api = Api::new(sluice.clone(), &Server::default(), HeaderStyle::Ietf, None);
        let adhoc = Arc::new(AdHoc::new(1_000, clock.clone()).expect("few keys"));
        let (style, max_request) = (HeaderStyle::Ietf, LONGEST);
        let pause = std::time::Duration::from_secs(30);
        let terms =
            Terms { domains: DomainsInForce::default(), secret: None, style, max_request, pause, max_checks: 1_000 };
        let rls = runtime.block_on(Rls::new(sluice, adhoc, terms)).expect("a service");
        Self { runtime, clock, api, rls }
    }

    /// Commands of the Redis protocol: whether they come at once or in drops, they are answered alike.
    pub fn resp(&self, bytes: &[u8]) {
        let bytes = bytes.get(..LONGEST).unwrap_or(bytes);
        let at_once = self.converse(bytes, bytes.len().max(1));
        assert_eq!(self.converse(bytes, 7), at_once, "in drops it was answered otherwise");
    }

    /// What is answered to commands that come in pieces of this length, by a server that has not been asked yet.
    fn converse(&self, bytes: &[u8], piece: usize) -> Vec<u8> {
        let sluice = Sluice::builder().clock(self.clock.clone()).memory(1 << 16).build().expect("no rules");
        let adhoc = Arc::new(AdHoc::new(1_000, self.clock.clone()).expect("few keys"));
        let clock = ClockHandle::new(self.clock.clone());
        let (whole_command, idle) = (Duration::from_secs(30), Duration::from_secs(60));
        let bounds = Bounds { max_request: LONGEST, whole_command, idle };
        let resp = Resp::new(sluice, adhoc, None, bounds, clock);
        let (ours, theirs) = duplex(2 * LONGEST);
        let (mut reading, mut writing) = tokio::io::split(ours);
        let (_closing, closed) = watch::channel(());
        self.runtime.block_on(async {
            let mut told = Vec::new();
            let send = async {
                for piece in bytes.chunks(piece) {
                    // Whoever has said something wrong is not listened to any more.
                    if writing.write_all(piece).await.is_err() {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
                // It may have hung up already.
                drop(writing.shutdown().await);
            };
            let serve = async {
                resp.serve(theirs, closed).await;
            };
            let (_, _, read) = tokio::join!(serve, send, reading.read_to_end(&mut told));
            read.expect("the stream ends well");
            told
        })
    }

    /// The body of a check over HTTP: decided or refused with a problem, and never the server's fault.
    pub fn check(&self, bytes: &[u8]) {
        let mut request = Request::post("/v1/check").body(Full::new(Bytes::copy_from_slice(bytes))).expect("a call");
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.runtime.block_on(async {
            let answer = self.api.answer(request, SocketAddr::from((Ipv4Addr::LOCALHOST, 1))).await;
            let status = answer.status();
            assert!(matches!(status.as_u16(), 200 | 400 | 404 | 413), "{status}");
            let body = answer.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            serde_json::from_slice::<serde_json::Value>(&body).expect("an answer in JSON");
        });
    }

    /// A request of Envoy's in protobuf.
    pub fn rls(&self, bytes: &[u8]) {
        self.rls.is_decided(Bytes::copy_from_slice(bytes));
    }

    /// The same in JSON: 200, 429 or 400.
    pub fn rls_json(&self, bytes: &[u8]) {
        let answer = self.runtime.block_on(self.rls.json(Bytes::copy_from_slice(bytes)));
        assert!(matches!(answer.status().as_u16(), 200 | 400 | 429), "{}", answer.status());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    /// The seeds of a target, each with its name.
    fn seeds(target: &str) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
        let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(!files.is_empty());
        files.into_iter().map(|file| fs::read(file).unwrap()).collect()
    }

    /// Two seeds cut and joined anywhere, with some bytes put between and some changed.
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
            for (place, byte) in changes {
                if !bytes.is_empty() {
                    let place = place.index(bytes.len());
                    bytes[place] = byte;
                }
            }
            bytes
        })
    }

    /// What the fuzzer would do, without it: seeds as they are, then thousands of inputs made of them.
    fn explore(target: &str, feed: impl Fn(&Readers, &[u8])) {
        let readers = Readers::new();
        let seeds = seeds(target);
        seeds.iter().for_each(|seed| feed(&readers, seed));
        let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3_000) };
        proptest!(config, |(bytes in mutated(seeds))| feed(&readers, &bytes));
    }

    #[test]
    fn resp() {
        explore("resp", Readers::resp);
    }

    #[test]
    fn check() {
        explore("check", Readers::check);
    }

    #[test]
    fn rls() {
        explore("rls", Readers::rls);
    }

    #[test]
    fn rls_json() {
        explore("rls_json", Readers::rls_json);
    }

    #[test]
    fn ratelimit() {
        explore("ratelimit", |_, bytes| {
            let Ok(text) = str::from_utf8(bytes) else { return };
            // Whatever is wrong is told; that it can be told is part of it.
            if let Err(report) = sluicegate_config::ratelimit::Domains::parse(&[("a.yaml".into(), text.into())]) {
                assert!(!report.to_string().is_empty());
            }
        });
    }
}

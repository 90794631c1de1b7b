//! Fuzzes envoyproxy/ratelimit files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluicegate_import::envoy_ratelimit::Domains;

fuzz_target!(|text: &str| {
    if let Err(report) = Domains::parse(&[("a.yaml".to_owned(), text.to_owned())]) {
        assert!(!report.to_string().is_empty());
    }
});

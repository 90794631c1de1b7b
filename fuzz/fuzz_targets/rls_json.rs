//! Fuzzes requests of Envoy's rate limit service in JSON.
#![no_main]

use std::cell::LazyCell;

use libfuzzer_sys::fuzz_target;
use sluicegate_server::fuzzing::FuzzTargets;

thread_local!(static TARGETS: LazyCell<FuzzTargets> = LazyCell::new(FuzzTargets::new));

fuzz_target!(|bytes: &[u8]| TARGETS.with(|targets| targets.rls_json(bytes)));

//! Commands of the Redis protocol.
#![no_main]

use std::cell::LazyCell;

use libfuzzer_sys::fuzz_target;
use sluicegate_server::fuzzing::Readers;

thread_local!(static READERS: LazyCell<Readers> = LazyCell::new(Readers::new));

fuzz_target!(|bytes: &[u8]| READERS.with(|readers| readers.resp(bytes)));

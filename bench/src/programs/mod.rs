//! Programs under measurement and load generators: start, load, interleaved rounds.

pub(crate) mod client;
pub(crate) mod open_loop;
pub(crate) mod program;
pub(crate) mod redis_benchmark;
pub(crate) mod rounds;
pub(crate) mod sluicegate;
pub(crate) mod temp_dir;
pub(crate) mod wrk;

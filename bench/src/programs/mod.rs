//! Whole programs beside each other: how they are started, asked, and measured in turn.

pub(crate) mod client;
pub(crate) mod folder;
pub(crate) mod open_loop;
pub(crate) mod program;
pub(crate) mod redis_benchmark;
pub(crate) mod rounds;
pub(crate) mod sluicegate;
pub(crate) mod wrk;

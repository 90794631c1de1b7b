//! Protection that moves with the strain on a process.
//!
//! A fixed limit is right for one machine on one day. What is in here looks at how the process fares, several times a
//! second, and turns the [gates](sluicegate_engine::gate) of rules accordingly. From the signs to the act:
//!
//! | step | module |
//! |---|---|
//! | machine, control group and network are read, all in one go | [`signals`] |
//! | conditions on them, with memory, give a ceiling | [`conditions`] |
//! | or times and throughput give a number of places | [`auto`] |
//! | or CPU time per request gives a rate | [`cpu`] |
//! | the gate is ordered to, and told why | [`law`], [`pilot`] |
//!
//! Laws are plain state machines: they are told the time and what passed, and answer with orders. The same code runs
//! on a real process and in simulated time. [`client`] is the counterpart for the calling side.

pub mod auto;
pub mod client;
pub mod conditions;
pub mod cpu;
pub mod law;
pub mod pilot;
pub mod readings;
pub mod signals;
mod words;

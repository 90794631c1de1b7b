//! Overload, in virtual time: arrivals, something that stands before a server, and the server.
//!
//! What protects a server from overload can only be judged by what comes of it, and that only when the same requests
//! meet every protection there is to compare. So this is a simulation of discrete events: no clock, no threads, random
//! numbers from a seed; half an hour of overload passes in a second, and twice the same.
//!
//! A request's life:
//!
//! 1. It arrives, as often as the [`Load`] says, with a class, an amount of [`Work`], and a caller whose patience ends.
//! 2. The [`Front`] lets it in, lets it wait or refuses it.
//! 3. The [`Server`] works on it, beside or after the others inside. It does not notice that a caller is gone: work on
//!    answers that nobody waits for is what overload is made of.
//! 4. An answer in time is good, a later one was in vain.
//!
//! [`Scenario::run`] plays it all, and the [`Story`] it gives back answers questions: goodput, percentiles, who was
//! refused, how long until it settled. [`peers`] has the laws of other projects as fronts.
//!
//! ```
//! use sluicegate_testkit::overload::{Load, Scenario, Server, Work, peers::{Aimd, Nothing}};
//!
//! // Eight workers, 10 ms of work each: 800 requests a second. Twice that many come.
//! let scenario = Scenario::new(Server::queue(8), Work::Exponential { mean: 0.010 }, Load::steady(2.0), 20.0);
//! let bare = scenario.run(1, &mut Nothing);
//! let held = scenario.run(1, &mut Aimd::default());
//! assert!(bare.goodput(10.0..20.0) < 0.1 * scenario.capacity(0.0));
//! assert!(held.goodput(10.0..20.0) > 0.9 * scenario.capacity(0.0));
//! ```

mod chance;
mod load;
pub mod peers;
mod run;
mod server;
mod story;
pub mod trial;
mod work;

pub use load::{Class, Load};
pub use run::Scenario;
pub use server::Server;
pub use story::{Answered, Ending, Story, percentile};
pub use work::{Pace, Work};

/// Nanoseconds in a second: moments are counted in nanoseconds since the start.
pub const SECOND: u64 = 1_000_000_000;

/// How often a front is asked whether it wants to change something.
pub const TICK: u64 = SECOND / 20;

/// What stands before a server.
pub trait Front {
    /// A request comes. Whoever waits is told later, through [`Front::called`].
    fn offer(&mut self, now: u64, who: u32, class: Class) -> Answer;

    /// A request that was let in is done after so many nanoseconds inside; `well`: somebody still waited for it.
    fn finish(&mut self, now: u64, who: u32, took: u64, well: bool);

    /// The moment until which a request was told to wait has come. Answers whether it still waited.
    fn leave(&mut self, now: u64, who: u32) -> bool {
        let _ = (now, who);
        false
    }

    /// The next whose wait is over, and whether it comes in. Asked until there is none, after everything that happens.
    fn called(&mut self) -> Option<(u32, bool)> {
        None
    }

    /// Time has passed. `cpu` is the share of the cores that was busy since the last tick.
    fn tick(&mut self, now: u64, cpu: f64) {
        let _ = (now, cpu);
    }

    /// How many may be inside at once, as of now; `None`: that is not how it holds back.
    fn limit(&self) -> Option<f64> {
        None
    }
}

/// What a front says to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Come in.
    Enter,
    /// Wait, but not past this moment.
    Wait {
        /// When to give up.
        until: u64,
    },
    /// Go away.
    Refuse,
}

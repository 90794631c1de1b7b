//! What other projects put before a server, each written anew after what it is known to compute, with the constants it
//! comes with.
//!
//! | front | after | holds back when |
//! |---|---|---|
//! | [`Nothing`] | | never |
//! | [`Vegas`] | Netflix concurrency-limits, `VegasLimit` | places, by the queue that the shortest time seen implies |
//! | [`Gradient2`] | the same, `Gradient2Limit` in windows of a second | places, by the ratio of a long average to now |
//! | [`Aimd`] | the same, `AIMDLimit` | places, one more per answer, a tenth fewer per timeout |
//! | [`Sentinel`] | Alibaba Sentinel, system rule | busy CPU and more inside than most answers x least time |
//! | [`Kratos`] | go-kratos aegis, `bbr` | the same with slower senses and a cool-down |
//!
//! None of them lets anybody wait, or knows classes. A caller who is gone when the answer comes counts as a timeout.

mod aimd;
mod gradient2;
mod kratos;
mod sentinel;
mod vegas;

use std::collections::HashMap;

pub use aimd::Aimd;
pub use gradient2::Gradient2;
pub use kratos::Kratos;
pub use sentinel::Sentinel;
pub use vegas::Vegas;

use super::{Answer, Class, Front};

/// Everybody comes in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Front for Nothing {
    fn offer(&mut self, _: u64, _: u32, _: Class) -> Answer {
        Answer::Enter
    }

    fn finish(&mut self, _: u64, _: u32, _: u64, _: bool) {}
}

/// Who is inside, and how many were inside when they came, themselves included.
#[derive(Clone, Debug, Default)]
struct Inside(HashMap<u32, usize>);

impl Inside {
    fn len(&self) -> usize {
        self.0.len()
    }

    /// Lets one in while there are fewer inside than that.
    fn enter_below(&mut self, who: u32, limit: f64) -> Answer {
        if self.len() as f64 + 1.0 > limit.max(1.0) {
            return Answer::Refuse;
        }
        self.0.insert(who, self.len() + 1);
        Answer::Enter
    }

    /// One is done. Answers how many were inside when it came.
    fn finish(&mut self, who: u32) -> usize {
        self.0.remove(&who).unwrap_or(1)
    }
}

//! Sluicegate's decisions as HTTP, without a server: who a request is from, what its attributes are, and
//! how an outcome is told to the client. The tower layers, the gateway and the decision server stand on
//! it; none of them reads or renders anything by itself.
//!
//! | question | module |
//! |---|---|
//! | who the client is, behind proxies or not | [`identity`] |
//! | what rules can know of a request | [`attributes`] |
//! | which path rules are matched against | [`normal_path`] |
//! | what is left to the client | [`headers`] |
//! | what is answered to a refused request | [`reply`] |
//! | what an answer asks of whoever calls next | [`advice`] |
//! | how fast a body may pass | [`Paced`] |
//! | what a request really cost | [`Tally`] |
//! | what calls of Sluicegate's own APIs have in common | [`call`] |

pub mod advice;
pub mod attributes;
pub mod call;
mod ending;
mod faces;
pub mod headers;
pub mod identity;
mod pacing;
mod path;
mod render;
pub mod reply;
mod tally;
mod told;

pub use ending::ending_of;
pub use headers::HeaderStyle;
pub use pacing::Paced;
pub use path::normal_path;
pub use render::Renderer;
pub use reply::Protocol;
pub use tally::Tally;

//! Sluicegate's decisions as HTTP, without a server: who a request is from, what its attributes are, and
//! how an outcome is told to the client. The tower layers, the gateway and the decision server stand on
//! it; none of them renders anything by itself.
//!
//! | question | module |
//! |---|---|
//! | what is left to the client | [`headers`] |
//! | what is answered to a refused request | [`reply`] |

mod faces;
pub mod headers;
mod render;
pub mod reply;

pub use headers::HeaderStyle;
pub use render::Renderer;
pub use reply::Protocol;

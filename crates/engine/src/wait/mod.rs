//! Waiting for a turn: the lines, and what a caller does in one.

mod block_on;
mod in_line;
mod room;

pub(crate) use block_on::block_on;
pub(crate) use in_line::{Asked, InLine, Turn};
pub(crate) use room::{Bounds, WaitRoom, Watcher};

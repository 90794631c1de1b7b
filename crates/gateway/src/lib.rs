//! The gateway: a reverse proxy with flow control, in front of any program.

mod listen;
mod restart;
mod stream;

//! The gateway: a reverse proxy with flow control, in front of any program.

mod alarm;
mod body;
mod client;
mod demo;
mod exchange;
mod failure;
mod head;
mod lane;
mod route;
mod shared;
mod stream;
mod thread;
mod upstream;

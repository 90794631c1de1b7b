//! Protocol tests: messages between clients and servers pass the gateway correctly.

use crate::support;

mod real_clients;
mod responses;
mod scripted;
mod streaming;
mod trailers;
mod uploads;
mod websocket;
mod websockets_py;

//! The real program with a decision server: restart and shutdown under load, crash, invalid files, and a real
//! Envoy.

use crate::support;

mod crash;
mod draining;
mod envoy;
mod invalid_files;
mod load;
mod program;
mod restarts;
mod shared_rules;
mod unix_sockets;

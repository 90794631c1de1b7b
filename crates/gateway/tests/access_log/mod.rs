//! Access log and request IDs, as seen by clients, servers and readers of the file.

mod disconnects;
mod file;
mod ids;
mod lines;
use crate::support;

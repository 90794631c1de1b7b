//! The real program under load: restart, shutdown, invalid rules, certificate reload and log rotation.

mod certificates;
mod load;
mod long_lived;
use crate::pages::page;
mod program;
mod protocols;
mod raw_http;
mod rotation;
mod serving;
mod upstream;

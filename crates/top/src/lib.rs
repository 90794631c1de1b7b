//! `sluicegate top`: live statistics of a running process in a terminal.
//!
//! ```text
//!  args --> target                    endpoint, token, interval
//!            client --> poll          the admin API: tick stream and periodic requests
//!                         | updates
//!  keys typed --------> model         all data and user choices
//!                         |
//!                        draw         renders the model      screen: the terminal
//!                        once         one plain table, without a terminal
//! ```
//!
//! - `args`, `value_parser`: command-line arguments ([`TopArgs`]) and the parsers of their values.
//! - `target`: the process to watch, and the access token.
//! - `client`, `api_types`: client of the admin API and the types of its responses.
//! - `poll`: fetches updates.
//! - `model`, `draw`, `screen`: data, rendering and terminal.
//! - `once`: one table instead of a screen.
//! - `sanitize`: text of the watched process, which is not trusted.

mod api_types;
mod args;
mod client;
mod draw;
mod model;
mod once;
mod poll;
mod sanitize;
mod screen;
mod target;
mod value_parser;

pub use args::TopArgs;
pub use value_parser::parse_admin_url;

use std::io::{self, IsTerminal};

use sluicegate_terminal::CommandOutput;

use self::client::AdminClient;
use self::draw::Palette;
use self::model::Model;
use self::target::AdminTarget;

/// Shows live statistics until the user quits, or prints one table.
pub fn run(args: &TopArgs, is_coloured: bool) -> CommandOutput {
    match run_view(args, is_coloured) {
        Ok(text) => CommandOutput::done(text),
        Err(message) => CommandOutput::failed(&message),
    }
}

fn run_view(args: &TopArgs, is_coloured: bool) -> Result<String, String> {
    let target = AdminTarget::new(args)?;
    let (endpoint, interval) = (target.endpoint.to_string(), target.interval);
    let client = AdminClient::new(target)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let output = if args.once || !has_terminal() {
        let sampled = runtime.block_on(once::sample_once(client, endpoint.clone(), interval));
        sampled.map_err(|error| format!("{endpoint}: {}", sanitize::UntrustedText::from(error.to_string().as_str())))
    } else {
        let palette = Palette::new(is_coloured);
        let result = runtime.block_on(screen::run(client, Model::new(endpoint, interval), interval, palette));
        result.map(|()| String::new()).map_err(|error| format!("cannot use the terminal: {error}"))
    };
    // A DNS lookup still in progress is not awaited.
    runtime.shutdown_background();
    output
}

/// True if input and output are a terminal that can be drawn on.
fn has_terminal() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|kind| kind.is_empty() || kind == "dumb");
    io::stdout().is_terminal() && io::stdin().is_terminal() && !is_dumb
}

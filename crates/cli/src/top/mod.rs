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

mod api_types;
mod client;
mod draw;
mod model;
mod once;
mod poll;
mod sanitize;
mod screen;
pub(crate) mod target;

use std::io::{self, IsTerminal};

use sluicegate_config::RenderStyle;

use self::client::AdminClient;
use self::draw::Palette;
use self::model::Model;
use self::target::AdminTarget;
use crate::args;
use crate::output::{CommandOutput, TerminalStyle};

pub(crate) fn run(args: &args::Top, style: TerminalStyle) -> CommandOutput {
    match run_view(args, style) {
        Ok(text) => CommandOutput::done(text),
        Err(message) => CommandOutput::failed(&message),
    }
}

fn run_view(args: &args::Top, style: TerminalStyle) -> Result<String, String> {
    let target = AdminTarget::new(args)?;
    let (endpoint, interval) = (target.endpoint.to_string(), target.interval);
    let client = AdminClient::new(target)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let output = if args.once || !has_terminal() {
        let sampled = runtime.block_on(once::sample_once(client, endpoint.clone(), interval));
        sampled.map_err(|error| format!("{endpoint}: {}", sanitize::UntrustedText::from(error.to_string().as_str())))
    } else {
        let palette = Palette::new(style.out == RenderStyle::Coloured);
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

//! `sluicegate top`: what a running process does, live in a terminal.
//!
//! ```text
//!  args --> target                    where, with which token, how often
//!            client --> watch         the admin API: a stream of figures, questions from time to time
//!                         | news
//!  keys typed --------> model         everything that is known and chosen
//!                         |
//!                        draw         a picture of it        screen: the terminal around it
//!                        once         or one plain table, where there is no terminal
//! ```

mod client;
mod draw;
mod model;
mod once;
mod screen;
pub(crate) mod target;
mod text;
mod watch;
mod wire;

use std::io::{self, IsTerminal};

use sluicegate_config::Style;

use self::client::Client;
use self::draw::Palette;
use self::model::Model;
use self::target::Target;
use crate::answer::{Answer, Look};
use crate::args;

pub(crate) fn run(args: &args::Top, look: Look) -> Answer {
    match shown(args, look) {
        Ok(text) => Answer::done(text),
        Err(message) => Answer::failed(&message),
    }
}

fn shown(args: &args::Top, look: Look) -> Result<String, String> {
    let target = Target::new(args)?;
    let (place, interval) = (target.place.to_string(), target.interval);
    let client = Client::new(target)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let end = if args.once || !can_draw() {
        let looked = runtime.block_on(once::look(client, place.clone(), interval));
        looked.map_err(|trouble| format!("{place}: {}", text::Text::from(trouble.to_string().as_str())))
    } else {
        let palette = Palette::new(look.out == Style::Coloured);
        let watched = runtime.block_on(screen::watch(client, Model::new(place, interval), interval, palette));
        watched.map(|()| String::new()).map_err(|error| format!("the terminal cannot be used: {error}"))
    };
    // A name that is still being looked up is not waited for.
    runtime.shutdown_background();
    end
}

/// Whether there is a terminal that can be drawn on, and typed at.
fn can_draw() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|kind| kind.is_empty() || kind == "dumb");
    io::stdout().is_terminal() && io::stdin().is_terminal() && !is_dumb
}

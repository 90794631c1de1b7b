//! `sluicegate run`: does what a rule file says, until it is told to stop.

mod services;
mod signals;

use std::io::{self, Write};

use sluicegate_listen::{Notice, Process};

use crate::answer::{Answer, Look};
use crate::args;
use crate::rules::{self, Read};
use services::Services;
use signals::{Signals, Stopped};

/// The rules without a file.
const FIRST_RUN: &str = include_str!("../../../examples/rules/first-run.yaml");

pub(crate) fn run(args: &args::Run, look: Look, process: Process) -> Answer {
    match served(args, look, process) {
        Ok(()) => Answer::done(String::new()),
        Err(answer) => answer,
    }
}

fn served(args: &args::Run, look: Look, mut process: Process) -> Result<(), Answer> {
    let read = match &args.file {
        Some(path) => rules::load(path, look)?,
        None => {
            let parsed = sluicegate_config::parse("the built-in rules", FIRST_RUN);
            Read { loaded: parsed.map_err(|report| Answer::bad_rules(&report, look))?, domains: None }
        }
    };
    let signals = Signals::listen().map_err(|error| Answer::failed(&error.to_string()))?;
    let services = Services::start(read, &mut process);
    let services = services.inspect_err(|_| process.give_up())?;
    process.tell(Notice::Ready);
    let report = match signals.attend(&services, &process) {
        Stopped::Told(how) => {
            say(&format!("{how}: no more connections are taken, requests under way are answered"));
            process.tell(Notice::Stopping);
            process.let_go(true);
            services.stop(sluicegate_listen::Stop::Close)
        }
        Stopped::Followed(successor) => {
            say(&format!("process {successor} has taken over: requests under way are answered"));
            process.let_go(false);
            services.stop(sluicegate_listen::Stop::HandOver)
        }
    };
    if report.aborted > 0 {
        say(&format!("{} connections were cut off: they took longer than timeouts.stop", report.aborted));
    }
    Ok(())
}

fn say(line: &str) {
    // Nobody may be reading; the services go on all the same.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

//! `sluicegate run`: does what a rule file says, until it is told to stop.

mod diary;
mod files;
mod reload;
mod services;
mod signals;
mod vitals;

use std::path::Path;

use sluicegate_listen::{Notice, Process};
use tracing::{info, warn};

use crate::answer::{Answer, Look};
use crate::args;
use crate::rules;
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
    let (read, file) = match args.file.as_deref() {
        // What was read from standard input cannot be read again.
        Some(path) => (rules::load(path, look)?, Some(path).filter(|path| *path != Path::new("-"))),
        None => (rules::built_in(FIRST_RUN).map_err(|report| Answer::bad_rules(&report, look))?, None),
    };
    files::take_what_is_allowed();
    diary::open(read.loaded.settings.log);
    let signals = Signals::listen().map_err(|error| Answer::failed(&error.to_string()))?;
    let services = Services::start(read, file, &mut process);
    let services = services.inspect_err(|_| process.give_up())?;
    process.tell(Notice::Ready);
    let report = match signals.attend(&services, &process) {
        Stopped::Told(how) => {
            info!("{how}: no more connections are taken, requests under way are answered");
            process.tell(Notice::Stopping);
            process.let_go(true);
            services.stop(sluicegate_listen::Stop::Close)
        }
        Stopped::Followed(successor) => {
            info!("process {successor} has taken over: requests under way are answered");
            process.let_go(false);
            services.stop(sluicegate_listen::Stop::HandOver)
        }
    };
    if report.aborted > 0 {
        warn!("{} connections were cut off: they took longer than timeouts.stop", report.aborted);
    }
    Ok(())
}

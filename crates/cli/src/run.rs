//! `sluicegate run`: runs the services of a rule file until a stop signal.

mod logging;
mod ratelimit_dir;
mod rlimit;
mod services;
mod signals;
mod stats;

use std::path::Path;

use sluicegate_net::{Process, ServiceNotice};
use sluicegate_terminal::CommandOutput;
use tracing::{info, warn};

use crate::args;
use crate::rules;
use crate::style::{TerminalStyle, invalid_rules};
use services::Services;
use signals::{Signals, StopReason};

/// Rules used without a file.
const FIRST_RUN: &str = include_str!("../../../examples/rules/first-run.yaml");

pub(crate) fn run(args: &args::Run, style: TerminalStyle, process: Process) -> CommandOutput {
    match serve(args, style, process) {
        Ok(()) => CommandOutput::done(String::new()),
        Err(output) => output,
    }
}

fn serve(args: &args::Run, style: TerminalStyle, mut process: Process) -> Result<(), CommandOutput> {
    let (read, file) = match args.file.as_deref() {
        // Standard input cannot be read again.
        Some(path) => (rules::load(path, style)?, Some(path).filter(|path| *path != Path::new("-"))),
        None => (rules::built_in(FIRST_RUN).map_err(|report| invalid_rules(&report, style))?, None),
    };
    rlimit::raise_soft_limit();
    logging::init(read.loaded.settings.log);
    let signals = Signals::listen().map_err(|error| CommandOutput::failed(&error.to_string()))?;
    let services = Services::start(read, file, &mut process);
    let services = services.inspect_err(|_| process.abandon_sockets())?;
    process.notify(ServiceNotice::Ready);
    let report = match signals.wait_for_stop(&services, &process) {
        StopReason::Signal(reason) => {
            info!("{reason}: no new connections are accepted, requests in flight are completed");
            process.notify(ServiceNotice::Stopping);
            process.release_sockets(true);
            services.stop(sluicegate_net::Shutdown::Close)
        }
        StopReason::Successor(successor) => {
            info!("process {successor} has taken over: requests in flight are completed");
            process.release_sockets(false);
            services.stop(sluicegate_net::Shutdown::HandOver)
        }
    };
    if report.aborted > 0 {
        warn!("{} connections were aborted at the end of timeouts.drain", report.aborted);
    }
    Ok(())
}

//! `sluicegate run`: does what a rule file says, until it is told to stop.

use std::io::{self, Write};
use std::path::Path;

use sluicegate_config::Loaded;
use sluicegate_gateway::{Gateway, Process, Running};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::answer::{Answer, Look};
use crate::args;
use crate::greeting::greeting;
use crate::rules;

/// The rules without a file.
const FIRST_RUN: &str = include_str!("../../../examples/rules/first-run.yaml");

pub(crate) fn run(args: &args::Run, look: Look, process: Process) -> Answer {
    match served(args, look, process) {
        Ok(()) => Answer::done(String::new()),
        Err(answer) => answer,
    }
}

fn served(args: &args::Run, look: Look, mut process: Process) -> Result<(), Answer> {
    let loaded: Loaded = match &args.file {
        Some(path) => rules::load(path, look)?,
        None => {
            let parsed = sluicegate_config::parse("the built-in rules", FIRST_RUN);
            parsed.map_err(|report| Answer::bad_rules(&report, look))?
        }
    };
    let settings = loaded.settings;
    let Some(gateway) = settings.gateway.clone() else {
        return Err(Answer::failed(
            "the file has no `gateway`: there is nothing to run; `sluicegate check` shows what it says",
        ));
    };
    let failed = |error: &dyn std::fmt::Display| Answer::failed(&error.to_string());
    let signals = Signals::listen().map_err(|error| failed(&error))?;
    let remembered = process.take_remembered();
    let sluice = sluicegate::resume(settings.clone(), remembered).map_err(|error| failed(&error))?;
    // The reader has looked up all files from the folder of the rule file.
    let opened = Gateway::open(&settings, &gateway, sluice, Path::new(""), process).map_err(|error| failed(&error))?;
    let running = opened.start(say).map_err(|error| failed(&error))?;
    say(&greeting(&settings, &gateway, running.addresses()));
    let report = match signals.attend(&running) {
        Stop::Told(how) => {
            say(&format!("{how}: no more connections are taken, requests under way are answered"));
            running.stop()
        }
        Stop::Followed(process) => {
            say(&format!("process {process} has taken over: requests under way are answered"));
            running.hand_over()
        }
    };
    if report.aborted > 0 {
        say(&format!("{} connections were cut off: they took longer than timeouts.stop", report.aborted));
    }
    Ok(())
}

/// Why to stop.
enum Stop {
    /// Somebody said so.
    Told(&'static str),
    /// This process serves instead.
    Followed(u32),
}

/// What the process is told by signals. Who does not listen for them is ended by them, so it is heard from before
/// the gateway says that it serves.
struct Signals {
    runtime: Runtime,
    terminate: Signal,
    interrupt: Signal,
    reopen: Signal,
    reload: Signal,
    restart: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let within = runtime.enter();
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let reopen = signal(SignalKind::user_defined1())?;
        let (reload, restart) = (signal(SignalKind::hangup())?, signal(SignalKind::user_defined2())?);
        drop(within);
        Ok(Self { runtime, terminate, interrupt, reopen, reload, restart })
    }

    /// Waits until the gateway is to stop. SIGUSR1 opens the access log anew, SIGHUP reads certificates again,
    /// SIGUSR2 starts the program anew at the same sockets.
    fn attend(self, running: &Running) -> Stop {
        let Self { runtime, mut terminate, mut interrupt, mut reopen, mut reload, mut restart } = self;
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = terminate.recv() => return Stop::Told("told to stop"),
                    _ = interrupt.recv() => return Stop::Told("interrupted"),
                    _ = reopen.recv() => running.reopen_log(),
                    _ = reload.recv() => {
                        let bad = running.reload_certificates().await;
                        bad.iter().for_each(|error| say(&format!("a certificate stays as it was: {error}")));
                    }
                    _ = restart.recv() => match running.follow().await {
                        Ok(process) => return Stop::Followed(process),
                        Err(error) => say(&error.to_string()),
                    },
                }
            }
        })
    }
}

fn say(line: &str) {
    // Nobody may be reading; the gateway serves all the same.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

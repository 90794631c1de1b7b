//! `sluicegate run`: does what a rule file says, until it is told to stop.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sluicegate_config::Loaded;
use sluicegate_config::settings::{Servers, Settings};
use sluicegate_gateway::{Gateway, Running};
use tokio::signal::unix::{SignalKind, signal};

use crate::answer::{Answer, Look};
use crate::args;
use crate::rules;

/// The rules without a file.
const FIRST_RUN: &str = include_str!("../../../examples/rules/first-run.yaml");

pub(crate) fn run(args: &args::Run, look: Look) -> Answer {
    match served(args, look) {
        Ok(()) => Answer::done(String::new()),
        Err(answer) => answer,
    }
}

fn served(args: &args::Run, look: Look) -> Result<(), Answer> {
    let (base, loaded): (PathBuf, Loaded) = match &args.file {
        Some(path) => (path.parent().map(Path::to_owned).unwrap_or_default(), rules::load(path, look)?),
        None => {
            let parsed = sluicegate_config::parse("the built-in rules", FIRST_RUN);
            (PathBuf::new(), parsed.map_err(|report| Answer::bad_rules(&report, look))?)
        }
    };
    let settings = loaded.settings;
    let Some(gateway) = settings.gateway.clone() else {
        return Err(Answer::failed(
            "the file has no `gateway`: there is nothing to run; `sluicegate check` shows what it says",
        ));
    };
    let failed = |error: &dyn std::fmt::Display| Answer::failed(&error.to_string());
    let sluice = sluicegate::enforce(settings.clone()).map_err(|error| failed(&error))?;
    let opened = Gateway::open(&settings, &gateway, sluice, &base).map_err(|error| failed(&error))?;
    let running = opened.start().map_err(|error| failed(&error))?;
    say(&greeting(&settings, &running));
    let stop = wait_for_stop().map_err(|error| failed(&error))?;
    say(&format!("{stop}: no more connections are taken, requests under way are answered\n"));
    running.stop();
    Ok(())
}

fn greeting(settings: &Settings, running: &Running) -> String {
    let demo = settings.gateway.iter().flat_map(|gateway| &gateway.upstreams);
    let demo = demo.filter(|upstream| upstream.servers == Servers::Builtin).count() > 0;
    let mut text = String::new();
    for address in running.addresses() {
        text.push_str(&format!("listening at http://{address}\n"));
    }
    if demo {
        text.push_str("requests go to the built-in demo\n");
    }
    text
}

/// Waits until the process is told to stop, and answers by what.
fn wait_for_stop() -> io::Result<&'static str> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::select! {
            _ = terminate.recv() => Ok("told to stop"),
            _ = interrupt.recv() => Ok("interrupted"),
        }
    })
}

fn say(text: &str) {
    // Nobody may be reading; the gateway serves all the same.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

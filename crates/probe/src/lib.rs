//! `sluicegate probe`: finds the peak rate of a service by a load test, and proposes a limit below it.
//!
//! ```text
//!  args --> settings, authorize       the request to send, and the permission to load the target
//!                |
//!             search  <---- criteria  the next rate; the verdict on a step, or the bottleneck of the generator
//!                | schedule   ^
//!               load  ----> step      sends requests on schedule; counts the results
//!                |
//!             progress                display during the test
//!              report                 summary, table, plot, rule, SVG, HTML, JSON
//! ```
//!
//! All decisions are pure functions of the measurements (`schedule`, `step`, `criteria`, `search`,
//! `report`); the modules that use network, clock and terminal decide nothing (`load`, `progress`).
//!
//! - `args`, `value_parser`: command-line arguments ([`ProbeArgs`]) and the parsers of their values.
//! - `settings`: the search and the request that the arguments describe.
//! - `authorize`: permission to load a target on another machine.
//! - `search`, `schedule`: the next rate, and the send times of a step.
//! - `load`: open-loop load generator.
//! - `step`, `criteria`: measurements of a step, and the verdict on them.
//! - `progress`, `report`, `format`: output.

mod args;
mod authorize;
mod criteria;
mod format;
mod load;
mod progress;
mod report;
mod schedule;
mod search;
mod settings;
mod step;
mod value_parser;

pub use args::ProbeArgs;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluicegate_http_client::{Connector, Endpoint};
use sluicegate_terminal::{CommandOutput, Exit, OutputFormat};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval, sleep};

use self::authorize::LoadAuthorization;
use self::criteria::{judge, max_p99};
use self::load::{LoadGenerator, LoadTarget};
use self::progress::{Progress, ProgressView};
use self::report::Findings;
use self::schedule::Schedule;
use self::search::{SearchAction, SearchEnd, StepPurpose};
use self::settings::{ProbeRequest, ProbeSettings};
use self::step::StepResult;

/// Redraw interval of the progress display.
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);

/// Error that prevents a report.
enum ProbeError {
    /// Usage error.
    Usage(String),
    /// The target cannot be loaded.
    Target(String),
}

/// Runs the load test and writes its reports.
pub fn run(args: &ProbeArgs) -> CommandOutput {
    match probe(args) {
        Ok(findings) => write_outputs(args, &findings),
        Err(ProbeError::Target(message)) => CommandOutput::failed(&message),
        Err(ProbeError::Usage(message)) => CommandOutput { exit: Exit::Usage, ..CommandOutput::failed(&message) },
    }
}

fn probe(args: &ProbeArgs) -> Result<Findings, ProbeError> {
    let settings = ProbeSettings::new(args).map_err(ProbeError::Usage)?;
    let request = ProbeRequest::new(args).map_err(ProbeError::Usage)?;
    for file in output_files(args) {
        check_directory(file).map_err(ProbeError::Usage)?;
    }
    let (method, path) = (request.method.to_string(), args.url.path.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| ProbeError::Target(error.to_string()))?;
    let found = runtime.block_on(async {
        let addresses = authorized_addresses(&args.url, &LoadAuthorization::new(args)).await?;
        let address = addresses.first().map(SocketAddr::ip);
        let connector = Connector::new(args.url.clone()).map_err(ProbeError::Usage)?.pin_addresses(addresses);
        let (steps, end, took) = search(&settings, LoadTarget::new(request, connector))
            .await
            .map_err(|error| ProbeError::Target(format!("{}: {error}", args.url)))?;
        Ok(Findings {
            target: args.url.to_string(),
            method,
            path,
            address,
            max_p99: max_p99(&steps, settings.criteria),
            steps: judge(&steps, settings.criteria),
            end,
            buffer: args.buffer,
            took,
        })
    });
    // A DNS lookup still in progress is not awaited.
    runtime.shutdown_background();
    found
}

/// Resolves the target and checks that it may be loaded. Only these addresses are connected to.
async fn authorized_addresses(
    endpoint: &Endpoint,
    authorization: &LoadAuthorization,
) -> Result<Vec<SocketAddr>, ProbeError> {
    let usage = |error: authorize::AuthorizationError| ProbeError::Usage(error.to_string());
    authorization.check_name(&endpoint.host).map_err(usage)?;
    let unknown = |error: io::Error| ProbeError::Target(format!("{}: {error}", endpoint.host));
    let found = tokio::net::lookup_host((endpoint.host.as_str(), endpoint.port)).await.map_err(unknown)?;
    let addresses: Vec<SocketAddr> = found.collect();
    authorization.check_addresses(&endpoint.host, &addresses).map_err(usage)?;
    Ok(addresses)
}

/// Runs steps until the peak is found or the search ends. Returns the steps, the reason for the end, and the
/// duration.
async fn search(
    settings: &ProbeSettings,
    target: LoadTarget,
) -> Result<(Vec<StepResult>, SearchEnd, Duration), String> {
    let listen = |kind| signal(kind).map_err(|error| format!("cannot install signal handlers: {error}"));
    let mut signals = [listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?];
    let [interrupted, terminated] = &mut signals;
    tokio::select! {
        reachable = target.check_reachable() => {
            reachable?;
        }
        _ = interrupted.recv() => return Ok((Vec::new(), SearchEnd::Interrupted, Duration::ZERO)),
        _ = terminated.recv() => return Ok((Vec::new(), SearchEnd::Interrupted, Duration::ZERO)),
    }
    let failed = |error: io::Error| format!("load generator failed: {error}");
    let load = LoadGenerator::start(&Arc::new(target), settings.max_in_flight).map_err(failed)?;
    let mut progress = ProgressView::new();
    let start = Instant::now();
    let mut steps = Vec::new();
    let end = loop {
        let (rate, purpose) = match settings.search.next(&judge(&steps, settings.criteria)) {
            SearchAction::Try { rate, purpose } => (rate, purpose),
            SearchAction::End(end) => break end,
        };
        let schedule = Schedule::new(rate, settings.step);
        if start.elapsed() + schedule.length > settings.max_time {
            break SearchEnd::Time;
        }
        let run = StepRun { settings, steps: &steps, start, schedule, purpose };
        match run.run(&load, &mut progress, &mut signals).await.map_err(failed)? {
            Ok(step) => steps.push(step),
            Err(end) => break end,
        }
        if let Some(latest) = judge(&steps, settings.criteria).last() {
            progress.step(latest);
        }
    };
    progress.end();
    Ok((steps, end, start.elapsed()))
}

/// A step in progress.
struct StepRun<'a> {
    settings: &'a ProbeSettings,
    /// Earlier steps.
    steps: &'a [StepResult],
    start: Instant,
    schedule: Schedule,
    purpose: StepPurpose,
}

impl StepRun<'_> {
    /// Runs the step and shows its progress. If it is interrupted, or responses are missing when the time is up, its
    /// measurements are discarded.
    async fn run(
        &self,
        load: &LoadGenerator,
        progress: &mut ProgressView,
        signals: &mut [Signal; 2],
    ) -> io::Result<Result<StepResult, SearchEnd>> {
        let step = load.run(self.schedule);
        tokio::pin!(step);
        let (judged, max) = (judge(self.steps, self.settings.criteria), max_p99(self.steps, self.settings.criteria));
        let (step_start, mut ticks) = (Instant::now(), interval(REDRAW_INTERVAL));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let [interrupted, terminated] = signals;
        let mut max_time = pin!(sleep(self.settings.max_time.saturating_sub(self.start.elapsed())));
        loop {
            tokio::select! {
                step = &mut step => return step.map(Ok),
                _ = interrupted.recv() => return Ok(Err(SearchEnd::Interrupted)),
                _ = terminated.recv() => return Ok(Err(SearchEnd::Interrupted)),
                () = &mut max_time => return Ok(Err(SearchEnd::Time)),
                _ = ticks.tick() => progress.tick(&judged, max, Progress {
                    rate: self.schedule.rate,
                    purpose: self.purpose,
                    step_fraction: step_start.elapsed().as_secs_f64() / self.schedule.length.as_secs_f64(),
                    time_left: self.settings.max_time.saturating_sub(self.start.elapsed()),
                }),
            }
        }
    }
}

/// Files to write.
fn output_files(args: &ProbeArgs) -> impl Iterator<Item = &PathBuf> {
    [&args.rule, &args.svg, &args.html, &args.json].into_iter().flatten()
}

/// Checks the directory of an output file before measuring, so that no results are lost.
fn check_directory(file: &Path) -> Result<(), String> {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            Err(format!("{}: the directory does not exist", file.display()))
        }
        _ => Ok(()),
    }
}

/// Creates the report and writes the requested files.
fn write_outputs(args: &ProbeArgs, findings: &Findings) -> CommandOutput {
    let document = || format!("{:#}\n", report::document(findings));
    let out = match args.format {
        OutputFormat::Table => report::report(findings),
        OutputFormat::Json => document(),
    };
    let mut output = CommandOutput::done(out);
    if findings.peak().is_none() {
        output.exit = Exit::Failure;
        output.err = "error: no peak found\n".to_owned();
    }
    let texts = [
        (&args.rule, report::rule(findings)),
        (&args.svg, Some(report::svg_plot(findings))),
        (&args.html, Some(report::page(findings))),
        (&args.json, Some(document())),
    ];
    for (file, text) in texts {
        let (Some(file), Some(text)) = (file, text) else { continue };
        if let Err(error) = fs::write(file, text) {
            output.exit = Exit::Failure;
            output.err.push_str(&format!("error: cannot write {}: {error}\n", file.display()));
        }
    }
    output
}

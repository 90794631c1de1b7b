//! `sluicegate probe`: finds a service's peak by a load test, and proposes a limit below it.
//!
//! ```text
//!  args --> settings, permit          what to load, how, and whether it may be loaded at all
//!                |
//!             search  <---- verdict   which rate is next; whether a step was borne, or the generator is to blame
//!                | schedule   ^
//!               load  ----> step      requests leave when they are due; what came back is counted
//!                |
//!               live                  what is shown meanwhile
//!              report                 sentences, table, plot, rule, picture, page, document
//! ```
//!
//! Everything that decides is a function of what was measured ([`schedule`], [`step`], [`verdict`], [`search`],
//! [`report`]); what touches the network, the clock and the terminal decides nothing ([`load`], [`live`]).

mod figures;
mod live;
mod load;
mod permit;
mod report;
mod schedule;
mod search;
pub(crate) mod settings;
mod step;
mod verdict;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval, sleep};

use self::live::{Live, Progress};
use self::load::{Load, Target};
use self::permit::Permit;
use self::report::Findings;
use self::schedule::Schedule;
use self::search::{Aim, End, Next};
use self::settings::{Question, Settings};
use self::step::Step;
use self::verdict::{judge, most_p99};
use crate::answer::{Answer, Exit};
use crate::args::{self, Format};
use crate::connect::Connector;
use crate::place::Place;

/// How often what is shown is drawn.
const TICK: Duration = Duration::from_millis(200);

/// Why there is nothing to tell.
enum Failure {
    /// The call itself is wrong.
    Usage(String),
    /// The target cannot be loaded.
    Target(String),
}

pub(crate) fn run(args: &args::Probe) -> Answer {
    match probe(args) {
        Ok(findings) => told(args, &findings),
        Err(Failure::Target(why)) => Answer::failed(&why),
        Err(Failure::Usage(why)) => Answer { exit: Exit::Usage, ..Answer::failed(&why) },
    }
}

fn probe(args: &args::Probe) -> Result<Findings, Failure> {
    let settings = Settings::new(args).map_err(Failure::Usage)?;
    let question = Question::new(args).map_err(Failure::Usage)?;
    for file in files(args) {
        has_folder(file).map_err(Failure::Usage)?;
    }
    let (method, path) = (question.method.to_string(), args.url.path.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Target(error.to_string()))?;
    let found = runtime.block_on(async {
        let addresses = permitted(&args.url, &Permit::new(args)).await?;
        let address = addresses.first().map(SocketAddr::ip);
        let connector = Connector::new(args.url.clone()).map_err(Failure::Usage)?.only_to(addresses);
        let (steps, end, took) = search(&settings, Target::new(question, connector))
            .await
            .map_err(|why| Failure::Target(format!("{}: {why}", args.url)))?;
        Ok(Findings {
            target: args.url.to_string(),
            method,
            path,
            address,
            most_p99: most_p99(&steps, settings.demands),
            steps: judge(&steps, settings.demands),
            end,
            buffer: args.buffer,
            took,
        })
    });
    // A name that is still being looked up is not waited for.
    runtime.shutdown_background();
    found
}

/// The target's addresses, if they may be loaded. These, and no others, are connected to.
async fn permitted(place: &Place, permit: &Permit) -> Result<Vec<SocketAddr>, Failure> {
    let usage = |refusal: permit::Refusal| Failure::Usage(refusal.to_string());
    permit.agrees(&place.host).map_err(usage)?;
    let unknown = |error: io::Error| Failure::Target(format!("{}: {error}", place.host));
    let found = tokio::net::lookup_host((place.host.as_str(), place.port)).await.map_err(unknown)?;
    let addresses: Vec<SocketAddr> = found.collect();
    permit.allows(&place.host, &addresses).map_err(usage)?;
    Ok(addresses)
}

/// Step after step until the peak is found, or something ends it: the steps, what ended them, and how long it took.
async fn search(settings: &Settings, target: Target) -> Result<(Vec<Step>, End, Duration), String> {
    let listen = |kind| signal(kind).map_err(|error| format!("signals cannot be listened to: {error}"));
    let mut ends = [listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?];
    let [interrupted, terminated] = &mut ends;
    tokio::select! {
        knocked = target.knock() => {
            knocked?;
        }
        _ = interrupted.recv() => return Ok((Vec::new(), End::Interrupted, Duration::ZERO)),
        _ = terminated.recv() => return Ok((Vec::new(), End::Interrupted, Duration::ZERO)),
    }
    let broken = |error: io::Error| format!("the load generator cannot be used: {error}");
    let load = Load::start(&Arc::new(target), settings.max_in_flight).map_err(broken)?;
    let mut live = Live::new();
    let begun = Instant::now();
    let mut steps = Vec::new();
    let end = loop {
        let (rate, aim) = match settings.course.next(&judge(&steps, settings.demands)) {
            Next::Try { rate, aim } => (rate, aim),
            Next::End(end) => break end,
        };
        let schedule = Schedule::new(rate, settings.step);
        if begun.elapsed() + schedule.length > settings.max_time {
            break End::Time;
        }
        let watched = Watched { settings, steps: &steps, begun, schedule, aim };
        match watched.run(&load, &mut live, &mut ends).await.map_err(broken)? {
            Ok(step) => steps.push(step),
            Err(end) => break end,
        }
        if let Some(latest) = judge(&steps, settings.demands).last() {
            live.step(latest);
        }
    };
    live.end();
    Ok((steps, end, begun.elapsed()))
}

/// A step under way.
struct Watched<'a> {
    settings: &'a Settings,
    /// Those before it.
    steps: &'a [Step],
    begun: Instant,
    schedule: Schedule,
    aim: Aim,
}

impl Watched<'_> {
    /// Runs it, and shows how it goes on. If it is interrupted, or answers are still due when the time is up, what it
    /// measured so far does not count.
    async fn run(&self, load: &Load, live: &mut Live, ends: &mut [Signal; 2]) -> io::Result<Result<Step, End>> {
        let step = load.run(self.schedule);
        tokio::pin!(step);
        let (judged, most) = (judge(self.steps, self.settings.demands), most_p99(self.steps, self.settings.demands));
        let (since, mut ticks) = (Instant::now(), interval(TICK));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let [interrupted, terminated] = ends;
        let mut time_is_up = pin!(sleep(self.settings.max_time.saturating_sub(self.begun.elapsed())));
        loop {
            tokio::select! {
                step = &mut step => return step.map(Ok),
                _ = interrupted.recv() => return Ok(Err(End::Interrupted)),
                _ = terminated.recv() => return Ok(Err(End::Interrupted)),
                () = &mut time_is_up => return Ok(Err(End::Time)),
                _ = ticks.tick() => live.tick(&judged, most, Progress {
                    rate: self.schedule.rate,
                    aim: self.aim,
                    share: since.elapsed().as_secs_f64() / self.schedule.length.as_secs_f64(),
                    left: self.settings.max_time.saturating_sub(self.begun.elapsed()),
                }),
            }
        }
    }
}

/// The files that are to be written.
fn files(args: &args::Probe) -> impl Iterator<Item = &PathBuf> {
    [&args.rule, &args.svg, &args.html, &args.json].into_iter().flatten()
}

/// Minutes of measuring are not to be lost for a folder that is not there.
fn has_folder(file: &Path) -> Result<(), String> {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            Err(format!("{}: there is no such folder", file.display()))
        }
        _ => Ok(()),
    }
}

/// Tells it all, and writes the files that were asked for.
fn told(args: &args::Probe, findings: &Findings) -> Answer {
    let document = || format!("{:#}\n", report::everything(findings));
    let out = match args.format {
        Format::Table => report::report(findings),
        Format::Json => document(),
    };
    let mut answer = Answer::done(out);
    if findings.peak().is_none() {
        answer.exit = Exit::Bad;
        answer.err = "error: no peak was found\n".to_owned();
    }
    let texts = [
        (&args.rule, report::rule(findings)),
        (&args.svg, Some(report::picture(findings))),
        (&args.html, Some(report::page(findings))),
        (&args.json, Some(document())),
    ];
    for (file, text) in texts {
        let (Some(file), Some(text)) = (file, text) else { continue };
        if let Err(error) = fs::write(file, text) {
            answer.exit = Exit::Bad;
            answer.err.push_str(&format!("error: {} cannot be written: {error}\n", file.display()));
        }
    }
    answer
}

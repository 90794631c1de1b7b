//! `sluicegate-flash-sale`: the sale as a program. `run` is the whole story, `shop` and `drive` are its two halves.

mod args;

use std::error::Error;
use std::fmt;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::{fs, io};

use clap::Parser;
use sluicegate_flash_sale::drive::{Crowd, Scene, Tally, Target, broken_promises, drive, plot, table};
use sluicegate_flash_sale::house::{House, HouseSettings, RULES};
use tokio::signal::unix::{SignalKind, signal};

use args::{Arguments, Command, Parts, chosen};

#[tokio::main]
async fn main() -> ExitCode {
    let lines = tracing_subscriber::fmt().with_writer(io::stderr).with_max_level(tracing::Level::WARN).finish();
    // Nobody else has set one.
    let _ = tracing::subscriber::set_global_default(lines);
    let done = match Arguments::parse().command {
        Command::Run(arguments) => run(arguments).await,
        Command::Shop(arguments) => shop(arguments).await,
        Command::Drive(arguments) => {
            let target = Target { shops: arguments.shops, gateways: arguments.gateways };
            sell(&target, &chosen(arguments.steps), arguments.crowd.into()).await.and_then(|tallies| judge(&tallies))
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr().lock(), "sluicegate-flash-sale: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The whole story: a shop of its own, every step, one table, one plot.
async fn run(arguments: args::Run) -> Result<(), Box<dyn Error>> {
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let house = House::open(settings(&arguments.parts, [free, free, arguments.dashboard], true)?).await?;
    let addresses = house.addresses();
    say(format_args!("dashboard at http://{}/", addresses.dashboard));
    let target = Target::default().and(addresses);
    let tallies = sell(&target, &chosen(arguments.steps), arguments.crowd.into()).await;
    house.close().await;
    let tallies = tallies?;
    write(&arguments.plot, &plot(&tallies))?;
    say(format_args!("plot in {}", arguments.plot.display()));
    judge(&tallies)
}

/// The shop alone, until it is interrupted.
async fn shop(arguments: args::Shop) -> Result<(), Box<dyn Error>> {
    let places = [arguments.listen, arguments.gateway, arguments.dashboard];
    let (mut interrupted, mut terminated) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let house = House::open(settings(&arguments.parts, places, !arguments.no_consumer)?).await?;
    if let Some(items) = arguments.items {
        house.shop().restock(items).await?;
    }
    let addresses = house.addresses();
    say(format_args!("shop at http://{}", addresses.shop));
    say(format_args!("gateway at http://{}", addresses.gateway));
    say(format_args!("dashboard at http://{}/", addresses.dashboard));
    say(format_args!("try: curl -i --json '{{\"buyer\":\"alice\"}}' http://{}/sale/limit", addresses.shop));
    tokio::select! {
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
    }
    house.close().await;
    Ok(())
}

/// One sale after the other, and their table.
async fn sell(target: &Target, scenes: &[Scene], crowd: Crowd) -> Result<Vec<Tally>, Box<dyn Error>> {
    let mut tallies = Vec::new();
    for scene in scenes {
        tallies.push(drive(target, *scene, crowd).await?);
    }
    let Crowd { buyers, over, items } = crowd;
    say(format_args!("{buyers} buyers in {} s for {items} items", over.as_secs_f64()));
    say(format_args!("{}", table(&tallies)));
    Ok(tallies)
}

/// Fails if a promise is broken.
fn judge(tallies: &[Tally]) -> Result<(), Box<dyn Error>> {
    let broken: Vec<String> = tallies.iter().flat_map(broken_promises).collect();
    if broken.is_empty() {
        say(format_args!("every promise was kept"));
        return Ok(());
    }
    Err(format!("promises were broken:\n  {}", broken.join("\n  ")).into())
}

fn settings(parts: &Parts, places: [SocketAddr; 3], consumes: bool) -> Result<HouseSettings, Box<dyn Error>> {
    let [listen, gateway, dashboard] = places;
    let rules = match &parts.rules {
        Some(file) => sluicegate_config::read_text(file).map_err(|report| report.to_string())?,
        None => RULES.to_owned(),
    };
    let (shop, limits) = (parts.settings(), parts.limits.clone());
    Ok(HouseSettings { shop, listen, gateway, dashboard, rules, limits, consumes })
}

/// A line for people. Nobody may be reading; the sale goes on all the same.
fn say(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout().lock(), "{line}");
}

fn write(path: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()).into())
}

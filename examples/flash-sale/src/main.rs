//! `sluicegate-flash-sale`: `run` opens a shop and runs all steps; `shop` and `drive` do each part separately.

mod args;

use std::error::Error;
use std::fmt;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::{fs, io};

use clap::Parser;
use sluicegate_flash_sale::app::{App, AppSettings, RULES};
use sluicegate_flash_sale::drive::{Crowd, SaleReport, Scenario, Target, drive, plot, table, violated_invariants};
use tokio::signal::unix::{SignalKind, signal};

use args::{Arguments, BackendArgs, Command, scenarios_or_all};

#[tokio::main]
async fn main() -> ExitCode {
    let subscriber = tracing_subscriber::fmt().with_writer(io::stderr).with_max_level(tracing::Level::WARN).finish();
    // Fails only if a subscriber is already set.
    let _ = tracing::subscriber::set_global_default(subscriber);
    let result = match Arguments::parse().command {
        Command::Run(arguments) => run(arguments).await,
        Command::Shop(arguments) => shop(arguments).await,
        Command::Drive(arguments) => {
            let target = Target { shops: arguments.shops, gateways: arguments.gateways };
            run_sales(&target, &scenarios_or_all(arguments.steps), arguments.crowd.into())
                .await
                .and_then(|reports| check_invariants(&reports))
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr().lock(), "sluicegate-flash-sale: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Opens a shop, runs the steps, prints the table and writes the plot.
async fn run(arguments: args::RunArgs) -> Result<(), Box<dyn Error>> {
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let app = App::open(settings(&arguments.backends, [free, free, arguments.dashboard], true)?).await?;
    let addresses = app.addresses();
    print_line(format_args!("dashboard at http://{}/", addresses.dashboard));
    let target = Target::default().with_process(addresses);
    let reports = run_sales(&target, &scenarios_or_all(arguments.steps), arguments.crowd.into()).await;
    app.close().await;
    let reports = reports?;
    write(&arguments.plot, &plot(&reports))?;
    print_line(format_args!("plot in {}", arguments.plot.display()));
    check_invariants(&reports)
}

/// Runs the shop until SIGINT or SIGTERM.
async fn shop(arguments: args::ShopArgs) -> Result<(), Box<dyn Error>> {
    let addresses = [arguments.listen, arguments.gateway, arguments.dashboard];
    let (mut interrupted, mut terminated) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let app = App::open(settings(&arguments.backends, addresses, !arguments.no_consumer)?).await?;
    if let Some(items) = arguments.items {
        app.shop().restock(items).await?;
    }
    let addresses = app.addresses();
    print_line(format_args!("shop at http://{}", addresses.shop));
    print_line(format_args!("gateway at http://{}", addresses.gateway));
    print_line(format_args!("dashboard at http://{}/", addresses.dashboard));
    print_line(format_args!("try: curl -i --json '{{\"buyer\":\"alice\"}}' http://{}/sale/limit", addresses.shop));
    tokio::select! {
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
    }
    app.close().await;
    Ok(())
}

/// Runs the scenarios one after the other and prints the table.
async fn run_sales(target: &Target, scenarios: &[Scenario], crowd: Crowd) -> Result<Vec<SaleReport>, Box<dyn Error>> {
    let mut reports = Vec::new();
    for scenario in scenarios {
        reports.push(drive(target, *scenario, crowd).await?);
    }
    let Crowd { buyers, over, items } = crowd;
    print_line(format_args!("{buyers} buyers in {} s for {items} items", over.as_secs_f64()));
    print_line(format_args!("{}", table(&reports)));
    Ok(reports)
}

/// Fails if a report violates an invariant.
fn check_invariants(reports: &[SaleReport]) -> Result<(), Box<dyn Error>> {
    let violations: Vec<String> = reports.iter().flat_map(violated_invariants).collect();
    if violations.is_empty() {
        print_line(format_args!("all invariants hold"));
        return Ok(());
    }
    Err(format!("invariants violated:\n  {}", violations.join("\n  ")).into())
}

fn settings(
    backends: &BackendArgs,
    addresses: [SocketAddr; 3],
    run_consumer: bool,
) -> Result<AppSettings, Box<dyn Error>> {
    let [listen, gateway, dashboard] = addresses;
    let rules = match &backends.rules {
        Some(file) => sluicegate_config::read_text(file).map_err(|report| report.to_string())?,
        None => RULES.to_owned(),
    };
    let (shop, limits) = (backends.settings(), backends.limits.clone());
    Ok(AppSettings { shop, listen, gateway, dashboard, rules, limits, run_consumer })
}

/// Prints a line to stdout; ignores errors such as a closed pipe.
fn print_line(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout().lock(), "{line}");
}

fn write(path: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()).into())
}

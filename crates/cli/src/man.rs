//! `sluicegate man`: manual pages from the same definitions as `--help`.
//!
//! ```text
//!  args: commands, flags, help ---> one page per command ---> standard output, or one file each
//!  here: exit codes, signals, see also ----^
//! ```

use std::fs;
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use sluicegate_terminal::CommandOutput;

use crate::args::{self, Cli};

/// Title of the manual.
const MANUAL: &str = "Sluicegate";
/// Manual section: user commands.
const SECTION: &str = "1";

/// Exit codes of all commands; the head of `main.rs` has the details.
const EXIT_CODES: &[(&str, &str)] = &[
    ("0", "Success."),
    ("1", "Failure: the rule file is invalid, or the operation failed. The reason is on standard error."),
    ("2", "Usage error: an unknown command or option, or an invalid value."),
];

/// Signals that a running process handles.
const SIGNALS: &[(&str, &str)] = &[
    ("SIGTERM, SIGINT", "Graceful shutdown: accepts no new connections and completes requests in flight."),
    ("SIGHUP", "Reloads rules, lists and certificates."),
    ("SIGUSR1", "Reopens the access log, for log rotation."),
    ("SIGUSR2", "Restarts the program on the same sockets without dropping connections."),
];

pub(crate) fn run(args: &args::Man) -> CommandOutput {
    match &args.folder {
        None => CommandOutput::done(page(&full_command())),
        Some(folder) => match write(folder) {
            Ok(()) => CommandOutput::done(String::new()),
            Err(error) => CommandOutput::failed(&format!("cannot write to {}: {error}", folder.display())),
        },
    }
}

/// The program with all its commands, each under its full name.
fn full_command() -> Command {
    // `help` only repeats the pages.
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    command
}

fn write(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut remaining = vec![full_command()];
    while let Some(command) = remaining.pop() {
        fs::write(folder.join(format!("{}.{SECTION}", name(&command))), page(&command))?;
        remaining.extend(command.get_subcommands().cloned());
    }
    Ok(())
}

/// Full name, such as `sluicegate-import-nginx`.
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: &Command) -> String {
    let named = command.clone().subcommand_help_heading("COMMANDS").subcommand_value_name("COMMAND");
    let mut text = title(command).into_bytes();
    // Writing to memory does not fail.
    drop(generated_sections(command, &Man::new(named).section(SECTION), &mut text));
    drop(extra_sections(command).to_writer(&mut text));
    String::from_utf8_lossy(&text).into_owned()
}

/// Header and footer of the page. There is no date, but its field must be present: otherwise the next field is
/// taken for it.
fn title(command: &Command) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(".TH {} {SECTION} \"\" \"sluicegate {version}\" \"{MANUAL}\"\n", name(command).to_uppercase())
}

/// Sections generated from the arguments.
fn generated_sections(command: &Command, man: &Man, text: &mut Vec<u8>) -> io::Result<()> {
    man.render_name_section(text)?;
    man.render_synopsis_section(text)?;
    man.render_description_section(text)?;
    man.render_options_section(text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(text)?;
    }
    Ok(())
}

/// Sections that the arguments do not contain.
fn extra_sections(command: &Command) -> Roff {
    let mut roff = Roff::new();
    table(&mut roff, "EXIT STATUS", EXIT_CODES);
    if command.get_name() == "run" {
        table(&mut roff, "SIGNALS", SIGNALS);
    }
    if name(command) != command.get_name() {
        roff.control("SH", ["SEE ALSO"]);
        roff.text([bold("sluicegate"), roman(format!("({SECTION})"))]);
    }
    roff
}

fn table(roff: &mut Roff, heading: &str, rows: &[(&str, &str)]) {
    roff.control("SH", [heading]);
    for (term, meaning) in rows {
        roff.control("TP", []);
        roff.text([bold(*term)]);
        roff.text([roman(*meaning)]);
    }
}

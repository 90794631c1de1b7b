//! `sluicegate man`: manual pages, made of the same definitions as `--help`.
//!
//! ```text
//!  args: commands, flags, help --> a page for each command --> standard output, or one file each
//!  here: exit codes, signals, see also ----^
//! ```

use std::fs;
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::answer::Answer;
use crate::args::{self, Cli};

/// The whole that the pages belong to.
const MANUAL: &str = "Sluicegate";
/// The section of commands that everybody may call.
const SECTION: &str = "1";

/// The same for all commands; the head of `main.rs` says more.
const EXIT_CODES: &[(&str, &str)] = &[
    ("0", "Done."),
    ("1", "The rules are bad, or what was asked for cannot be had. Standard error says why."),
    ("2", "Wrong usage: an unknown command or flag, or a value that makes no sense."),
];

/// What a process that runs listens to.
const SIGNALS: &[(&str, &str)] = &[
    ("SIGTERM, SIGINT", "Stops: nobody new is let in, and requests under way are answered."),
    ("SIGHUP", "Reads rules, lists and certificates again."),
    ("SIGUSR1", "Opens the access log anew, for rotation."),
    ("SIGUSR2", "Starts the program anew at the same sockets, without loss."),
];

pub(crate) fn run(args: &args::Man) -> Answer {
    match &args.folder {
        None => Answer::done(page(&whole())),
        Some(folder) => match write(folder) {
            Ok(()) => Answer::done(String::new()),
            Err(error) => Answer::failed(&format!("{} cannot be written to: {error}", folder.display())),
        },
    }
}

/// The program with all its commands, each under its full name.
fn whole() -> Command {
    // `help` only repeats what the pages say.
    let mut whole = Cli::command().disable_help_subcommand(true);
    whole.build();
    whole
}

fn write(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut left = vec![whole()];
    while let Some(command) = left.pop() {
        fs::write(folder.join(format!("{}.{SECTION}", name(&command))), page(&command))?;
        left.extend(command.get_subcommands().cloned());
    }
    Ok(())
}

/// `sluicegate-import-nginx`, say.
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: &Command) -> String {
    let named = command.clone().subcommand_help_heading("COMMANDS").subcommand_value_name("COMMAND");
    let mut text = title(command).into_bytes();
    // Nothing can go wrong on the way into memory.
    drop(generated(command, &Man::new(named).section(SECTION), &mut text));
    drop(ours(command).to_writer(&mut text));
    String::from_utf8_lossy(&text).into_owned()
}

/// Head and foot of the page. There is no date, but its place must be kept: what follows would be taken for it.
fn title(command: &Command) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(".TH {} {SECTION} \"\" \"sluicegate {version}\" \"{MANUAL}\"\n", name(command).to_uppercase())
}

/// What follows from the arguments alone.
fn generated(command: &Command, made: &Man, text: &mut Vec<u8>) -> io::Result<()> {
    made.render_name_section(text)?;
    made.render_synopsis_section(text)?;
    made.render_description_section(text)?;
    made.render_options_section(text)?;
    if command.has_subcommands() {
        made.render_subcommands_section(text)?;
    }
    Ok(())
}

/// What the arguments do not tell.
fn ours(command: &Command) -> Roff {
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

//! `sluicegate import`: converts another program's configuration into a rule file.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use sluicegate_import::nginx::{self, ImportedConfig};
use sluicegate_terminal::{CommandOutput, Exit};

use crate::args::{Import, ImportNginx};
use crate::describe_rules::pluralize;
use crate::style::{TerminalStyle, invalid_rules};

pub(crate) fn run(args: &Import, style: TerminalStyle) -> CommandOutput {
    match args {
        Import::Nginx(args) => nginx(args, style),
    }
}

fn nginx(args: &ImportNginx, style: TerminalStyle) -> CommandOutput {
    let imported = match nginx::import(&args.file) {
        Ok(imported) => imported,
        Err(error) => return CommandOutput::failed(&error.to_string()),
    };
    if let Err(report) = sluicegate_config::parse("generated rule file", &imported.yaml) {
        return invalid_rules(&report, style);
    }
    let err = notes(&imported);
    if args.strict && imported.unsupported_count() > 0 {
        return CommandOutput {
            out: String::new(),
            err: err + "nothing written because of --strict\n",
            exit: Exit::Failure,
        };
    }
    match &args.output {
        None => CommandOutput { out: imported.yaml, err, exit: Exit::Success },
        Some(output) => match write(&args.file, output, &imported.yaml) {
            Ok(()) => CommandOutput { out: String::new(), err, exit: Exit::Success },
            Err(error) => CommandOutput::failed(&error),
        },
    }
}

/// Notes about directives that were not converted exactly, with their number.
fn notes(imported: &ImportedConfig) -> String {
    let mut text = String::new();
    for note in &imported.notes {
        let _ = writeln!(text, "{note}");
    }
    let _ = writeln!(text, "{} not converted", pluralize(imported.unsupported_count(), "directive"));
    text
}

fn write(from: &Path, to: &Path, yaml: &str) -> Result<(), String> {
    if let (Ok(from), Ok(same)) = (from.canonicalize(), to.canonicalize())
        && from == same
    {
        return Err(format!("{} is the input file: write to another file", to.display()));
    }
    fs::write(to, yaml).map_err(|error| format!("cannot write {}: {error}", to.display()))
}

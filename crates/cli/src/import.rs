//! `sluicegate import`: a rule file made of another program's configuration.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use sluicegate_config::nginx::{self, Imported};

use crate::answer::{Answer, Exit, Look};
use crate::args::{Import, ImportNginx};
use crate::describe::counted;

pub(crate) fn run(args: &Import, look: Look) -> Answer {
    match args {
        Import::Nginx(args) => nginx(args, look),
    }
}

fn nginx(args: &ImportNginx, look: Look) -> Answer {
    let imported = match nginx::import(&args.file) {
        Ok(imported) => imported,
        Err(error) => return Answer::failed(&error.to_string()),
    };
    if let Err(report) = sluicegate_config::parse("the rule file made of it", &imported.yaml) {
        return Answer::bad_rules(&report, look);
    }
    let err = remarks(&imported);
    if args.strict && imported.not_carried() > 0 {
        return Answer { out: String::new(), err: err + "nothing is written, because of --strict\n", exit: Exit::Bad };
    }
    match &args.output {
        None => Answer { out: imported.yaml, err, exit: Exit::Done },
        Some(output) => match write(&args.file, output, &imported.yaml) {
            Ok(()) => Answer { out: String::new(), err, exit: Exit::Done },
            Err(why) => Answer::failed(&why),
        },
    }
}

/// What was not simply carried over, and how much of it.
fn remarks(imported: &Imported) -> String {
    let mut text = String::new();
    for remark in &imported.remarks {
        let _ = writeln!(text, "{remark}");
    }
    let _ = writeln!(text, "{} not carried over", counted(imported.not_carried(), "directive"));
    text
}

fn write(from: &Path, to: &Path, yaml: &str) -> Result<(), String> {
    if let (Ok(from), Ok(same)) = (from.canonicalize(), to.canonicalize())
        && from == same
    {
        return Err(format!("{} is what is read: write to another file", to.display()));
    }
    fs::write(to, yaml).map_err(|error| format!("{} cannot be written: {error}", to.display()))
}

//! The Lua scripts of exact mode, assembled from their parts.

use std::sync::LazyLock;

use crate::algorithm_scripts;
use crate::invocation::Script;

/// Decides requests and takes their cost.
pub(crate) static ACQUIRE: LazyLock<Script> = LazyLock::new(|| Script::new(assemble(ACQUIRE_FRAME, DECIDE)));

/// Releases and settles.
pub(crate) static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(assemble(RELEASE_FRAME, SETTLE)));

/// Renews permits.
pub(crate) static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(assemble(RENEW_FRAME, "")));

const ACQUIRE_FRAME: &str = include_str!("../scripts/acquire.lua");
const DECIDE: &str = include_str!("../scripts/decide.lua");
const RELEASE_FRAME: &str = include_str!("../scripts/release.lua");
const SETTLE: &str = include_str!("../scripts/settle.lua");
const RENEW_FRAME: &str = include_str!("../scripts/renew.lua");

/// The source for a line `--!include name`.
fn include_source(name: &str) -> Option<&'static str> {
    Some(match name {
        "clock" => include_str!("../scripts/clock.lua"),
        "values" => include_str!("../scripts/values.lua"),
        "states" => include_str!("../scripts/states.lua"),
        "arithmetic" => include_str!("../scripts/arithmetic.lua"),
        _ => return None,
    })
}

/// Assembles a frame with its includes; `general` handles limits of any kind.
fn assemble(frame: &str, general: &str) -> String {
    let mut source = String::new();
    for line in frame.lines() {
        match line.trim_start().strip_prefix("--!include ") {
            Some("general") => source.push_str(general),
            Some("algorithms") => algorithm_scripts::sources().for_each(|script| source += &assemble(&script, general)),
            Some(name) => source.push_str(&assemble(include_source(name).unwrap_or_default(), general)),
            // Comments are stripped: the server stores the text of every script.
            None if line.trim_start().starts_with("--") => {}
            None => {
                source.push_str(line.trim_start());
                source.push('\n');
            }
        }
    }
    source
}

//! A network of a test's own, for what listens at a port that is written down somewhere.
//!
//! There is the loopback in it and nobody else, so port 8080 is free, whatever else the machine runs and however many
//! tests run at once. Linux lets anybody have one, unless the machine's owner forbids it; many containers do.
//!
//! ```
//! use sluicegate_testkit::network;
//!
//! if let Some(mut shell) = network::shell() {
//!     let said = shell.args(["-c", "exec 3<>/dev/tcp/127.0.0.1/8080 || echo nobody there"]).output()?;
//!     assert_eq!(String::from_utf8_lossy(&said.stdout), "nobody there\n");
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// A shell in a network of its own, to which arguments of bash can be added. What it starts is gone with it, however it
/// ends. `None` where that is forbidden, which is said on standard error.
#[must_use]
pub fn shell() -> Option<Command> {
    static PERMITTED: OnceLock<bool> = OnceLock::new();
    let permitted = *PERMITTED.get_or_init(|| {
        let tried = bash().args(["-c", "true"]).stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    });
    if !permitted {
        let told =
            writeln!(io::stderr(), "a network of a test's own is forbidden here: what would run in one is left out");
        // Nobody may be reading.
        drop(told);
    }
    permitted.then(bash)
}

fn bash() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net", "--pid", "--fork", "--kill-child"]);
    // The loopback is there, but down.
    command.args(["bash", "-c", "ip link set lo up && exec bash \"$@\"", "bash"]);
    command
}

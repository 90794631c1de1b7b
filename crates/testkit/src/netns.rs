//! Network namespace for tests of programs that listen on a fixed port.
//!
//! The namespace contains only its own loopback interface, so port 8080 is free regardless of other programs
//! and parallel tests. Linux allows unprivileged namespaces unless the administrator disables them; many
//! containers do.
//!
//! ```
//! use sluicegate_testkit::netns;
//!
//! if let Some(mut shell) = netns::shell() {
//!     let output = shell.args(["-c", "exec 3<>/dev/tcp/127.0.0.1/8080 || echo connection refused"]).output()?;
//!     assert_eq!(String::from_utf8_lossy(&output.stdout), "connection refused\n");
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Bash in a new network namespace; append bash arguments to the command. Its child processes are killed with
/// it. Returns `None` and prints a note to standard error if namespaces are not permitted.
#[must_use]
pub fn shell() -> Option<Command> {
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    let supported = *SUPPORTED.get_or_init(|| {
        let status = bash_in_netns().args(["-c", "true"]).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    });
    if !supported {
        let written = writeln!(io::stderr(), "network namespaces are not permitted: tests that need one are skipped");
        // Standard error may be closed.
        drop(written);
    }
    supported.then(bash_in_netns)
}

fn bash_in_netns() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net", "--pid", "--fork", "--kill-child"]);
    // The loopback interface exists but is down.
    command.args(["bash", "-c", "ip link set lo up && exec bash \"$@\"", "bash"]);
    command
}

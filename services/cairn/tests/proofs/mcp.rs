//! Servers of the Model Context Protocol that others wrote. `deploy/test-mcp` installs and tries them.

use crate::support::CAIRN;
use std::path::Path;
use std::process::{Command, exit};

/// The exit code of the script if its packages cannot be installed.
pub(crate) const NOT_RUN: i32 = 77;

/// Runs the script, and ends with its exit code unless that is 0.
pub(crate) fn prove() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let script = root.join("deploy/test-mcp");
    let status = Command::new(script).arg(CAIRN).status();
    let status = status.expect("the script can be started");
    if !status.success() {
        exit(status.code().unwrap_or(1));
    }
}

//! Servers of the Model Context Protocol that others wrote. `deploy/test-mcp` installs and tries them.

use crate::support::CAIRN;
use std::path::Path;
use std::process::Command;

/// Runs the script, and panics if it fails or cannot install its packages.
pub(crate) fn prove() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let status = Command::new(root.join("deploy/test-mcp"))
        .arg(CAIRN)
        .status();
    let status = status.expect("the script can be started");
    assert!(status.success(), "deploy/test-mcp: {status}");
}

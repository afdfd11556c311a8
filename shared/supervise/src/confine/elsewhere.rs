//! Systems other than Linux confine no program, so no program has an enclosure there.

use super::bounds::Bounds;
use rustix::process::Pid;
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::time::Duration;
use tokio::process::Command;

/// As there.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// Never made.
pub(crate) enum Enclosure {}

impl Enclosure {
    /// # Errors
    /// Always.
    pub(crate) fn begin(_: Bounds) -> io::Result<Self> {
        Err(io::Error::other(super::NO_LANDLOCK))
    }

    pub(crate) fn command(&self, _: &[OsString]) -> Command {
        match *self {}
    }

    pub(crate) fn look(&mut self, _: Option<Pid>) {
        match *self {}
    }

    pub(crate) fn kill(&self) {
        match *self {}
    }

    pub(crate) async fn end(self) -> Option<String> {
        match self {}
    }
}

/// No process is a second stage, and none tries what the system can do.
pub(crate) fn become_program(_: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    None
}

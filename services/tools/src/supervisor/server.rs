//! A process above a server that tools come from. It passes nothing on but the end: when the service is
//! killed, it kills the server, which may not notice that its standard input has ended.
//!
//! It ends with the server, or at the service's signal, and kills what is left below it: also processes that
//! left the process group, where the system lets them be found. Both are in one group, so that the service can
//! kill the server also without it.

use super::{LOOK, NOT_STARTED, SIGNALLED, deaf, descendants, print_error};
use rustix::process::{Pid, Signal, getpgrp, getpid, getppid, kill_process_group};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

/// The first argument of such a process.
pub(super) const WORD: &str = "supervise-server";

/// What such a process has to do.
pub(super) struct Task {
    /// The service.
    parent: Option<Pid>,
    /// The server's program and its arguments.
    argv: Vec<OsString>,
}

/// The arguments that make a process one, up to the program.
pub(super) fn arguments() -> [String; 2] {
    [WORD.to_owned(), getpid().as_raw_nonzero().to_string()]
}

impl Task {
    /// `None` if the process is no such one. `arguments` begin with the name of the program.
    pub(super) fn of(arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut arguments = arguments.skip(1);
        if arguments.next()? != WORD {
            return None;
        }
        let parent = arguments.next()?.into_string().ok()?.parse().ok()?;
        let argv: Vec<_> = arguments.collect();
        (!argv.is_empty()).then_some(Self {
            parent: Pid::from_raw(parent),
            argv,
        })
    }

    /// Until the server ends.
    pub(super) fn carry_out(&self, runtime: io::Result<tokio::runtime::Runtime>) -> ExitCode {
        match runtime.and_then(|runtime| runtime.block_on(self.follow())) {
            Ok(status) => exit_code(status),
            Err(error) => {
                let program = self.argv[0].to_string_lossy();
                print_error(&format!(
                    "could not be started: {error}; its program is '{program}'\n"
                ));
                ExitCode::from(NOT_STARTED)
            }
        }
    }

    async fn follow(&self) -> io::Result<ExitStatus> {
        // What is sent to the group is the server's to answer.
        let _deaf = deaf()?;
        let mut end = signal(SignalKind::user_defined1())?;
        let mut child_ended = signal(SignalKind::child())?;
        descendants::adopt();
        let mut server = Command::new(&self.argv[0]).args(&self.argv[1..]).spawn()?;
        let id = server.id().and_then(|id| i32::try_from(id).ok());
        let id = id.and_then(Pid::from_raw);
        let ended = loop {
            if getppid() != self.parent {
                end_all().await;
            }
            tokio::select! {
                ended = server.wait() => break ended,
                _ = end.recv() => end_all().await,
                _ = child_ended.recv() => descendants::reap(id),
                () = tokio::time::sleep(LOOK) => {}
            }
        };
        // What it has left behind.
        descendants::end().await;
        ended
    }
}

/// Does not return.
async fn end_all() {
    descendants::end().await;
    // This process is in it, too.
    _ = kill_process_group(getpgrp(), Signal::KILL);
}

fn exit_code(status: ExitStatus) -> ExitCode {
    // As a shell says it.
    let signalled = status.signal().map(|signal| SIGNALLED + signal);
    let code = status
        .code()
        .or(signalled)
        .and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}

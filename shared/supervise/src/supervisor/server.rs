//! A process above a server that tools come from. It passes nothing on but the end: when the service is
//! killed, it kills the server, which may not notice that its standard input has ended.
//!
//! It ends with the server, or at the service's signal, and kills what is left below it: also processes that
//! left the process group, where the system lets them be found. Both are in one group, so that the service can
//! kill the server also without it.

use super::parent::Parent;
use super::{
    LOOK, NOT_STARTED, SIGNALLED, bounds_of, deaf, descendants, plain, print_error, runtime,
    written,
};
use crate::confine::{self, Bounds, Enclosure};
use rustix::process::{Pid, Signal, getpgrp, getpid, kill_process_group};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};
use tokio::signal::unix::{SignalKind, signal};

/// The first argument of such a process.
pub(super) const WORD: &str = "supervise-server";

/// What such a process has to do.
pub(super) struct Task {
    /// The service.
    parent: Option<Pid>,
    /// What the server may do, if it is confined.
    bounds: Option<Bounds>,
    /// The server's program and its arguments.
    argv: Vec<OsString>,
}

/// The arguments that make a process one, up to the program.
pub(super) fn arguments(bounds: Option<&Bounds>) -> [String; 3] {
    let parent = getpid().as_raw_nonzero().to_string();
    [WORD.to_owned(), parent, written(bounds)]
}

impl Task {
    /// `None` if the process is no such one. `arguments` begin with the name of the program.
    pub(super) fn of(arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut arguments = arguments.skip(1);
        if arguments.next()? != WORD {
            return None;
        }
        let parent = arguments.next()?.into_string().ok()?.parse().ok()?;
        let bounds = bounds_of(&arguments.next()?.into_string().ok()?)?;
        let argv: Vec<_> = arguments.collect();
        (!argv.is_empty()).then_some(Self {
            parent: Pid::from_raw(parent),
            bounds,
            argv,
        })
    }

    /// Until the server ends.
    pub(super) fn carry_out(&self) -> ExitCode {
        match self.supervised() {
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

    fn supervised(&self) -> io::Result<ExitStatus> {
        // While the process has one thread.
        let mut enclosure = self.bounds.clone().map(Enclosure::begin).transpose()?;
        runtime()?.block_on(async {
            let ended = self.follow(&mut enclosure).await;
            if let Some(enclosure) = enclosure
                && let Some(why) = enclosure.end().await
            {
                print_error(&format!("all processes were killed: {why}\n"));
            }
            ended
        })
    }

    /// A server that is not confined has ended when this returns, or this process has. One that is confined may
    /// have left processes.
    async fn follow(&self, enclosure: &mut Option<Enclosure>) -> io::Result<ExitStatus> {
        // What is sent to the group is the server's to answer.
        let _deaf = deaf()?;
        let mut end = signal(SignalKind::user_defined1())?;
        let mut child_ended = signal(SignalKind::child())?;
        let parent = Parent::of(self.parent);
        descendants::adopt();
        let mut server = match enclosure {
            Some(enclosure) => enclosure.command(&self.argv).spawn()?,
            None => plain(&self.argv).spawn()?,
        };
        let id = server.id().and_then(|id| i32::try_from(id).ok());
        let id = id.and_then(Pid::from_raw);
        let pause = match enclosure {
            Some(_) => confine::LOOK,
            None => LOOK,
        };
        let ended = loop {
            if parent.has_ended() {
                end_all(enclosure).await;
            }
            tokio::select! {
                ended = server.wait() => break ended,
                _ = end.recv() => end_all(enclosure).await,
                _ = child_ended.recv() => descendants::reap(id),
                () = tokio::time::sleep(pause) => if let Some(enclosure) = enclosure {
                    enclosure.look(id);
                },
            }
        };
        if enclosure.is_none() {
            // What it has left behind.
            descendants::end().await;
        }
        ended
    }
}

/// Does not return unless the server is confined: then it is killed, and ends.
async fn end_all(enclosure: &Option<Enclosure>) {
    if let Some(enclosure) = enclosure {
        return enclosure.kill();
    }
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

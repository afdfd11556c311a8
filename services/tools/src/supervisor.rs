//! A process between the service and each program that it starts, which keeps the program's time
//! limit when the service cannot, because it was killed or is frozen: what a person is asked about a
//! call goes by that.
//!
//! It is the service's own program once more, with other arguments. It gets no environment but the
//! program's, and does nothing but wait: for the end of the program, which it ends as well; of the
//! service; or of the time. It leads the process group in which the program is, and ends the whole.

use crate::gate::{BootClock, Monotonic as _};
use rustix::process::{Pid, Signal, getpid, getppid, kill_current_process_group, kill_process};
use std::convert::Infallible;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::time::Duration;

/// The first argument of a process that is to be one.
const WORD: &str = "supervise-program";

/// Between two looks for the service.
const LOOK: Duration = Duration::from_millis(100);

/// What a shell says of a program that it cannot start.
const NOT_STARTED: u8 = 127;

/// How supervising processes are started.
#[derive(Debug, Clone)]
pub struct Supervisor {
    program: PathBuf,
}

impl Supervisor {
    /// By the program that runs now, whose `main` asks [`supervise`] first.
    ///
    /// # Errors
    /// The system does not say which one that is.
    pub fn this_program() -> std::io::Result<Self> {
        // It is there whatever became of the file meanwhile.
        let own = Path::new("/proc/self/exe");
        let program = match own.exists() {
            true => own.to_owned(),
            false => std::env::current_exe()?,
        };
        Ok(Self { program })
    }

    /// A command line that ends with the program, and to which its arguments are added.
    pub(crate) fn command(&self, time_limit: Duration, program: &str) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(&self.program);
        let parent = getpid().as_raw_nonzero().to_string();
        let limit_ms = time_limit.as_millis().to_string();
        command
            .arg0("cairn")
            .args([WORD, &parent, &limit_ms, program]);
        command
    }
}

/// What such a process has to do.
#[derive(Debug, PartialEq, Eq)]
struct Task {
    /// The service.
    parent: Option<Pid>,
    time_limit: Duration,
    /// The program and its arguments.
    argv: Vec<OsString>,
}

impl Task {
    /// `None` if the process is no such one. `arguments` begin with the name of the program.
    fn of(arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut arguments = arguments.skip(1);
        if arguments.next()? != WORD {
            return None;
        }
        let mut number = || arguments.next()?.into_string().ok();
        let parent = Pid::from_raw(number()?.parse().ok()?);
        let time_limit = Duration::from_millis(number()?.parse().ok()?);
        let argv: Vec<_> = arguments.collect();
        (!argv.is_empty()).then_some(Self {
            parent,
            time_limit,
            argv,
        })
    }
}

/// Has the process supervise a program if it was started for that, until that ends. For `main`,
/// before anything else.
pub fn supervise(arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let task = Task::of(arguments)?;
    let began = BootClock.now();
    let (parent, end) = (task.parent, began + task.time_limit);
    std::thread::spawn(move || end_in_time(parent, end));
    let mut program = Command::new(&task.argv[0]);
    let ended = program.args(&task.argv[1..]).status();
    // Nobody is left to end what the program has left behind.
    if getppid() != parent {
        end_all();
    }
    Some(match ended {
        Ok(status) => as_it_did(status),
        Err(error) => {
            // Nobody is there to be told if that fails.
            let _ = writeln!(std::io::stderr(), "could not be started: {error}");
            ExitCode::from(NOT_STARTED)
        }
    })
}

/// Ends all when the service is gone, or the time is up.
fn end_in_time(parent: Option<Pid>, end: Duration) -> Infallible {
    loop {
        let left = end.saturating_sub(BootClock.now());
        if getppid() != parent || left.is_zero() {
            end_all();
        }
        std::thread::sleep(left.min(LOOK));
    }
}

/// Kills the program, whatever it has started, and this process.
fn end_all() {
    // Nothing can be done if that fails, and nobody told.
    let _ = kill_current_process_group(Signal::KILL);
}

/// Ends this process like another one.
fn as_it_did(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal().and_then(Signal::from_named_raw) {
        let _ = kill_process(getpid(), signal);
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(words: &[&str]) -> Option<Task> {
        Task::of(words.iter().map(OsString::from))
    }

    #[test]
    fn only_who_is_asked_to_supervises() {
        assert_eq!(task(&["cairn"]), None);
        assert_eq!(task(&["cairn", "run", "7", "2000", "sh"]), None);
        for bad in [
            &["cairn", WORD][..],
            &["cairn", WORD, "x", "2000", "sh"],
            &["cairn", WORD, "7", "-1", "sh"],
            &["cairn", WORD, "7", "2000"],
        ] {
            assert_eq!(task(bad), None, "{bad:?}");
        }
        let want = Task {
            parent: Pid::from_raw(7),
            time_limit: Duration::from_secs(2),
            argv: vec!["sh".into(), "-c".into(), "true".into()],
        };
        let words = ["cairn", WORD, "7", "2000", "sh", "-c", "true"];
        assert_eq!(task(&words), Some(want));
    }
}

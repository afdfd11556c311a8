//! A process between the service and each program that it starts, which keeps the program's time
//! limit when the service cannot, because it was killed or is frozen: what a person is asked about a
//! call goes by that.
//!
//! It is the service's own program once more, with other arguments. It gets no environment but the
//! program's, and does nothing but wait: for the end of the program, of the service, or of the time, or
//! to be told that it is enough. Then it ends the program's process group, in which it is not itself.
//! It can do nothing about what leaves that group, or about a SIGKILL that is meant for it alone.

use cairn_rpc::{BootClock, Monotonic as _};
use rustix::process::{Pid, Signal, getpid, getppid, kill_process, kill_process_group};
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;
use tokio::process::Command;
use tokio::signal::unix::{Signal as UnixSignal, SignalKind, signal};

/// The first argument of a process that is to be one.
const WORD: &str = "supervise-program";

/// Between two looks for the service.
const LOOK: Duration = Duration::from_millis(100);

/// What a shell says of a program that it cannot start.
const NOT_STARTED: u8 = 127;

/// What a shell adds to the number of the signal that ended a program.
const SIGNALLED: i32 = 128;

/// The last that is said on standard error of such a program, before the number: else nobody could tell
/// it from one that ends like a shell.
const MARK: &str = "\u{1e}ended by signal ";

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

    /// A command line that ends with the program, and to which its arguments are added. The time begins
    /// now.
    pub(crate) fn command(&self, time_limit: Duration, program: &str) -> Command {
        let mut command = Command::new(&self.program);
        let parent = getpid().as_raw_nonzero().to_string();
        let end = (BootClock.now() + time_limit).as_millis().to_string();
        command.arg0("cairn").args([WORD, &parent, &end, program]);
        command
    }
}

/// Has a supervising process end its program, which it tells by its own end. Before it has begun that,
/// it ends by itself.
pub(crate) fn end(supervising: Pid) {
    // It may have ended.
    let _ = kill_process(supervising, Signal::USR1);
}

/// What such a process has to do.
#[derive(Debug, PartialEq, Eq)]
struct Task {
    /// The service.
    parent: Option<Pid>,
    /// When the program has to be over, by [`BootClock`], which is one for all processes.
    end: Duration,
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
        let end = Duration::from_millis(number()?.parse().ok()?);
        let argv: Vec<_> = arguments.collect();
        (!argv.is_empty()).then_some(Self { parent, end, argv })
    }

    /// Whether the program has to end: nobody waits for it any more, or its time is up.
    fn is_over(&self) -> bool {
        getppid() != self.parent || BootClock.now() >= self.end
    }
}

/// Has the process supervise a program if it was started for that, until that ends. For `main`,
/// before anything else.
pub fn supervise(arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let task = Task::of(arguments)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let ended = runtime.and_then(|runtime| runtime.block_on(carry_out(&task)));
    Some(match ended {
        Ok(status) => told(status),
        Err(error) => {
            let program = task.argv[0].to_string_lossy();
            tell(&format!(
                "could not be started: {error}; its program is '{program}'\n"
            ));
            ExitCode::from(NOT_STARTED)
        }
    })
}

async fn carry_out(task: &Task) -> std::io::Result<ExitStatus> {
    // What is sent to all is the program's to answer, which has none of these handlers.
    let _deaf = deaf()?;
    let mut stop = signal(SignalKind::user_defined1())?;
    if task.is_over() {
        // This process may have been frozen, too, and somebody may have been told that nothing runs.
        return Err(std::io::Error::other("its time is over"));
    }
    let mut program = Command::new(&task.argv[0]);
    let mut program = program.args(&task.argv[1..]).process_group(0).spawn()?;
    let group = program.id().and_then(|id| i32::try_from(id).ok());
    let group = group.and_then(Pid::from_raw);
    let ended = loop {
        let pause = match task.is_over() {
            true => {
                end_all(group);
                LOOK
            }
            false => task.end.saturating_sub(BootClock.now()).min(LOOK),
        };
        tokio::select! {
            ended = program.wait() => break ended,
            _ = stop.recv() => end_all(group),
            () = tokio::time::sleep(pause) => {}
        }
    };
    // What it has left behind.
    end_all(group);
    ended
}

/// As long as these are kept, signals by which processes are told to stop change nothing.
fn deaf() -> std::io::Result<[UnixSignal; 5]> {
    Ok([
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
        signal(SignalKind::hangup())?,
        signal(SignalKind::quit())?,
        signal(SignalKind::user_defined2())?,
    ])
}

/// Kills the program and whatever is left in its group.
fn end_all(group: Option<Pid>) {
    // An empty group is what is wanted.
    let _ = group.map(|group| kill_process_group(group, Signal::KILL));
}

/// Tells the service how the program ended.
fn told(status: ExitStatus) -> ExitCode {
    let Some(signal) = status.signal() else {
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        return code.map_or(ExitCode::FAILURE, ExitCode::from);
    };
    tell(&format!("{MARK}{signal}"));
    // As a shell says it.
    ExitCode::from(u8::try_from(SIGNALLED + signal).unwrap_or(u8::MAX))
}

fn tell(text: &str) {
    // Nobody is there to be told if that fails.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// The signal that ended a program, by how the process above it ended and what that said last, which is
/// taken away.
pub(crate) fn signal_of(code: Option<i32>, said: &mut Vec<u8>) -> Option<i32> {
    let signal = code?.checked_sub(SIGNALLED)?;
    let mark = format!("{MARK}{signal}");
    let rest = said.strip_suffix(mark.as_bytes())?.len();
    said.truncate(rest);
    Some(signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_known_by_both_the_code_and_the_mark() {
        let marked = |text: &str| format!("{text}{MARK}11").into_bytes();
        let mut said = marked("last words");
        assert_eq!(signal_of(Some(139), &mut said), Some(11));
        assert_eq!(said, b"last words");
        for (code, said) in [
            (Some(139), b"139".to_vec()),
            (Some(138), marked("")),
            (Some(1), marked("")),
            (None, marked("")),
        ] {
            let mut left = said.clone();
            assert_eq!(signal_of(code, &mut left), None, "{code:?}");
            assert_eq!(left, said);
        }
    }

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
            end: Duration::from_secs(2),
            argv: vec!["sh".into(), "-c".into(), "true".into()],
        };
        let words = ["cairn", WORD, "7", "2000", "sh", "-c", "true"];
        assert_eq!(task(&words), Some(want));
    }
}

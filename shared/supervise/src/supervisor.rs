//! A process between the service and each program that it starts. It keeps the program's time limit
//! when the service cannot, because the service was killed or is suspended: what a person is asked
//! about a call goes by that.
//!
//! It is the service's own program once more, with other arguments and with no environment but the
//! program's. First it reads the whole input. If the service ends before that is complete, the program
//! is never started, and the call is certainly not begun. Then it waits: for the end of the program, of
//! the service or of the time, or for the signal to stop. After that it ends the program's process
//! group, in which it is not itself. It can do nothing about what leaves that group, or about a SIGKILL
//! that is meant for it alone. Of a program that is confined, it ends every process, wherever that went; see
//! [`crate::confine`].

pub(crate) mod descendants;
mod parent;
mod server;

use crate::confine::{self, Bounds, Enclosure};
use cairn_rpc::{BootClock, Monotonic as _};
use parent::Parent;
use rustix::process::{Pid, Signal, getpid, getppid, kill_process, kill_process_group};
use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::Command;
use tokio::signal::unix::{Signal as UnixSignal, SignalKind, signal};
use tokio::sync::oneshot;

/// The first argument of a process that is to be one.
const WORD: &str = "supervise-program";

/// Between two looks for the service.
const LOOK: Duration = Duration::from_millis(100);

/// In place of the bounds of a program that is not confined.
const NO_BOUNDS: &str = "-";

/// What a shell says of a program that it cannot start.
pub const NOT_STARTED: u8 = 127;

/// What a shell adds to the number of the signal that ended a program.
const SIGNALLED: i32 = 128;

/// Begins what a supervising process prints of a program that it could not start.
const COULD_NOT: &str = "could not be started: ";

/// Why a program is not started.
const TOO_LATE: &str = "its time is over";

/// Ends the standard error of a program that a signal ended, before the number. Without it, a program
/// that exits like a shell would look the same.
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
    pub fn this_program() -> io::Result<Self> {
        // It is there whatever became of the file meanwhile.
        let own = Path::new("/proc/self/exe");
        let program = match own.exists() {
            true => own.to_owned(),
            false => std::env::current_exe()?,
        };
        Ok(Self { program })
    }

    /// A command line that ends with the program, and to which its arguments are added. The time begins
    /// now. The program is started once `input` bytes were written to standard input. Without bounds it is not
    /// confined.
    pub fn command(
        &self,
        time_limit: Duration,
        input: usize,
        bounds: Option<&Bounds>,
        program: &str,
    ) -> Command {
        let mut command = Command::new(&self.program);
        let parent = getpid().as_raw_nonzero().to_string();
        let end = (BootClock.now() + time_limit).as_millis().to_string();
        let input = input.to_string();
        let bounds = written(bounds);
        command
            .arg0("cairn")
            .args([WORD, &parent, &end, &input, &bounds, program]);
        command
    }

    /// Whether the system can hold `what` of a confined program: `mounts` or `loopback`. Starts a process.
    #[cfg(target_os = "linux")]
    pub fn can(&self, what: &str) -> bool {
        use std::os::unix::process::CommandExt as _;
        let mut command = std::process::Command::new(&self.program);
        let command = command.arg0("cairn").args(confine::attempt(what));
        command
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }

    /// Whether the system can hold something of a confined program.
    #[cfg(not(target_os = "linux"))]
    pub fn can(&self, _: &str) -> bool {
        false
    }
}

/// Bounds as an argument.
fn written(bounds: Option<&Bounds>) -> String {
    bounds.map_or_else(|| NO_BOUNDS.to_owned(), Bounds::to_argument)
}

/// Reads what [`written`] wrote; `None` if it is something else.
fn bounds_of(argument: &str) -> Option<Option<Bounds>> {
    match argument {
        NO_BOUNDS => Some(None),
        bounds => Bounds::of_argument(bounds).map(Some),
    }
}

impl Supervisor {
    /// A command line that ends with the program of a server, and to which its arguments are added. The
    /// server is killed when this process ends. It must lead a process group. Without bounds it is not confined.
    pub fn server(&self, bounds: Option<&Bounds>, program: &str) -> Command {
        let mut command = Command::new(&self.program);
        let arguments = server::arguments(bounds);
        command.arg0("cairn").args(arguments).arg(program);
        command
    }
}

/// Makes a supervising process end its program or server, and then itself. Before it has started one, it ends
/// at once.
pub fn end(supervising: Pid) {
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
    /// Bytes of the input.
    input: u64,
    /// What the program may do, if it is confined.
    bounds: Option<Bounds>,
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
        let mut word = || arguments.next()?.into_string().ok();
        let parent = Pid::from_raw(word()?.parse().ok()?);
        let end = Duration::from_millis(word()?.parse().ok()?);
        let input = word()?.parse().ok()?;
        let bounds = bounds_of(&word()?)?;
        let argv: Vec<_> = arguments.collect();
        (!argv.is_empty()).then_some(Self {
            parent,
            end,
            input,
            bounds,
            argv,
        })
    }

    /// Whether the program has to end: the service has ended, or the time is up.
    fn is_over(&self) -> bool {
        getppid() != self.parent || BootClock.now() >= self.end
    }

    /// How long to wait until the next look at that.
    fn pause(&self) -> Duration {
        let look = match self.bounds {
            Some(_) => confine::LOOK,
            None => LOOK,
        };
        self.end.saturating_sub(BootClock.now()).min(look)
    }
}

/// Has the process supervise a program if it was started for that, until that ends. For `main`,
/// before anything else.
pub fn supervise(arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let arguments: Vec<OsString> = arguments.collect();
    if let Some(code) = confine::become_program(arguments.iter().cloned()) {
        return Some(code);
    }
    let server = server::Task::of(arguments.iter().cloned());
    let task = match server {
        Some(_) => None,
        None => Some(Task::of(arguments.into_iter())?),
    };
    // What the service decided about its own memory is not for its programs, which inherit it.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(false);
    if let Some(server) = server {
        return Some(server.carry_out());
    }
    let task = task?;
    Some(match supervised(&task) {
        Ok(status) => exit_code(status),
        Err(error) => {
            let program = task.argv[0].to_string_lossy();
            print_error(&format!("{COULD_NOT}{error}; its program is '{program}'\n"));
            ExitCode::from(NOT_STARTED)
        }
    })
}

fn supervised(task: &Task) -> io::Result<ExitStatus> {
    // While the process has one thread.
    let mut enclosure = task.bounds.clone().map(Enclosure::begin).transpose()?;
    runtime()?.block_on(async {
        let ended = carry_out(task, &mut enclosure).await;
        // What it has left behind, also if it was never started.
        if let Some(enclosure) = enclosure
            && let Some(why) = enclosure.end().await
        {
            print_error(&format!("\nall processes were killed: {why}\n"));
        }
        ended
    })
}

/// What a supervising process works with.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

async fn carry_out(task: &Task, enclosure: &mut Option<Enclosure>) -> io::Result<ExitStatus> {
    // What is sent to all is the program's to answer, which has none of these handlers.
    let _deaf = deaf()?;
    let mut stop = signal(SignalKind::user_defined1())?;
    let parent = Parent::of(task.parent);
    let input = filled(input(task, &mut stop).await?)?;
    if task.is_over() {
        // This process may have been suspended, too, and a person may have read that nothing runs.
        return Err(io::Error::other(TOO_LATE));
    }
    let mut program = {
        let mut command = match enclosure {
            Some(enclosure) => enclosure.command(&task.argv),
            None => plain(&task.argv),
        };
        command.stdin(input).process_group(0);
        command.spawn()?
    };
    let group = program.id().and_then(|id| i32::try_from(id).ok());
    let group = group.and_then(Pid::from_raw);
    let end_all = |enclosure: &Option<Enclosure>| match enclosure {
        Some(enclosure) => enclosure.kill(),
        None => end_all(group),
    };
    let ended = loop {
        let pause = match task.is_over() || parent.has_ended() {
            true => {
                end_all(enclosure);
                LOOK
            }
            false => task.pause(),
        };
        tokio::select! {
            ended = program.wait() => break ended,
            _ = stop.recv() => end_all(enclosure),
            () = tokio::time::sleep(pause) => if let Some(enclosure) = enclosure {
                enclosure.look(group);
            },
        }
    };
    // What it has left behind.
    end_all(enclosure);
    ended
}

/// A command line of a program that is not confined.
fn plain(argv: &[OsString]) -> Command {
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]);
    command
}

/// Reads the whole input.
async fn input(task: &Task, stop: &mut UnixSignal) -> io::Result<Vec<u8>> {
    let length = task.input;
    let (send, mut whole) = oneshot::channel();
    // A thread that may never end does not keep the process from ending.
    std::thread::spawn(move || {
        let mut input = Vec::new();
        let read = io::stdin().lock().take(length).read_to_end(&mut input);
        // After the time nothing takes it.
        let _ = send.send(read.map(|_| input));
    });
    loop {
        if task.is_over() {
            return Err(io::Error::other(TOO_LATE));
        }
        tokio::select! {
            read = &mut whole => {
                let input = read.map_err(io::Error::other)??;
                return match input.len() as u64 == length {
                    true => Ok(input),
                    false => Err(io::Error::other("its input is not complete")),
                };
            }
            _ = stop.recv() => return Err(io::Error::other("it was stopped")),
            () = tokio::time::sleep(task.pause()) => {}
        }
    }
}

/// A pipe with the whole input in it: the program has it whatever becomes of this process. If a pipe
/// does not hold so much, a thread adds the rest while the program reads.
fn filled(input: Vec<u8>) -> io::Result<PipeReader> {
    let (reader, mut writer) = io::pipe()?;
    if input.len() <= capacity(&writer, input.len()) {
        writer.write_all(&input)?;
    } else {
        // A program need not read its arguments.
        std::thread::spawn(move || drop(writer.write_all(&input)));
    }
    Ok(reader)
}

/// How many bytes an empty pipe takes at once, after an attempt to make room for `wanted`.
#[cfg(target_os = "linux")]
fn capacity(pipe: &PipeWriter, wanted: usize) -> usize {
    use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
    let held = fcntl_getpipe_size(pipe).unwrap_or_default();
    match held < wanted {
        true => fcntl_setpipe_size(pipe, wanted).unwrap_or(held),
        false => held,
    }
}

/// What POSIX promises.
#[cfg(not(target_os = "linux"))]
fn capacity(_: &PipeWriter, _: usize) -> usize {
    512
}

/// As long as these are kept, signals by which processes are told to stop change nothing.
fn deaf() -> io::Result<[UnixSignal; 5]> {
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

/// The exit code by which the service learns how the program ended.
fn exit_code(status: ExitStatus) -> ExitCode {
    let Some(signal) = status.signal() else {
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        return code.map_or(ExitCode::FAILURE, ExitCode::from);
    };
    print_error(&format!("{MARK}{signal}"));
    // As a shell says it.
    ExitCode::from(u8::try_from(SIGNALLED + signal).unwrap_or(u8::MAX))
}

pub(crate) fn print_error(text: &str) {
    // If that fails, there is nothing left that could report it.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// The signal that ended a program, by how the process above it ended and what that said last, which is
/// taken away.
pub fn signal_of(code: Option<i32>, said: &mut Vec<u8>) -> Option<i32> {
    let signal = code?.checked_sub(SIGNALLED)?;
    let mark = format!("{MARK}{signal}");
    let rest = said.strip_suffix(mark.as_bytes())?.len();
    said.truncate(rest);
    Some(signal)
}

/// Why a program was not started, by how the process above it ended and what that said; none if it was started.
pub fn why_not_started(code: Option<i32>, said: &[u8]) -> Option<String> {
    let why = said.strip_prefix(COULD_NOT.as_bytes())?;
    (code == Some(NOT_STARTED.into())).then(|| String::from_utf8_lossy(why).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_not_started_is_told_from_one_that_failed() {
        let said = b"could not be started: no such file; its program is 'x'\n";
        let why = why_not_started(Some(127), said);
        assert_eq!(why.unwrap(), "no such file; its program is 'x'");
        assert_eq!(why_not_started(Some(1), said), None);
        assert_eq!(why_not_started(Some(127), b"sh: x: not found\n"), None);
    }

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
    fn only_its_own_arguments_make_a_supervisor() {
        assert_eq!(task(&["cairn"]), None);
        assert_eq!(task(&["cairn", "run", "7", "2000", "2", "sh"]), None);
        for bad in [
            &["cairn", WORD][..],
            &["cairn", WORD, "x", "2000", "2", "-", "sh"],
            &["cairn", WORD, "7", "-1", "2", "-", "sh"],
            &["cairn", WORD, "7", "2000", "", "-", "sh"],
            &["cairn", WORD, "7", "2000", "2", "{}", "sh"],
            &["cairn", WORD, "7", "2000", "2", "sh"],
            &["cairn", WORD, "7", "2000", "2", "-"],
        ] {
            assert_eq!(task(bad), None, "{bad:?}");
        }
        let want = Task {
            parent: Pid::from_raw(7),
            end: Duration::from_secs(2),
            input: 2,
            bounds: None,
            argv: vec!["sh".into(), "-c".into(), "true".into()],
        };
        let words = ["cairn", WORD, "7", "2000", "2", "-", "sh", "-c", "true"];
        assert_eq!(task(&words), Some(want));
    }
}

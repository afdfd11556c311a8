//! The second stage of a supervising process: it takes its own rights away, and becomes the program.

use super::bounds::Bounds;
use super::{filter, landlock, namespaces};
use crate::supervisor::{NOT_STARTED, print_error};
use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The first argument of a process that is to be one.
const WORD: &str = "confine-program";
/// The first argument of a process that tries what the system can hold.
const TRY: &str = "try-to-confine";
/// Standard error.
const LAST_STREAM: i32 = 2;
/// Most descriptors of one process.
const MOST_OPEN: u64 = 65_536;
/// Threads of each process, for the limit of the system, which counts all threads of a user.
const THREADS: u64 = 4;
/// How much less of the processors a program gets than others, if these are busy.
const LESS: i32 = 5;
/// The system ends the program sooner than others when memory runs out.
const OUT_OF_MEMORY: &str = "500";
/// What a program of the superuser keeps: the rights over files within its bounds, and to become another user.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID);

/// The arguments of a process that becomes a confined program, up to the program. `temporary` is the folder for
/// its temporary files.
pub(crate) fn arguments(bounds: &Bounds, temporary: &Path) -> [OsString; 3] {
    let bounds = bounds.to_argument();
    [WORD.into(), bounds.into(), temporary.into()]
}

/// What such a process has to do.
struct Task {
    bounds: Bounds,
    temporary: PathBuf,
    argv: Vec<OsString>,
}

impl Task {
    /// `None` if the process is no such one. `arguments` begin with the name of the program.
    fn of(arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut arguments = arguments.skip(1);
        if arguments.next()? != WORD {
            return None;
        }
        let bounds = Bounds::of_argument(arguments.next()?.to_str()?)?;
        let temporary = arguments.next()?.into();
        let argv: Vec<_> = arguments.collect();
        (!argv.is_empty()).then_some(Self {
            bounds,
            temporary,
            argv,
        })
    }
}

/// The arguments of a process that ends with success if the system can hold `what`: `mounts` or `loopback`.
pub(crate) fn attempt(what: &str) -> [&str; 2] {
    [TRY, what]
}

/// Becomes the program, if the process was started for that; returns only if it cannot, or if the process was
/// started for an attempt.
pub(crate) fn become_program(arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let arguments: Vec<OsString> = arguments.collect();
    if let [_, word, what] = &*arguments
        && *word == *TRY
    {
        let can = namespaces::enter(*what == *"mounts", *what == *"loopback", &[]);
        return Some(ExitCode::from(u8::from(can.is_err())));
    }
    let task = Task::of(arguments.into_iter())?;
    close_inherited();
    let error = match confine(&task.bounds, &task.temporary) {
        Ok(()) => Command::new(&task.argv[0]).args(&task.argv[1..]).exec(),
        Err(error) => error,
    };
    let program = task.argv[0].to_string_lossy();
    print_error(&format!(
        "could not be started: {error}; its program is '{program}'\n"
    ));
    Some(ExitCode::from(NOT_STARTED))
}

/// Takes the rights away. The order matters: each step needs what later ones take.
fn confine(bounds: &Bounds, temporary: &Path) -> io::Result<()> {
    limit(bounds)?;
    // Of many processes, the one that counts them must get its turn.
    _ = setpriority_process(None, LESS);
    // It is no more than a wish.
    _ = std::fs::write("/proc/self/oom_score_adj", OUT_OF_MEMORY);
    drop_capabilities();
    set_no_new_privs(true)?;
    landlock::apply(bounds, &[temporary.to_owned()])?;
    filter::apply(&bounds.network)
}

/// Closes all but the standard streams: Landlock says nothing of what is open already, and the service may have
/// inherited files without knowing it.
fn close_inherited() {
    let entries = std::fs::read_dir("/proc/self/fd");
    let numbers = entries.into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let inherited: Vec<i32> = numbers.filter(|number| *number > LAST_STREAM).collect();
    for number in inherited {
        // The list of them has ended already.
        _ = nix::unistd::close(number);
    }
}

fn limit(bounds: &Bounds) -> io::Result<()> {
    let at_most = |resource, most: u64| {
        let hard = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let most = Some(most.min(hard));
        setrlimit(
            resource,
            Rlimit {
                current: most,
                maximum: most,
            },
        )
    };
    at_most(Resource::Core, 0)?;
    at_most(Resource::Fsize, bounds.caps.bytes)?;
    at_most(Resource::Nofile, MOST_OPEN)?;
    let others = super::watch::tasks().unwrap_or_default();
    at_most(
        Resource::Nproc,
        others + THREADS * u64::from(bounds.caps.processes),
    )?;
    Ok(())
}

/// For a program of the superuser. Any other has none.
fn drop_capabilities() {
    for capability in CapabilitySet::all().iter() {
        if !KEPT.contains(capability) {
            // A process without the right to do so has nothing to lose.
            _ = remove_capability_from_bounding_set(capability);
        }
    }
    if let Ok(held) = capabilities(None) {
        let kept = |set: CapabilitySet| set.intersection(KEPT);
        _ = set_capabilities(
            None,
            CapabilitySets {
                effective: kept(held.effective),
                permitted: kept(held.permitted),
                inheritable: CapabilitySet::empty(),
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_arguments_make_a_second_stage() {
        let task = |words: &[&str]| Task::of(words.iter().map(OsString::from));
        let bounds = r#"{"read":[],"write":[],"temporary":"/tmp","network":"none","mounts":false,
            "caps":{"processes":1,"bytes":2,"memory":3}}"#;
        for bad in [
            &["cairn"][..],
            &["cairn", "run", bounds, "/tmp/x", "sh"],
            &["cairn", WORD, "-", "/tmp/x", "sh"],
            &["cairn", WORD, bounds, "/tmp/x"],
            &["cairn", WORD, bounds],
        ] {
            assert!(task(bad).is_none(), "{bad:?}");
        }
        let task = task(&["cairn", WORD, bounds, "/tmp/x", "sh", "-c"]).unwrap();
        assert_eq!(task.argv, ["sh", "-c"]);
        assert_eq!(task.temporary, PathBuf::from("/tmp/x"));
        assert_eq!(task.bounds.caps.processes, 1);
    }
}

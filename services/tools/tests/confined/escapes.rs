//! Each escape, confined and, where that proves something, not confined.

use crate::table::{
    APPROVE, CALLS, Control, Ends, Escape, FILES, KILL_ALL, OF_MOUNTS, OF_SIGNALS, PROCESSES, RULES,
};
use crate::world::{CANARY, World};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

/// The argument of a process that tries all of them as another user.
pub(crate) const NOBODY: &str = "escapes-of-nobody";
/// That user.
const ID: u32 = 65_534;
/// What a command prints that gets what it wants.
const ESCAPED: &str = "ESCAPED";
/// Fewest attempts that are worth the name of a proof.
const FEWEST: usize = 40;

#[derive(Default)]
struct Count {
    refused: usize,
    named: usize,
    controls: usize,
    faults: Vec<String>,
    time: Duration,
}

pub(crate) fn as_this_user() {
    let holds = World::holds();
    assert!(holds.is_confined(), "{holds}");
    let is_open = |name: &str| {
        !holds.mounts && OF_MOUNTS.contains(&name)
            || holds.landlock < 6 && OF_SIGNALS.contains(&name)
    };
    let mut count = Count::default();
    for escape in [APPROVE, RULES, FILES, PROCESSES].into_iter().flatten() {
        if is_open(escape.name) {
            println!(
                "this system does not hold, and {holds:?} says so: {}",
                escape.name
            );
            continue;
        }
        if escape.name == KILL_ALL {
            // It would end all that runs on this machine where the confinement has a fault.
            assert!(count.faults.is_empty(), "{:#?}", count.faults);
        }
        attempt(escape, &mut count);
    }
    let mut world = World::new();
    for (name, number, arguments) in CALLS {
        call(&mut world, (name, *number, arguments), &mut count);
    }
    let started = start(&world);
    let all = count.refused + count.named;
    println!(
        "escapes as user {}: {all} tried, {} refused or undone, {} named, {} succeed without confinement; \
         {} ms for each, {} ms to start a command (not confined: {} ms)",
        rustix::process::getuid().as_raw(),
        count.refused,
        count.named,
        count.controls,
        count.time.as_millis() / u128::try_from(all.max(1)).unwrap(),
        started.0.as_millis(),
        started.1.as_millis(),
    );
    assert!(count.faults.is_empty(), "{:#?}", count.faults);
    assert!(all >= FEWEST, "{all}");
}

/// All of them once more as a user without rights, if this one has some.
pub(crate) fn as_nobody() {
    if !rustix::process::geteuid().is_root() {
        return println!("this user has no rights over others: it was tried as this user");
    }
    // The folder of this program may be closed to that user.
    let ran = Command::new("/proc/self/exe")
        .arg(NOBODY)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .current_dir("/")
        .uid(ID)
        .gid(ID)
        .status()
        .unwrap();
    assert!(ran.success(), "{ran}");
}

fn attempt(escape: &Escape, count: &mut Count) {
    if escape.control == Control::Always {
        let world = World::new();
        let said = world.run_unconfined(&filled(&world, escape.command));
        if said.contains(ESCAPED) {
            count.controls += 1;
        } else {
            let name = escape.name;
            count.faults.push(format!(
                "{name}: proves nothing, as it fails unconfined: {said}"
            ));
        }
    }
    let mut world = World::new();
    let command = filled(&world, escape.command);
    let began = Instant::now();
    let said = said(&world, &command);
    count.time += began.elapsed();
    let mut faults = world.damage();
    match escape.ends {
        Ends::Refused => {
            count.refused += 1;
            let has_escaped = said.contains(ESCAPED) || said.contains(CANARY);
            faults.extend(has_escaped.then(|| "it gets what it wants".to_owned()));
        }
        Ends::Named(file) => {
            count.named += 1;
            let words = format!("this command changed {file}");
            faults.extend((!said.contains(&words)).then(|| format!("{file} is not named")));
        }
    }
    let faults = faults.into_iter();
    count
        .faults
        .extend(faults.map(|fault| format!("{}: {fault}: {said}", escape.name)));
}

fn call(world: &mut World, (name, number, arguments): (&str, i64, &str), count: &mut Count) {
    let text = format!(
        "perl -MErrno -e '$r = syscall({number}, {arguments}); print \"ESCAPED $r $!\" if $r != -1 || !($!{{EPERM}} || $!{{ENOSYS}})'"
    );
    let command = filled(world, &text);
    let began = Instant::now();
    let said = said(world, &command);
    count.time += began.elapsed();
    count.refused += 1;
    if said.contains(ESCAPED) || !said.contains("exit status 0") {
        count.faults.push(format!("{name}: {said}"));
    }
}

fn said(world: &World, command: &str) -> String {
    world.run(command).unwrap_or_else(|error| error.to_text())
}

fn filled(world: &World, command: &str) -> String {
    let calls = [
        ("{SYS_pidfd_open}", libc::SYS_pidfd_open),
        ("{SYS_pidfd_send_signal}", libc::SYS_pidfd_send_signal),
    ];
    let command = world.filled(command);
    calls.into_iter().fold(command, |text, (name, number)| {
        text.replace(name, &number.to_string())
    })
}

/// How long a command takes that does nothing: confined, and not confined.
fn start(world: &World) -> (Duration, Duration) {
    const TIMES: u32 = 20;
    let timed = |run: &dyn Fn()| {
        let began = Instant::now();
        (0..TIMES).for_each(|_| run());
        began.elapsed() / TIMES
    };
    let confined = timed(&|| drop(world.run("true").unwrap()));
    (confined, timed(&|| drop(world.run_unconfined("true"))))
}

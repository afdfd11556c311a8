//! What commands use up, and what is left of them.

use crate::world::World;
use cairn_tools::ToolError;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Processes that do nothing, so that the test does not keep the machine from its work.
const BOMB: &str = "perl -e 'for (1..200) { if (!fork) { sleep 20; exit } } sleep 20'";
const SCATTERED: &str =
    "perl -MPOSIX -e 'for (1..200) { if (!fork) { POSIX::setsid(); sleep 20; exit } } sleep 20'";
const MUCH_MEMORY: &str = "perl -e '$x = \"x\" x 600000000; sleep 20'";
const FULL_DISK: &str =
    "for i in 1 2 3 4 5 6 7 8 9; do head -c 9000000 /dev/zero >$i; done; sleep 20";
const NAMELESS: &str = "perl -e 'for (1..9) { open($f[$_], \">\", \"x\"); unlink \"x\"; \
                        print {$f[$_]} \"x\" x 9000000; $f[$_]->flush } sleep 20' -MIO::Handle";

/// What all processes of a command use up together is limited, also for the superuser.
pub(crate) fn are_kept() {
    let mut world = World::with(|config| {
        config.shell.max_processes = 64;
        config.shell.max_bytes = 32 << 20;
        config.shell.max_memory = Some(512 << 20);
    });
    for (command, why) in [
        (BOMB, "more than 64 processes ran at one time"),
        (SCATTERED, "more than 64 processes ran at one time"),
        (
            MUCH_MEMORY,
            "the processes took more than 512 MiB of memory",
        ),
        (FULL_DISK, "more than 32 MiB were written"),
        (NAMELESS, "more than 32 MiB were written"),
    ] {
        let began = Instant::now();
        let said = world.run(command).unwrap();
        let words = format!("all processes were killed: {why}");
        assert!(said.contains(&words), "{command}: {said}");
        assert!(said.ends_with("ended by signal 9"), "{said}");
        println!("{why}: killed after {} ms", began.elapsed().as_millis());
        assert!(began.elapsed() < Duration::from_secs(15), "{command}");
        for file in fs::read_dir(world.at().join("ws")).unwrap().flatten() {
            if file.file_type().unwrap().is_file() {
                fs::remove_file(file.path()).unwrap();
            }
        }
    }
    // A single file is not even begun beyond that.
    let said = world
        .run("head -c 40000000 /dev/zero >one; stat -c %s one")
        .unwrap();
    assert!(said.contains("33554432"), "{said}");
    assert!(world.damage().is_empty());
}

/// Whatever a command started has ended with it, and its folder for temporary files is gone.
pub(crate) fn ends() {
    let world = World::new();
    let command = "mkdir $TMPDIR/closed && echo x >$TMPDIR/closed/x && chmod 0 $TMPDIR/closed; \
                   echo $TMPDIR; exec 9>held; flock -s 9; (setsid sleep 1000 &) ; sleep 1000 & echo done";
    let said = world.run(command).unwrap();
    let mut lines = said.lines();
    let temporary = lines.next().unwrap();
    assert_eq!(lines.collect::<Vec<_>>(), ["done", "exit status 0"]);
    assert!(!Path::new(temporary).exists(), "{temporary}");
    is_free(&world);
    let late = json!({"command": "exec 9>held; flock -s 9; trap '' TERM; echo begun; echo x >AGENTS.md; \
                      (setsid sleep 1000 &); sleep 1000", "timeout": 1});
    let error = world.call(&late).unwrap_err();
    let ToolError::Timeout(message) = error else {
        panic!("{error:?}");
    };
    for part in [
        "begun",
        "changed AGENTS.md",
        "longer than 1 s",
        "what it did stays",
    ] {
        assert!(message.contains(part), "{message}");
    }
    is_free(&world);
    let both = world.run("echo a; echo b >&2; echo c; exit 7").unwrap();
    assert_eq!(both, "a\nb\nc\nexit status 7");
    let out = world.call(&json!({"command": "pwd", "cwd": "../other"}));
    assert!(
        matches!(out, Err(ToolError::InvalidArguments(_))),
        "{out:?}"
    );
}

/// No process of a command holds the lock any more.
fn is_free(world: &World) {
    let held = fs::File::open(world.at().join("ws/held")).unwrap();
    held.try_lock().unwrap();
}

/// Nothing runs where it could approve its own call.
pub(crate) fn store() {
    let world = World::with(|config| config.store_paths.push(config.workspace.join("cairn.db")));
    let error = world.run("true").unwrap_err();
    let ToolError::Denied(why) = error else {
        panic!("{error:?}");
    };
    assert!(why.contains("could approve calls itself"), "{why}");
}

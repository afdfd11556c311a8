//! Files of the workspace count once a person confirmed them, and until one of them changes.

use crate::support::{FixedTime, World, put};
use crate::workspace_files::Files;
use cairn_boot::Trust;
use cairn_tools::{Allowances, Config, Deps, Tools, build};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

const SKILL: &str = "---\nname: pdf\ndescription: Reads PDF\n---\nRun scripts/run.sh.\n";

/// A workspace with a file of each kind.
fn world() -> World {
    let world = World::new();
    world.put("AGENTS.md", "Use tabs.");
    world.put(".cairn/agents/a.md", "A");
    world.put(".agents/skills/pdf/SKILL.md", SKILL);
    world.put(".agents/skills/pdf/scripts/run.sh", "echo 1");
    world
}

/// A name, a change, and whether the files are confirmed after it.
type Change = (&'static str, fn(&World), bool);

const CHANGES: &[Change] = &[
    ("nothing", |_| {}, true),
    (
        "a text",
        |world| world.put("AGENTS.md", "Use blanks."),
        false,
    ),
    (
        "an agent",
        |world| world.put(".cairn/agents/a.md", "B"),
        false,
    ),
    (
        "a script of the same size",
        |world| world.put(".agents/skills/pdf/scripts/run.sh", "echo 2"),
        false,
    ),
    (
        "another file of a skill",
        |world| world.put(".agents/skills/pdf/more.md", ""),
        false,
    ),
    (
        "another agent",
        |world| world.put(".github/agents/a.agent.md", "A"),
        false,
    ),
    (
        "an agent that is gone",
        |world| fs::remove_file(world.path(".cairn/agents/a.md")).unwrap(),
        false,
    ),
    (
        "an agent of another name",
        |world| {
            let (from, to) = (".cairn/agents/a.md", ".cairn/agents/b.md");
            fs::rename(world.path(from), world.path(to)).unwrap();
        },
        false,
    ),
    (
        "files that do not count",
        |world| {
            world.put("CLAUDE.md", "Use blanks.");
            world.put("src/main.rs", "");
            fs::create_dir_all(world.path(".claude/agents/x.md")).unwrap();
        },
        true,
    ),
];

#[tokio::test]
async fn a_change_of_any_file_makes_all_of_them_unconfirmed() {
    for &(name, change, is_confirmed) in CHANGES {
        let world = world();
        let files = Files::of(&world.tools).await;
        let before = files.confirm_all().await;
        change(&world);
        let after = files.now().await;
        assert_eq!(after.confirmed, is_confirmed, "{name}");
        assert_eq!(after.digest == before, is_confirmed, "{name}");
        let has_content = after.files.iter().any(|file| !file.content.is_empty());
        assert_eq!(has_content, is_confirmed, "{name}");
        if is_confirmed {
            continue;
        }
        // The digest that a person saw before the change confirms nothing.
        let refused = files.confirm(&before).await.unwrap_err();
        assert_eq!(refused.reason_name(), "WORKSPACE_CHANGED", "{name}");
        let present = refused.metadata("digest");
        assert_eq!(present, Some(after.digest.as_str()), "{name}");
        assert!(!files.now().await.confirmed, "{name}");
        files.confirm(&after.digest).await.unwrap();
        assert!(files.now().await.confirmed, "{name}");
    }
}

#[tokio::test]
async fn only_the_files_of_the_latest_confirmation_count() {
    let world = world();
    let files = Files::of(&world.tools).await;
    files.confirm_all().await;
    world.put("AGENTS.md", "Use blanks.");
    files.confirm_all().await;
    world.put("AGENTS.md", "Use tabs.");
    assert!(!files.now().await.confirmed);
}

#[tokio::test]
async fn a_reader_that_has_the_files_gets_no_contents_again() {
    let world = world();
    let files = Files::of(&world.tools).await;
    let digest = files.confirm_all().await;
    let known = files.read(&digest).await.unwrap();
    assert!(known.confirmed && known.unchanged);
    assert_eq!(known.files.len(), 3);
    assert!(known.files.iter().all(|file| file.content.is_empty()));
    let other = files.read("00").await.unwrap();
    assert!(other.confirmed && !other.unchanged);
    assert_eq!(other.files[0].content, b"Use tabs.");
    let missing = files.confirm("").await.unwrap_err();
    assert_eq!(missing.reason_name(), "FIELD_MISSING");
}

#[tokio::test]
async fn a_file_of_a_skill_is_read_as_it_was_confirmed() {
    let world = world();
    fs::write(world.folder.path().join("secret"), "TOP SECRET").unwrap();
    let files = Files::of(&world.tools).await;
    let skill = files.now().await.files[2].digest.clone();
    let early = files.skill_file("pdf", "", &skill).await.unwrap_err();
    assert_eq!(
        early.reason_name(),
        "SKILL_CHANGED",
        "before it was confirmed"
    );
    files.confirm_all().await;
    for (file, result) in [
        ("", Ok(SKILL)),
        ("SKILL.md", Ok(SKILL)),
        ("scripts/run.sh", Ok("echo 1")),
        ("scripts", Err("NO_SKILL_FILE")),
        ("scripts/gone.sh", Err("NO_SKILL_FILE")),
        ("AGENTS.md", Err("NO_SKILL_FILE")),
        ("..", Err("INVALID_ARGUMENT")),
        ("../../../AGENTS.md", Err("INVALID_ARGUMENT")),
        ("../../../../secret", Err("INVALID_ARGUMENT")),
        ("scripts/../SKILL.md", Err("INVALID_ARGUMENT")),
        ("./SKILL.md", Err("INVALID_ARGUMENT")),
        ("scripts//run.sh", Err("INVALID_ARGUMENT")),
        ("/etc/passwd", Err("INVALID_ARGUMENT")),
        ("a\0", Err("INVALID_ARGUMENT")),
        ("a\nb", Err("INVALID_ARGUMENT")),
    ] {
        let read = files.skill_file("pdf", file, &skill).await;
        let read = read.map(|it| String::from_utf8(it.content).unwrap());
        let read = read.as_deref().map_err(|error| error.reason_name());
        assert_eq!(read, result, "{file:?}");
    }
    let unknown = files.skill_file("tex", "", &skill).await.unwrap_err();
    assert_eq!(unknown.reason_name(), "NO_SKILL");
    assert_eq!(
        unknown.message(),
        "there is no skill 'tex' in the workspace; skills: pdf"
    );
    let other = files.skill_file("pdf", "", "00").await.unwrap_err();
    assert_eq!(other.reason_name(), "SKILL_CHANGED");
}

#[tokio::test]
async fn a_run_reads_a_skill_on_when_another_file_has_changed_and_not_when_the_skill_has() {
    let world = world();
    let files = Files::of(&world.tools).await;
    files.confirm_all().await;
    let skill = files.now().await.files[2].digest.clone();
    world.put("AGENTS.md", "Use blanks.");
    assert!(!files.now().await.confirmed);
    let read = files.skill_file("pdf", "", &skill).await.unwrap();
    assert_eq!(read.content, SKILL.as_bytes());
    world.put(".agents/skills/pdf/scripts/run.sh", "rm -r ~");
    let changed = files.skill_file("pdf", "", &skill).await.unwrap_err();
    assert_eq!(
        changed.message(),
        "skill 'pdf' has changed and is not confirmed; it can be read again once a person has confirmed the \
         files of the workspace"
    );
    let present = files.now().await.files[2].digest.clone();
    let unconfirmed = files.skill_file("pdf", "", &present).await.unwrap_err();
    assert_eq!(unconfirmed.reason_name(), "SKILL_CHANGED");
}

#[tokio::test]
async fn of_a_long_file_of_a_skill_the_beginning_is_read() {
    let world = world();
    let long = "é".repeat(200 * 1024);
    world.put(".agents/skills/pdf/long.md", &long);
    let files = Files::of(&world.tools).await;
    files.confirm_all().await;
    let skill = files.now().await.files[2].digest.clone();
    let read = files.skill_file("pdf", "long.md", &skill).await.unwrap();
    assert_eq!(read.size, 400 * 1024);
    assert_eq!(read.content, &long.as_bytes()[..256 * 1024]);
}

/// A service over the workspace `ws` of a folder.
fn service(folder: &Path, allowances: Allowances) -> Tools {
    let config = Config {
        workspace: folder.join("ws"),
        output: folder.join("out"),
        ..Config::default()
    };
    let deps = Deps {
        allowances,
        ..Deps::new(Arc::new(FixedTime))
    };
    build(config, deps).unwrap()
}

#[tokio::test]
async fn processes_share_a_trust_file_and_nothing_else() {
    let folder = TempDir::new().unwrap();
    put(&folder.path().join("ws/AGENTS.md"), "Use tabs.");
    let trust = Trust::at(folder.path().join("trust.json"));
    let with_file = || service(folder.path(), Allowances::in_file(trust.clone()));
    let [one, two] = [with_file(), with_file()];
    let alone = service(folder.path(), Allowances::in_process());
    let (one, two) = (Files::of(&one).await, Files::of(&two).await);
    let alone = Files::of(&alone).await;
    one.confirm_all().await;
    assert!(one.now().await.confirmed && two.now().await.confirmed);
    assert!(!alone.now().await.confirmed);
    let later = service(folder.path(), Allowances::in_file(trust.clone()));
    assert!(Files::of(&later).await.now().await.confirmed);

    fs::write(trust.path(), "{").unwrap();
    let read = one.now().await;
    assert!(!read.confirmed && read.files[0].content.is_empty());
    assert!(
        read.problems[0].starts_with("no file counts, as their confirmation cannot be read: "),
        "{:?}",
        read.problems
    );
    let refused = one.confirm(&read.digest).await.unwrap_err();
    assert_eq!(refused.reason_name(), "TRUST_FILE");
}

#[tokio::test]
async fn a_file_that_is_exchanged_while_it_is_read_is_never_read_unconfirmed() {
    let world = world();
    let files = Files::of(&world.tools).await;
    files.confirm_all().await;
    world.put("evil.md", "EVIL");
    let (good, evil) = (world.path(".cairn/agents/a.md"), world.path("evil.md"));
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let swapper = std::thread::spawn(move || {
        let mut rounds = 0_usize;
        while !stopped.load(Ordering::Relaxed) {
            renameat_with(CWD, &good, CWD, &evil, RenameFlags::EXCHANGE).unwrap();
            rounds += 1;
        }
        rounds
    });
    for _ in 0..500 {
        match files.read("").await {
            Ok(read) if read.confirmed => assert_eq!(read.files[1].content, b"A"),
            Ok(read) => assert!(read.files.iter().all(|file| file.content.is_empty())),
            Err(error) => assert_eq!(error.reason_name(), "WORKSPACE_BUSY"),
        }
    }
    stop.store(true, Ordering::Relaxed);
    assert!(swapper.join().unwrap() > 0);
}

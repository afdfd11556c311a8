//! Work in a repository: a model mends a failing test, and `cairn serve` is killed before and after every
//! commit. The model reads files, edits one wrongly, runs the tests, sees them fail, edits again and sees them
//! pass. Commands are confined to the workspace. A person approves each edit and each command, after a check
//! that what is shown is what is done.
//!
//! No edit is made twice. No command begins twice, unless the person let it: a command of unknown outcome is
//! asked about, and answered by the marks that it left. The files are in the end, byte for byte, those of a turn
//! that no kill disturbed.
//!
//! `deploy/prove work` kills at every commit, in a file and over Redis; the suite kills at a few of them. With
//! `--repository DIR` it works in a copy of that folder. A file `.cairn-work.json` there names what runs the
//! tests and the break, or flags do:
//!
//! ```json
//! {"runner": "cargo", "break": {"path": "src/lib.rs", "old": "a < b", "new": "a > b", "wrong": "a == b"}}
//! ```
//!
//! `old` is what the file has, `new` takes its place before the model begins, and `wrong` is the first guess of
//! the model. Without `wrong` it is `new` with a comment. The tests need no network.

mod diff;
mod person;
mod script;
mod task;

use self::person::Person;
use self::script::{COMMANDS, EDITS, ESCAPED, GREEN, Mark};
use self::task::{Runner, Task, Tree};
use crate::support::commits::{Sweep, kill_around_each};
use crate::support::place::Place;
use crate::support::served::{SESSION, add_model};
use cairn_testkit::{Change, Changes, Journal, ModelServer, TestStore};
use clap::Args;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Builder;

const SIGKILL: i32 = 9;
/// The workspace, below the site: commands can write nothing beside it.
pub(crate) const WORKSPACE: &str = "work";
/// Kills at the same time. Each runs the tests at least twice.
const AT_ONCE: usize = 4;
/// About so many kills in the suite.
const FEW: usize = 6;
/// What of this process's environment the server has, so that commands find the toolchains of its user.
const ENVIRONMENT: [&str; 8] = [
    "HOME",
    "PATH",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
    "NVM_DIR",
    "GOPATH",
];

/// What is mended. Without a repository it is a small crate.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The folder in a copy of which the model works
    #[arg(long, value_name = "DIR")]
    pub(crate) repository: Option<PathBuf>,
    /// What runs its tests, instead of `runner` in .cairn-work.json
    #[arg(long, value_enum, requires = "repository")]
    pub(crate) runner: Option<Runner>,
    /// The file to break, instead of `break.path`
    #[arg(long, value_name = "FILE", requires = "repository")]
    pub(crate) path: Option<String>,
    /// Text that the file has once, instead of `break.old`
    #[arg(
        long,
        value_name = "TEXT",
        requires = "repository",
        allow_hyphen_values = true
    )]
    pub(crate) old: Option<String>,
    /// Text that takes its place before the model begins, instead of `break.new`
    #[arg(
        long,
        value_name = "TEXT",
        requires = "repository",
        allow_hyphen_values = true
    )]
    pub(crate) new: Option<String>,
    /// The model's first guess, instead of `break.wrong`
    #[arg(
        long,
        value_name = "TEXT",
        requires = "repository",
        allow_hyphen_values = true
    )]
    pub(crate) wrong: Option<String>,
    /// A folder that commands may read besides the usual ones, such as a virtual environment
    #[arg(long, value_name = "DIR")]
    pub(crate) read: Vec<PathBuf>,
    /// Kill at a third of the commits, also in a file
    #[arg(long)]
    pub(crate) sampled: bool,
}

/// Which commits are killed at.
#[derive(Debug, Clone, Copy)]
enum Kills {
    Every,
    Third,
    Few,
}

impl Kills {
    fn sweep(self, commits: usize) -> Sweep {
        match self {
            Self::Every => Sweep::Every,
            Self::Third => Sweep::third(),
            // An odd number has points before and after commits.
            Self::Few => Sweep::sampled((2 * commits / FEW) | 1),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn work_survives_kills_at_a_few_commits() {
    mend(TestStore::file(), Task::own(), Kills::Few).await;
}

/// Mends in a file and over Redis, and panics with what it found.
pub(crate) fn prove(options: &Options) {
    println!("{options:?}");
    let mut runtime = Builder::new_multi_thread();
    let runtime = runtime.worker_threads(6).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let kills = match options.sampled {
        true => Kills::Third,
        false => Kills::Every,
    };
    for store in [TestStore::file, redis::store] {
        let mended = mend(store(), Task::of(options), kills);
        runtime.block_on(Box::pin(mended));
    }
}

/// Counts the changes of the file that the model edits.
struct Edits {
    changes: Changes,
    folder: PathBuf,
    name: String,
}

impl Edits {
    /// All changes from now on.
    fn begin(workspace: &Path, task: &Task) -> Self {
        let file = workspace.join(&task.path);
        let folder = file.parent().expect("a folder").to_owned();
        let name = file.file_name().expect("a name").to_string_lossy();
        Self {
            changes: Changes::of(&folder),
            name: name.into_owned(),
            folder,
        }
    }

    /// The changes so far.
    fn finish(mut self) -> Vec<Change> {
        const LAST: &str = "last-of-all";
        std::fs::write(self.folder.join(LAST), "").expect("a file");
        let mut changes = Vec::new();
        loop {
            let (name, change) = self.changes.next_change();
            if name == LAST {
                return changes;
            }
            if name == self.name {
                changes.push(change);
            }
        }
    }
}

/// A site with the broken repository, and what happens in it.
struct World {
    place: Place,
    edits: Edits,
    person: Person,
}

/// What all kills of a sweep share, and the files of a turn that no kill disturbed.
struct Reference {
    store: Arc<TestStore>,
    model: ModelServer,
    task: Arc<Task>,
    tree: Tree,
}

/// What came of a kill.
struct Killed {
    doubts: usize,
    leaves: usize,
}

impl Reference {
    fn world(&self, name: &str) -> World {
        let place = Place::beside_others(&self.store, name);
        let workspace = place.site.path().join(WORKSPACE);
        self.task.lay_out(&workspace);
        add_model(&place.site, &self.model);
        let read = self.task.read.iter();
        let read = read.map(|folder| format!("{:?}", folder.display().to_string()));
        let read: Vec<String> = read.collect();
        let settings = format!(
            "\n[workspace]\npath = \"{WORKSPACE}\"\n\n[tools.shell]\nread = [{}]\n",
            read.join(", ")
        );
        place.site.append("cairn.toml", &settings);
        let edits = Edits::begin(&workspace, &self.task);
        let person = Person::default();
        World {
            place,
            edits,
            person,
        }
    }

    /// Mends without a kill, keeps the files, and counts the commits.
    async fn prepare(store: TestStore, task: Task) -> (Self, usize) {
        let task = Arc::new(task);
        let played = task.clone();
        let mut reference = Self {
            store: Arc::new(store),
            model: ModelServer::start(move |body| script::plays(&played, body)),
            task,
            tree: Tree::default(),
        };
        let mut world = reference.world("undisturbed");
        let count = world.place.site.path().join("commits");
        world.serve(&format!("count:{}", count.display()));
        let ended = world.person.go_on(&world.place, &reference.task).await;
        let log = || world.place.site.tail("listen.log", 12);
        ended.unwrap_or_else(|status| panic!("no kill disturbs it: {status:?}\n{}", log()));
        let commits = world.place.site.read("commits");
        let commits = commits.expect("commits are counted").lines().count();
        assert_eq!(world.person.doubts, 0);
        reference.tree = Tree::of(&world.place.site.path().join(WORKSPACE));
        world.check_end(&reference, "undisturbed");
        (reference, commits)
    }

    /// None if the turn has no such commit.
    async fn kill_once(&self, side: &str, commit: usize) -> Option<Killed> {
        let fail = format!("{side}:{commit}");
        let mut world = self.world(&format!("{side}-{commit}"));
        world.serve(&fail);
        while world.place.is_served() && !world.person.has_ended {
            // The server dies during this, or has just answered to the end.
            let _ = world.person.go_on(&world.place, &self.task).await;
            world.place.pause().await;
        }
        if world.place.is_served() {
            return None;
        }
        assert_eq!(world.place.wait_for_signal(), Some(SIGKILL), "{fail}");
        // The answer depends on the marks of the command.
        world.place.site.wait_for_programs_in(WORKSPACE);
        world.serve("");
        while !world.person.has_ended {
            let went = world.person.go_on(&world.place, &self.task).await;
            went.unwrap_or_else(|status| panic!("{fail}: {status:?}"));
        }
        let killed = Killed {
            doubts: world.person.doubts,
            leaves: world.person.leaves.values().sum(),
        };
        world.check_end(self, &fail);
        Some(killed)
    }
}

impl World {
    /// Serves the site with the toolchains of this process's user. `fail` says at which commit the server kills
    /// itself; it is empty for none.
    fn serve(&mut self, fail: &str) {
        let given = ENVIRONMENT.into_iter().filter_map(|name| {
            let value = std::env::var_os(name)?.into_string().ok()?;
            Some((name, value))
        });
        let given: Vec<(&str, String)> = given.collect();
        let mut variables: Vec<(&str, &str)> = Vec::new();
        variables.extend(given.iter().map(|(name, value)| (*name, value.as_str())));
        if !fail.is_empty() {
            variables.push(("CAIRN_FAIL_COMMIT", fail));
        }
        assert!(self.place.keep_serving_with(&variables), "{fail}");
    }

    /// Stops the server, and panics unless all is as if no kill had disturbed it.
    fn check_end(mut self, reference: &Reference, fail: &str) {
        self.place.kill_server();
        self.place.site.wait_for_programs_in(WORKSPACE);
        assert_eq!(self.person.response, GREEN, "{fail}");
        let approvals = COMMANDS + EDITS;
        assert_eq!(self.person.approvals, approvals, "{fail}: each asks once");
        self.check_journal(fail);

        let workspace = self.place.site.path().join(WORKSPACE);
        for number in 1..=COMMANDS {
            let leaves = self.person.leaves.get(&number).copied().unwrap_or(0);
            let starts = Mark::read(&workspace, number).starts;
            assert_eq!(starts, 1 + leaves, "{fail}: command {number} begins");
        }
        let escaped = self.place.site.path().join(ESCAPED);
        assert!(!escaped.exists(), "{fail}: a command is not confined");
        let tree = Tree::of(&workspace);
        let differences = tree.differences(&reference.tree);
        assert!(differences.is_empty(), "{fail}: {differences:?} differ");
        let edits = self.edits.finish();
        assert_eq!(edits, [Change::Replaced; EDITS], "{fail}: the edits");
    }

    fn check_journal(&self, fail: &str) {
        let journal: Journal = self.place.journal(SESSION);
        journal.check();
        for (kind, times) in [
            ("approval_requested", COMMANDS + EDITS),
            ("call_in_doubt", self.person.doubts),
            ("run_completed", 1),
        ] {
            assert_eq!(journal.of_kind(kind).len(), times, "{fail}: {kind}");
        }
    }
}

async fn mend(store: TestStore, task: Task, kills: Kills) {
    let name = if store.is_file() { "a file" } else { "Redis" };
    let (reference, commits) = Reference::prepare(store, task).await;
    let reference = Arc::new(reference);
    let kill = |side: &'static str, commit: usize| {
        let reference = Arc::clone(&reference);
        let kill = tokio::spawn(async move { Box::pin(reference.kill_once(side, commit)).await });
        async move { kill.await.expect("a kill") }
    };
    let swept = kill_around_each(commits, AT_ONCE, kills.sweep(commits), kill).await;
    let doubts: usize = swept.killed.iter().map(|it| it.doubts).sum();
    let leaves: usize = swept.killed.iter().map(|it| it.leaves).sum();
    println!(
        "{name}: {commits} commits, {} kills, {doubts} commands of unknown outcome, {leaves} run again with \
         leave; no edit twice, no command twice without leave, every tree equal",
        swept.killed.len()
    );
    swept.check_reached(4);
    assert!(
        doubts >= 1 || !swept.is_complete(),
        "no command was killed on its way"
    );
}

/// Needs a server of Redis.
mod redis {
    use super::TestStore;

    pub(super) fn store() -> TestStore {
        TestStore::redis()
    }
}

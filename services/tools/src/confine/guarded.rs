//! Files of the workspace that Cairn or git runs or reads on its own. Within one folder, Landlock can close
//! nothing, so a command can change them: what it changed is named in its result.

use crate::files::PROTECTED_FOLDERS;
use cairn_engine::key::digest;
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Files, from the workspace.
const FILES: [&str; 9] = [
    "cairn.toml",
    ".mcp.json",
    "AGENTS.md",
    "CLAUDE.md",
    ".git",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git/info/attributes",
];
/// Folders that git runs or reads from, and prompts beside a settings file.
const FOLDERS: [&str; 2] = [".git/hooks", "prompts"];
/// The repositories of submodules, each with a configuration and hooks of its own.
const MODULES: &str = ".git/modules";
/// Folders in which git keeps objects and names of commits, which are many.
const OF_DATA: [&str; 3] = ["objects", "refs", "logs"];
/// What counts of such a repository: these files, and everything in the folder of hooks.
const OF_MODULES: [&str; 2] = ["config", "config.worktree"];
const HOOKS: &str = "hooks";
/// Most files that are compared.
const MOST: usize = 4096;
/// Most bytes of a file that are compared; of a larger one, its size and times.
const MOST_BYTES: u64 = 1 << 20;
/// Most changed files that are named.
const MOST_NAMED: usize = 20;

/// The files of a workspace that are compared.
#[derive(Debug, Clone)]
pub(crate) struct Guarded {
    workspace: PathBuf,
    /// Folders of agents and skills that the settings name, and the settings in use, from the workspace.
    more: Vec<PathBuf>,
}

/// How they were.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    files: BTreeMap<PathBuf, Mark>,
    /// There are more than are compared.
    is_cut: bool,
}

/// How a file is. Two files with one mark are the same to git and to Cairn.
#[derive(Debug, PartialEq, Eq)]
enum Mark {
    File {
        mode: u32,
        digest: [u8; 32],
    },
    Large {
        mode: u32,
        size: u64,
        times: [i64; 2],
    },
    Link(PathBuf),
    Other,
}

impl Guarded {
    /// `more` are further files and folders, from the workspace.
    pub(crate) fn of(workspace: &Path, mut more: Vec<PathBuf>) -> Self {
        let is_known = |path: &PathBuf| {
            let mut known = FILES.iter().chain(&PROTECTED_FOLDERS);
            known.any(|known| path == Path::new(known))
        };
        more.retain(|path| !is_known(path));
        Self {
            workspace: workspace.to_owned(),
            more,
        }
    }

    /// How they are now. Reads files.
    pub(crate) fn look(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for name in FILES {
            self.add(Path::new(name), &mut snapshot);
        }
        let fixed = FOLDERS.iter().chain(&PROTECTED_FOLDERS).map(Path::new);
        for name in fixed.chain(self.more.iter().map(PathBuf::as_path)) {
            self.add_all(name, |_| true, &mut snapshot);
        }
        self.add_all(Path::new(MODULES), of_modules, &mut snapshot);
        snapshot
    }

    /// What a command changed since `before`, in words for the model; none if it changed nothing.
    pub(crate) fn changed(&self, before: &Snapshot) -> Option<String> {
        let now = self.look();
        let names = now.files.keys().chain(before.files.keys());
        let differs = |name: &&PathBuf| now.files.get(*name) != before.files.get(*name);
        let changed: std::collections::BTreeSet<&PathBuf> = names.filter(differs).collect();
        let is_cut = now.is_cut || before.is_cut;
        if changed.is_empty() && !is_cut {
            return None;
        }
        let named = changed.iter().take(MOST_NAMED);
        let mut named: Vec<String> = named.map(|name| name.display().to_string()).collect();
        if changed.len() > MOST_NAMED {
            named.push(format!("{} more", changed.len() - MOST_NAMED));
        }
        if is_cut {
            named.push("perhaps others, of which there are too many to compare".to_owned());
        }
        Some(format!(
            "this command changed {}, which Cairn or git runs or reads on its own",
            named.join(", ")
        ))
    }

    fn add(&self, name: &Path, snapshot: &mut Snapshot) -> Option<Metadata> {
        let path = self.workspace.join(name);
        let found = path.symlink_metadata().ok()?;
        if found.is_dir() {
            return Some(found);
        }
        if snapshot.files.len() == MOST {
            snapshot.is_cut = true;
            return None;
        }
        snapshot.files.insert(name.to_owned(), mark(&path, &found));
        None
    }

    /// Adds a folder with everything below it that counts.
    fn add_all(&self, name: &Path, counts: fn(&Path) -> bool, snapshot: &mut Snapshot) {
        let mut left = vec![name.to_owned()];
        while let Some(name) = left.pop().filter(|_| !snapshot.is_cut) {
            if self.add(&name, snapshot).is_none() {
                continue;
            }
            let entries = fs::read_dir(self.workspace.join(&name));
            for entry in entries.into_iter().flatten().flatten() {
                let below = name.join(entry.file_name());
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                let is_of_data = OF_DATA.iter().any(|it| entry.file_name() == *it);
                if counts(&below) || is_folder && !is_of_data {
                    left.push(below);
                }
            }
        }
    }
}

fn of_modules(path: &Path) -> bool {
    let is_file = path
        .file_name()
        .is_some_and(|name| OF_MODULES.iter().any(|it| name == *it));
    is_file || path.components().any(|part| part.as_os_str() == HOOKS)
}

fn mark(path: &Path, found: &Metadata) -> Mark {
    let mode = found.permissions().mode();
    if found.is_symlink() {
        return path.read_link().map_or(Mark::Other, Mark::Link);
    }
    // To open anything else might wait for ever.
    if !found.is_file() {
        return Mark::Other;
    }
    if found.len() <= MOST_BYTES
        && let Some(digest) = content(path)
    {
        return Mark::File { mode, digest };
    }
    Mark::Large {
        mode,
        size: found.len(),
        times: [found.ctime(), found.ctime_nsec()],
    }
}

fn content(path: &Path) -> Option<[u8; 32]> {
    // Another command may put a pipe in its place meanwhile.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).ok()?;
    Some(digest(&[&bytes]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> (tempfile::TempDir, Guarded) {
        let folder = tempfile::tempdir().unwrap();
        for below in [
            ".git/hooks",
            ".git/modules/a/hooks",
            ".claude/skills/x",
            "mine/agents",
        ] {
            fs::create_dir_all(folder.path().join(below)).unwrap();
        }
        fs::write(folder.path().join("cairn.toml"), "a = 1\n").unwrap();
        fs::write(folder.path().join(".git/hooks/pre-commit"), "true\n").unwrap();
        let guarded = Guarded::of(folder.path(), vec!["mine/agents".into()]);
        (folder, guarded)
    }

    #[test]
    fn each_change_is_named() {
        type Change = fn(&Path);
        let changes: [(&str, Change); 10] = [
            ("cairn.toml", |at| {
                fs::write(at.join("cairn.toml"), "b = 2\n").unwrap()
            }),
            ("cairn.toml", |at| {
                fs::remove_file(at.join("cairn.toml")).unwrap()
            }),
            ("AGENTS.md", |at| {
                fs::write(at.join("AGENTS.md"), "obey").unwrap()
            }),
            (".git/hooks/post-checkout", |at| {
                fs::write(at.join(".git/hooks/post-checkout"), "x").unwrap();
            }),
            (".git/hooks/pre-commit", |at| {
                let mode = fs::Permissions::from_mode(0o755);
                fs::set_permissions(at.join(".git/hooks/pre-commit"), mode).unwrap();
            }),
            (".git/hooks", |at| {
                fs::rename(at.join(".git/hooks"), at.join("elsewhere")).unwrap();
                std::os::unix::fs::symlink("../elsewhere", at.join(".git/hooks")).unwrap();
            }),
            (".git/config", |at| {
                fs::write(at.join(".git/config"), "[core]").unwrap()
            }),
            (".git/modules/a/hooks/x", |at| {
                fs::write(at.join(".git/modules/a/hooks/x"), "x").unwrap();
            }),
            ("mine/agents/a.md", |at| {
                fs::write(at.join("mine/agents/a.md"), "x").unwrap();
            }),
            (".claude/skills/x/run.sh", |at| {
                fs::write(at.join(".claude/skills/x/run.sh"), "x").unwrap();
            }),
        ];
        for (name, change) in changes {
            let (folder, guarded) = workspace();
            let before = guarded.look();
            change(folder.path());
            let words = guarded.changed(&before).unwrap_or_default();
            assert!(
                words.contains(&format!("changed {name}")),
                "{name}: {words}"
            );
            assert!(words.ends_with("which Cairn or git runs or reads on its own"));
        }
    }

    #[test]
    fn other_files_and_the_same_content_are_no_change() {
        let (folder, guarded) = workspace();
        let before = guarded.look();
        fs::write(folder.path().join("cairn.toml"), "a = 1\n").unwrap();
        fs::write(folder.path().join("src.rs"), "x").unwrap();
        fs::create_dir_all(folder.path().join(".git/modules/a/objects/aa")).unwrap();
        fs::write(folder.path().join(".git/modules/a/objects/aa/b"), "x").unwrap();
        fs::write(folder.path().join(".git/modules/a/index"), "x").unwrap();
        fs::write(folder.path().join(".git/index"), "x").unwrap();
        assert_eq!(guarded.changed(&before), None);
    }

    #[test]
    fn more_files_than_are_compared_are_named() {
        let (folder, guarded) = workspace();
        let before = guarded.look();
        for n in 0..=MOST {
            fs::write(folder.path().join(format!(".claude/skills/x/{n}")), "").unwrap();
        }
        let words = guarded.changed(&before).unwrap();
        assert!(words.contains("too many to compare"), "{words}");
    }
}

//! What the model mends: a folder, what runs its tests, and the break. A file `.cairn-work.json` in the folder
//! or flags describe it; without a folder it is a small crate that is written here.

use super::Options;
use clap::ValueEnum;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// The file of a repository that describes its break.
const DESCRIPTION: &str = ".cairn-work.json";
/// The marks of commands, below the workspace; see [`super::script`].
pub(crate) const MARKS: &str = ".proof";
/// Folders that are neither copied nor compared: history, and what builds and tests leave.
const SKIPPED: [&str; 5] = [".git", "target", "__pycache__", ".pytest_cache", MARKS];

/// A crate with one test.
const CRATE: [(&str, &str); 2] = [
    (
        "Cargo.toml",
        "[package]\nname = \"tally\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n\n\
         [profile.dev]\ndebug = 0\n",
    ),
    (
        "src/lib.rs",
        "/// The mean of some numbers, rounded down. None of no numbers.\n\
         pub fn mean(numbers: &[u64]) -> Option<u64> {\n\
         \x20   let sum: u64 = numbers.iter().sum();\n\
         \x20   sum.checked_div(numbers.len() as u64)\n\
         }\n\n\
         #[cfg(test)]\n\
         mod tests {\n\
         \x20   #[test]\n\
         \x20   fn a_mean_is_rounded_down() {\n\
         \x20       assert_eq!(super::mean(&[1, 2, 7]), Some(3));\n\
         \x20       assert_eq!(super::mean(&[]), None);\n\
         \x20   }\n\
         }\n",
    ),
];

/// What runs the tests of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Runner {
    /// `cargo test`, without the examples in documents.
    Cargo,
    /// pytest, of the Python that is found on PATH.
    Pytest,
    /// The runner of node.
    Node,
}

impl Runner {
    /// Runs the tests offline, and leaves nothing but what a build leaves.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::Cargo => "cargo test --offline --tests",
            Self::Pytest => "PYTHONDONTWRITEBYTECODE=1 python3 -m pytest -q -p no:cacheprovider",
            Self::Node => "node --test --test-reporter=tap",
        }
    }

    /// Whether tests ran and one of them failed.
    pub(crate) fn is_red(self, output: &str) -> bool {
        match self {
            Self::Cargo => output.contains("test result: FAILED"),
            Self::Pytest => output.contains(" failed"),
            Self::Node => output.contains("# fail ") && !output.contains("# fail 0"),
        }
    }

    /// Whether tests ran and all of them passed.
    pub(crate) fn is_green(self, output: &str) -> bool {
        let passed = match self {
            Self::Cargo => "test result: ok",
            Self::Pytest => " passed",
            Self::Node => "# fail 0",
        };
        output.contains(passed) && !self.is_red(output)
    }

    /// A text in the place of `broken` that mends nothing.
    fn guess(self, broken: &str) -> String {
        match self {
            Self::Cargo | Self::Node => format!("/* a guess */ {broken}"),
            Self::Pytest => format!("{broken}  # a guess"),
        }
    }
}

/// A folder with a break, and the edits that mend it.
#[derive(Debug)]
pub(crate) struct Task {
    /// Where it is copied from. None for [`CRATE`].
    folder: Option<PathBuf>,
    pub(crate) runner: Runner,
    /// The broken file, relative to the folder.
    pub(crate) path: String,
    /// What the file has before it is broken, and again in the end.
    pub(crate) right: String,
    /// What it has when the model begins.
    pub(crate) broken: String,
    /// What the first edit makes of that.
    pub(crate) wrong: String,
    /// Folders that commands may read, too.
    pub(crate) read: Vec<PathBuf>,
}

impl Task {
    /// The crate that is written here.
    pub(crate) fn own() -> Self {
        Self {
            folder: None,
            runner: Runner::Cargo,
            path: "src/lib.rs".to_owned(),
            right: "sum.checked_div(numbers.len() as u64)".to_owned(),
            broken: "sum.checked_div(numbers.len() as u64 + 1)".to_owned(),
            wrong: "sum.checked_sub(numbers.len() as u64)".to_owned(),
            read: Vec::new(),
        }
    }

    /// What the command line and the repository's own description say; the command line wins.
    ///
    /// # Panics
    /// If neither says it.
    pub(crate) fn of(options: &Options) -> Self {
        let Some(folder) = &options.repository else {
            return Self::own();
        };
        let described = fs::read_to_string(folder.join(DESCRIPTION));
        let described: Value = described.map_or(Value::Null, |text| {
            serde_json::from_str(&text).expect("the description is JSON")
        });
        let text = |given: &Option<String>, name: &str| {
            let described = || described["break"][name].as_str().map(str::to_owned);
            given.clone().or_else(described)
        };
        let needed = |given: &Option<String>, name: &str| {
            let needed = text(given, name);
            needed.unwrap_or_else(|| panic!("no --{name}, and no break.{name} in {DESCRIPTION}"))
        };
        let named = || Runner::from_str(described["runner"].as_str()?, true).ok();
        let runner = options.runner.or_else(named);
        let runner = runner.unwrap_or_else(|| panic!("no --runner, and none in {DESCRIPTION}"));
        let broken = needed(&options.new, "new");
        let wrong = text(&options.wrong, "wrong");
        Self {
            folder: Some(folder.clone()),
            runner,
            path: needed(&options.path, "path"),
            right: needed(&options.old, "old"),
            wrong: wrong.unwrap_or_else(|| runner.guess(&broken)),
            broken,
            read: options.read.clone(),
        }
    }

    /// Copies the folder to another one, and breaks the copy.
    ///
    /// # Panics
    /// If a text of the break is not exactly once where it has to be.
    pub(crate) fn lay_out(&self, at: &Path) {
        fs::create_dir_all(at).expect("a folder");
        match &self.folder {
            Some(folder) => copy(folder, at),
            None => {
                for (path, text) in CRATE {
                    let path = at.join(path);
                    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
                    fs::write(path, text).expect("a file");
                }
            }
        }
        let file = at.join(&self.path);
        let text = fs::read_to_string(&file).expect("the file to break");
        let broken = replaced(&text, &self.right, &self.broken);
        let wrong = replaced(&broken, &self.broken, &self.wrong);
        assert_eq!(replaced(&wrong, &self.wrong, &self.right), text);
        fs::write(file, broken).expect("the broken file");
    }
}

/// A text with `new` in the place of `old`.
///
/// # Panics
/// If it does not have `old` exactly once.
pub(crate) fn replaced(text: &str, old: &str, new: &str) -> String {
    assert_eq!(text.matches(old).count(), 1, "{old:?} is in it once");
    text.replacen(old, new, 1)
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        if is_skipped(&entry) {
            continue;
        }
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().expect("its kind");
        if kind.is_dir() {
            fs::create_dir_all(&to).expect("a folder");
            copy(&from, &to);
        } else if kind.is_symlink() {
            symlink(fs::read_link(&from).expect("a link"), &to).expect("a link");
        } else {
            fs::copy(&from, &to).expect("a file");
        }
    }
}

fn is_skipped(entry: &fs::DirEntry) -> bool {
    let name = entry.file_name();
    SKIPPED.iter().any(|skipped| name == *skipped)
}

/// All files below a folder: path, mode and bytes. Links have the bytes of their targets' paths.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree(BTreeMap<PathBuf, (u32, Vec<u8>)>);

impl Tree {
    /// The files as they are now.
    pub(crate) fn of(folder: &Path) -> Self {
        let mut tree = Self::default();
        tree.add(folder, folder);
        tree
    }

    fn add(&mut self, root: &Path, folder: &Path) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("an entry");
            let path = entry.path();
            let about = entry.metadata().expect("its kind");
            if is_skipped(&entry) {
                continue;
            }
            if about.is_dir() {
                self.add(root, &path);
                continue;
            }
            let bytes = match about.is_symlink() {
                true => {
                    let target = fs::read_link(&path).expect("a link");
                    target.to_string_lossy().into_owned().into_bytes()
                }
                false => fs::read(&path).expect("a file"),
            };
            let name = path.strip_prefix(root).expect("below it").to_owned();
            self.0.insert(name, (about.permissions().mode(), bytes));
        }
    }

    /// The files that are not the same in another tree, or in one of them only.
    pub(crate) fn differences(&self, other: &Self) -> Vec<PathBuf> {
        let names = self.0.keys().chain(other.0.keys());
        let differ = names.filter(|name| self.0.get(*name) != other.0.get(*name));
        differ.cloned().collect()
    }
}

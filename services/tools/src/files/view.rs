//! Which files of the workspace the file tools show: one predicate for all of them, for paths given by
//! name as for what a walk meets.
//!
//! Not shown: hidden files (a name on the way begins with a dot), what git ignores ([`super::rules`]),
//! `cairn.toml`, and links. The setting `workspace.show` opens hidden files, ignored files and
//! `cairn.toml`; nothing opens a link, or what belongs to Cairn itself: the settings in use and the
//! store. These are known by device and inode, so that no other spelling of their names helps.
//!
//! The predicate says nothing about the output folder, whose files the tools wrote themselves, nor
//! about programs, which run in the workspace and may read all of it.

use super::root::Area;
use super::rules::{RuleBook, Rules, Ruling, folders_above};
use crate::error::Fault;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata, MetadataExt};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The usual name of the settings file, which may hold keys.
const SETTINGS: &str = "cairn.toml";

/// What decides about the files of one workspace.
#[derive(Debug)]
pub(super) struct View {
    /// Absolute, without links.
    workspace: PathBuf,
    show: Show,
    private: Vec<PathBuf>,
    rules: RuleBook,
}

/// Why a path is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    Hidden,
    Ignored,
    Settings,
    /// What is ignored there is not known.
    Rules,
    Link,
    Private,
}

impl Why {
    /// Completes "'path' …".
    pub(super) fn explain(self) -> &'static str {
        match self {
            Self::Hidden => {
                "is hidden: a name in it begins with a dot. File tools do not show hidden files; the \
                 operator can open the path with the setting workspace.show"
            }
            Self::Ignored => {
                "is ignored by git (.gitignore or .git/info/exclude). File tools do not show ignored \
                 files; the operator can open the path with the setting workspace.show"
            }
            Self::Settings => {
                "is a settings file of Cairn and may hold keys. File tools do not show it; the \
                 operator can open it with the setting workspace.show"
            }
            Self::Rules => {
                "is below a .gitignore or .git/info/exclude that cannot be used: it has more than \
                 256 KiB, or it cannot be read. File tools show nothing there; the operator can open the \
                 path with the setting workspace.show"
            }
            Self::Link => {
                "is a link or leads through one. File tools follow no links, whatever the setting \
                 workspace.show says; give the path that the link leads to"
            }
            Self::Private => {
                "belongs to Cairn itself: its settings or its store. File tools never show it, \
                 whatever the setting workspace.show says"
            }
        }
    }
}

impl View {
    /// The view of `workspace`, which has no links in it. `show` was accepted by [`Show::check`].
    pub(super) fn new(workspace: PathBuf, show: &[String], private: Vec<PathBuf>) -> Self {
        Self {
            workspace,
            show: Show::new(show),
            private,
            rules: RuleBook::default(),
        }
    }

    /// Whether a path of the workspace, without `..`, is one that Cairn itself uses, although nothing may be
    /// there yet. In any case of letters.
    pub(super) fn names_private(&self, path: &Path) -> bool {
        let lower = |path: &Path| PathBuf::from(path.to_string_lossy().to_lowercase());
        let wanted = lower(&self.workspace.join(path));
        self.private.iter().any(|private| {
            let private = std::path::absolute(private).unwrap_or_else(|_| private.clone());
            let (Some(folder), Some(name)) = (private.parent(), private.file_name()) else {
                return false;
            };
            let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
            let private = lower(&folder.join(name));
            match name.as_bytes().starts_with(b"*") {
                false => wanted.starts_with(private),
                true => {
                    let name = |path: &Path| path.file_name().map(OsStr::to_owned);
                    let end = name(&private).unwrap_or_default();
                    let end = end.as_bytes().strip_prefix(b"*").unwrap_or_default();
                    wanted.parent() == private.parent()
                        && name(&wanted).is_some_and(|name| name.as_bytes().ends_with(end))
                }
            }
        })
    }
}

/// What follows for a file or folder from its path.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Standing {
    left_out: Option<Why>,
    is_opened: bool,
}

impl Standing {
    /// Why it is not shown; none if it is.
    pub(super) fn refusal(self) -> Option<Why> {
        self.left_out.filter(|_| !self.is_opened)
    }
}

/// The predicate on a way down from the workspace: it knows the rules of the folders so far.
#[derive(Debug)]
pub(super) struct Trail<'a> {
    /// None in the output folder.
    view: Option<&'a View>,
    /// From the outermost to the innermost folder.
    layers: Vec<Layer>,
    private: Vec<(u64, u64)>,
}

/// The rules of one folder.
#[derive(Debug)]
struct Layer {
    folder: PathBuf,
    rules: Arc<Rules>,
}

impl Layer {
    /// What the rules say about an absolute path.
    fn ruling(&self, path: &Path, is_dir: bool) -> Option<Ruling> {
        let below = path.strip_prefix(&self.folder).ok()?;
        self.rules.ruling(below, is_dir)
    }
}

impl<'a> Trail<'a> {
    /// The way that begins in the folder of an area.
    pub(super) fn of(view: &'a View, area: Area) -> Self {
        let mut trail = Self {
            view: (area == Area::Workspace).then_some(view),
            layers: Vec::new(),
            private: Vec::new(),
        };
        if area == Area::Workspace {
            let identity = |path: PathBuf| {
                let metadata = std::fs::metadata(path).ok()?;
                Some((metadata.dev(), metadata.ino()))
            };
            let private = view.private.iter().flat_map(|path| named_by(path));
            trail.private = private.filter_map(identity).collect();
            trail.learn_from_above(view);
        }
        trail
    }

    /// Takes up the rules of the repository that the workspace is a part of. A workspace that its
    /// repository ignores was chosen all the same: then these rules say nothing about it.
    fn learn_from_above(&mut self, view: &View) {
        let mut above = folders_above(&view.workspace).into_iter();
        let mut next = above.next();
        while let Some(folder) = next {
            next = above.next();
            if let Ok(dir) = Dir::open_ambient_dir(&folder, ambient_authority()) {
                self.learn(view, &dir, &folder);
            }
            let below = next.as_deref().unwrap_or(&view.workspace);
            if self.ignored(below, true) == Some(Why::Ignored) {
                self.layers.clear();
                return;
            }
        }
    }

    /// Takes up the rules of a folder, before its entries are judged. [`Trail::leave`] takes what
    /// this returns.
    pub(super) fn enter(&mut self, dir: &Dir, path: &Path) -> usize {
        let before = self.layers.len();
        if let Some(view) = self.view {
            self.learn(view, dir, &view.workspace.join(path));
        }
        before
    }

    /// Forgets the rules of a folder.
    pub(super) fn leave(&mut self, before: usize) {
        self.layers.truncate(before);
    }

    fn learn(&mut self, view: &View, dir: &Dir, folder: &Path) {
        for rules in view.rules.of_folder(dir, folder) {
            self.layers.push(Layer {
                folder: folder.to_owned(),
                rules,
            });
        }
    }

    /// Judges `path`, whose folder has the standing `folder`.
    pub(super) fn judge(&self, folder: Standing, path: &Path, is_dir: bool) -> Standing {
        let name = path.file_name().unwrap_or_default();
        let is_hidden = name.as_bytes().starts_with(b".");
        let Some(view) = self.view else {
            return Standing {
                left_out: is_hidden.then_some(Why::Hidden),
                is_opened: false,
            };
        };
        let by_itself = || {
            if is_hidden {
                return Some(Why::Hidden);
            }
            if is_settings(name) {
                return Some(Why::Settings);
            }
            self.ignored(&view.workspace.join(path), is_dir)
        };
        Standing {
            left_out: folder.left_out.or_else(by_itself),
            is_opened: match view.show.patterns.matched(path, is_dir) {
                Match::Ignore(_) => true,
                Match::Whitelist(_) => false,
                Match::None => folder.is_opened,
            },
        }
    }

    /// The innermost rule that says something counts.
    fn ignored(&self, path: &Path, is_dir: bool) -> Option<Why> {
        let layers = self.layers.iter().rev();
        let mut rulings = layers.filter_map(|layer| layer.ruling(path, is_dir));
        match rulings.next()? {
            Ruling::Ignored => Some(Why::Ignored),
            Ruling::Included => None,
            Ruling::Unknown => Some(Why::Rules),
        }
    }

    /// Whether something below a folder that is not shown may be, so that the way leads through it.
    pub(super) fn leads_through(&self, path: &Path) -> bool {
        self.view
            .is_some_and(|view| view.show.ways.iter().any(|way| way == path))
    }

    /// Whether it is a file or folder of Cairn itself.
    pub(super) fn is_private(&self, metadata: &Metadata) -> bool {
        self.private.contains(&(metadata.dev(), metadata.ino()))
    }
}

/// What a private path names. A last name that begins with `*` stands for every name in its folder
/// that ends with the rest.
fn named_by(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().map(OsStr::as_bytes);
    let (Some(end), Some(folder)) = (name.and_then(|it| it.strip_prefix(b"*")), path.parent())
    else {
        return vec![path.to_owned()];
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().as_bytes().ends_with(end));
    named.map(|entry| entry.path()).collect()
}

fn is_settings(name: &OsStr) -> bool {
    name.as_bytes().eq_ignore_ascii_case(SETTINGS.as_bytes())
}

/// What the operator opened: patterns as in a `.gitignore`, of what is shown instead.
#[derive(Debug)]
struct Show {
    patterns: Gitignore,
    /// The folders above what a pattern names, as far as it names them literally.
    ways: Vec<PathBuf>,
}

impl Show {
    fn new(patterns: &[String]) -> Self {
        let mut builder = GitignoreBuilder::new("");
        for pattern in patterns {
            // Checked before: see `check_show`.
            _ = builder.add_line(None, pattern);
        }
        Self {
            patterns: builder.build().unwrap_or_else(|_| Gitignore::empty()),
            ways: patterns.iter().flat_map(|pattern| ways(pattern)).collect(),
        }
    }
}

/// The folders that lead to what `pattern` names. A pattern without a slash names files in any folder
/// that is shown, and leads through no other.
fn ways(pattern: &str) -> Vec<PathBuf> {
    let is_for_names = !pattern.trim_end_matches('/').contains('/');
    if is_for_names || pattern.starts_with('!') {
        return Vec::new();
    }
    let mut parts: Vec<&str> = pattern.trim_matches('/').split('/').collect();
    let is_literal = |part: &&&str| !part.contains(['*', '?', '[', '{', '\\']);
    let literal = parts.iter().take_while(is_literal).count();
    // What it names itself is opened, and needs no way.
    parts.truncate(literal.min(parts.len() - 1));
    let mut way = PathBuf::new();
    let longer = |part| {
        way.push(part);
        way.clone()
    };
    parts.into_iter().map(longer).collect()
}

/// Finds the patterns of `workspace.show` that cannot be used.
pub(crate) fn check_show(patterns: &[String]) -> Vec<Fault> {
    let problem = |pattern: &str| {
        if pattern.trim().is_empty() || pattern.starts_with('#') {
            return Some("names nothing".to_owned());
        }
        let mut builder = GitignoreBuilder::new("");
        let built = builder
            .add_line(None, pattern)
            .map(|builder| builder.build());
        match built {
            Ok(Ok(_)) => None,
            Ok(Err(error)) | Err(error) => Some(format!("is no pattern: {error}")),
        }
    };
    let faults = patterns.iter().enumerate().filter_map(|(index, pattern)| {
        let problem = problem(pattern)?;
        Some(Fault::new(
            format!("show[{index}]"),
            problem,
            "patterns as in .gitignore, such as .github/ or /docs/.env.example",
        ))
    });
    faults.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store may be named by a relative path, and its journal is not there yet.
    #[test]
    fn a_relative_path_of_cairn_is_private_before_it_is_there() {
        let workspace = std::env::current_dir().unwrap().canonicalize().unwrap();
        let private = vec![PathBuf::from("c.db-journal"), PathBuf::from("*.token")];
        let view = View::new(workspace, &[], private);
        for (path, expected) in [
            ("c.db-journal", true),
            ("C.DB-journal", true),
            ("a.token", true),
            ("c.db-journal.txt", false),
            ("sub/a.token", false),
        ] {
            assert_eq!(view.names_private(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn a_pattern_leads_through_the_folders_that_it_names_literally() {
        for (pattern, expected) in [
            (".env", &[][..]),
            ("/.env", &[]),
            (".github/", &[]),
            (".github/**", &[".github"]),
            (".config/app/a.yaml", &[".config", ".config/app"]),
            ("/.config/app/", &[".config"]),
            ("a/b*/c/d", &["a"]),
            ("**/.env", &[]),
            ("!a/b", &[]),
        ] {
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(ways(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn patterns_that_name_nothing_are_faults() {
        let patterns = ["ok", "", " ", "# note", "a{b", "/a/**/b"].map(str::to_owned);
        let faults = check_show(&patterns);
        let fields: Vec<&str> = faults.iter().map(|fault| fault.field.as_str()).collect();
        assert_eq!(fields, ["show[1]", "show[2]", "show[3]", "show[4]"]);
    }
}

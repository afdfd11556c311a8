//! What git ignores: the patterns of `.gitignore` files and of `.git/info/exclude`.
//!
//! A pattern holds in its folder and in all folders below, nested repositories included; of several
//! that match, the innermost and last counts. The folders above the workspace count up to the root of
//! its repository. Two things differ from git: its global excludes file is not read, and a file that
//! matches is ignored although git tracks it.

use super::root::open_file;
use cairn_engine::text::without_bom;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, MetadataExt};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const GIT: &str = ".git";
const IGNORE_FILE: &str = ".gitignore";
const EXCLUDE_FILE: &str = "info/exclude";
/// Most bytes of a file with patterns. Part of one could ignore too little.
const MOST_BYTES: u64 = 256 * 1024;
/// Most bytes of a file that git keeps a path in.
const MOST_LINK_BYTES: u64 = 8 * 1024;
/// Most bytes of patterns that are compiled at one time, for all calls together: some 100 MiB of memory
/// in the worst case.
const MOST_COMPILED: usize = 512 * 1024;
/// Patterns compiled together. Thousands with wildcards exceed a limit of the library.
const TOGETHER: usize = 1000;

/// What rules say about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ruling {
    Ignored,
    /// It would be ignored, but for a pattern that begins with `!`.
    Included,
    /// The rules could not be read.
    Unknown,
}

/// The patterns of one file.
#[derive(Debug)]
pub(super) enum Rules {
    /// In the order of the file.
    Patterns(Vec<Gitignore>),
    Unusable,
}

impl Rules {
    fn compile(text: &[u8], ignore_case: bool) -> Self {
        let text = String::from_utf8_lossy(text);
        let lines: Vec<&str> = without_bom(&text).lines().collect();
        let compiled = lines.chunks(TOGETHER).map(|lines| {
            let mut builder = GitignoreBuilder::new("");
            _ = builder.case_insensitive(ignore_case);
            for pattern in lines {
                // A pattern that cannot be read is passed over, as git does.
                _ = builder.add_line(None, pattern);
            }
            builder.build()
        });
        let compiled: Result<_, _> = compiled.collect();
        compiled.map_or(Self::Unusable, Self::Patterns)
    }

    /// What is said about a path below the folder of the rules.
    pub(super) fn ruling(&self, path: &Path, is_dir: bool) -> Option<Ruling> {
        let Self::Patterns(patterns) = self else {
            return Some(Ruling::Unknown);
        };
        let patterns = patterns.iter().rev();
        let mut rulings = patterns.filter_map(|some| match some.matched(path, is_dir) {
            Match::None => None,
            Match::Ignore(_) => Some(Ruling::Ignored),
            Match::Whitelist(_) => Some(Ruling::Included),
        });
        rulings.next()
    }
}

/// Compiled rules by their text, the latest last. Thousands of patterns take a second to compile, and
/// each listing needs them.
#[derive(Debug, Default)]
pub(super) struct RuleBook(Mutex<VecDeque<Page>>);

#[derive(Debug)]
struct Page {
    text: Vec<u8>,
    ignore_case: bool,
    rules: Arc<Rules>,
}

impl RuleBook {
    /// The rules that a folder holds, in the order in which they count.
    pub(super) fn of_folder(&self, dir: &Dir, folder: &Path) -> Vec<Arc<Rules>> {
        let texts = [
            (excluded(dir, folder), GIT),
            (read(dir, IGNORE_FILE, MOST_BYTES), IGNORE_FILE),
        ];
        let rules = texts.into_iter().filter_map(|(text, name)| match text {
            Ok(text) => Some(self.compiled(text?, ignores_case(dir, name))),
            Err(_) => Some(Arc::new(Rules::Unusable)),
        });
        rules.collect()
    }

    /// Other calls wait meanwhile, so that the same text is compiled once, and one text at a time.
    fn compiled(&self, text: Vec<u8>, ignore_case: bool) -> Arc<Rules> {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |page: &Page| page.ignore_case == ignore_case && page.text == text;
        let known = pages.iter().position(is_same);
        let page = match known.and_then(|index| pages.remove(index)) {
            Some(page) => page,
            None if make_room(&mut pages, text.len()) => Page {
                rules: Arc::new(Rules::compile(&text, ignore_case)),
                text,
                ignore_case,
            },
            None => return Arc::new(Rules::Unusable),
        };
        let rules = page.rules.clone();
        pages.push_back(page);
        rules
    }
}

/// Forgets the rules that were not used for longest, until there is room for this many bytes of
/// patterns. Whether there is.
fn make_room(pages: &mut VecDeque<Page>, wanted: usize) -> bool {
    let mut bytes: usize = pages.iter().map(|page| page.text.len()).sum();
    while bytes + wanted > MOST_COMPILED {
        let is_unused = |page: &Page| Arc::strong_count(&page.rules) == 1;
        let unused = pages.iter().position(is_unused);
        let Some(page) = unused.and_then(|index| pages.remove(index)) else {
            return false;
        };
        bytes -= page.text.len();
    }
    true
}

/// The folders from the root of the repository that `workspace` is a part of down to the one above it.
/// None if it is no part of one, or a root itself.
pub(super) fn folders_above(workspace: &Path) -> Vec<PathBuf> {
    let is_root = |folder: &&Path| folder.join(GIT).symlink_metadata().is_ok();
    let Some(root) = workspace.ancestors().find(is_root) else {
        return Vec::new();
    };
    let above = workspace.ancestors().skip(1);
    let above = above.take_while(|folder| folder.starts_with(root));
    let mut above: Vec<PathBuf> = above.map(Path::to_owned).collect();
    above.reverse();
    above
}

/// The text of `.git/info/exclude`. In a worktree or submodule `.git` is a file that names the folder.
fn excluded(dir: &Dir, folder: &Path) -> io::Result<Option<Vec<u8>>> {
    match dir.symlink_metadata(GIT) {
        Ok(metadata) if metadata.is_dir() => {
            let path = Path::new(GIT).join(EXCLUDE_FILE);
            read(dir, path, MOST_BYTES)
        }
        Ok(metadata) if metadata.is_file() => {
            let Some(git) = path_in(dir, GIT, "gitdir:")? else {
                return Ok(None);
            };
            let git = folder.join(git);
            let Ok(dir) = Dir::open_ambient_dir(&git, ambient_authority()) else {
                return Ok(None);
            };
            let shared = path_in(&dir, "commondir", "")?;
            let shared = shared.map(|shared| git.join(shared));
            match shared.map(|shared| Dir::open_ambient_dir(shared, ambient_authority())) {
                Some(Ok(dir)) => read(&dir, EXCLUDE_FILE, MOST_BYTES),
                Some(Err(_)) => Ok(None),
                None => read(&dir, EXCLUDE_FILE, MOST_BYTES),
            }
        }
        _ => Ok(None),
    }
}

/// The path that a file of git holds, after `prefix`.
fn path_in(dir: &Dir, name: &str, prefix: &str) -> io::Result<Option<PathBuf>> {
    let Some(text) = read(dir, name, MOST_LINK_BYTES)? else {
        return Ok(None);
    };
    let text = text.trim_ascii();
    let path = text.strip_prefix(prefix.as_bytes());
    Ok(path.map(|path| PathBuf::from(OsStr::from_bytes(path.trim_ascii()))))
}

/// The content of a file; none if there is no such file. Links that lead outside count as none.
fn read(dir: &Dir, path: impl AsRef<Path>, most: u64) -> io::Result<Option<Vec<u8>>> {
    let (file, metadata) = match open_file(dir, path.as_ref().as_os_str()) {
        Ok(opened) => opened,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    if !metadata.is_file() {
        return Ok(None);
    }
    let mut text = Vec::new();
    file.take(most + 1).read_to_end(&mut text)?;
    match text.len() as u64 > most {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(Some(text)),
    }
}

fn is_absent(error: &io::Error) -> bool {
    // cap-std's own refusal carries no number of the system.
    let leaves = error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none();
    let errno = Errno::from_io_error(error);
    leaves || matches!(errno, Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

/// Whether the folder's file system takes capital and small letters for the same: then another
/// spelling of an ignored name leads to the same file.
fn ignores_case(dir: &Dir, name: &str) -> bool {
    let identity = |name: &str| {
        let metadata = dir.symlink_metadata(name).ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    let other = identity(&name.to_ascii_uppercase());
    other.is_some() && other == identity(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn folder(rules: impl AsRef<[u8]>) -> (tempfile::TempDir, Dir) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(IGNORE_FILE), rules).unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        (folder, dir)
    }

    /// Nearly as many patterns as a file may have. All at once they exceed the limit of the library.
    fn many(seed: usize) -> String {
        let patterns = (0..17_000).map(|n| format!("*-{seed}{n:09}\n"));
        patterns.collect::<String>() + "!*-kept\n"
    }

    #[test]
    fn the_same_rules_are_compiled_once() {
        let book = RuleBook::default();
        let (first, second) = (folder("*.key\n"), folder("*.key\n"));
        let rules = |(folder, dir): &(tempfile::TempDir, Dir)| {
            book.of_folder(dir, folder.path()).pop().unwrap()
        };
        assert!(Arc::ptr_eq(&rules(&first), &rules(&second)));
        fs::write(first.0.path().join(IGNORE_FILE), "*.pem\n").unwrap();
        assert!(!Arc::ptr_eq(&rules(&first), &rules(&second)));
    }

    #[test]
    fn thousands_of_patterns_hold_and_are_bounded() {
        let book = RuleBook::default();
        let rules = |seed| {
            let (folder, dir) = folder(many(seed));
            book.of_folder(&dir, folder.path()).pop().unwrap()
        };
        let ruling = |rules: &Rules, path: &str| rules.ruling(Path::new(path), false);
        let first = rules(1);
        assert_eq!(ruling(&first, "a/b-1000000000"), Some(Ruling::Ignored));
        assert_eq!(ruling(&first, "a/b-1000016999"), Some(Ruling::Ignored));
        assert_eq!(ruling(&first, "a/b-kept"), Some(Ruling::Included));
        assert_eq!(ruling(&first, "a/b-2000000000"), None);
        // What is in use is not forgotten, and there is no room for a third.
        let second = rules(2);
        assert_eq!(ruling(&second, "b-2000000000"), Some(Ruling::Ignored));
        assert_eq!(ruling(&rules(3), "b-kept"), Some(Ruling::Unknown));
        drop(first);
        assert_eq!(ruling(&rules(3), "b-3000000000"), Some(Ruling::Ignored));
        let pages = book.0.lock().unwrap();
        assert!(pages.iter().map(|page| page.text.len()).sum::<usize>() <= MOST_COMPILED);
    }
}

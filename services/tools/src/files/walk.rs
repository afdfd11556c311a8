//! Goes through a folder and what is below it, in the order of paths, within limits.
//!
//! Left out: names that begin with a dot, what a `.gitignore` on the way says, the output folder
//! (unless the walk starts in it), links, and whatever is neither file nor folder. Links are never
//! followed, so there are no loops and nothing comes twice.

use super::root::{Area, OUTPUT, Place, Roots, explain, irregular, open_file, shown_path};
use super::{Stop, name};
use crate::config::Limits;
use crate::error::ToolError;
use cap_std::fs::{Dir, DirEntry, MetadataExt};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

const IGNORE_FILE: &str = ".gitignore";
/// Bytes of a `.gitignore` that are read.
const IGNORE_BYTES: u64 = 256 * 1024;

/// A file on the way.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    /// The folder that it is in.
    pub(crate) dir: &'a Dir,
    /// Its name there.
    pub(crate) name: &'a OsStr,
    /// Its path below the area's folder.
    pub(crate) path: &'a Path,
    area: Area,
}

impl Found<'_> {
    /// Its path as it is shown.
    pub(crate) fn shown(&self) -> String {
        name::show(&self.shown_path())
    }

    /// Its path with the name of the output folder, if it is there.
    pub(crate) fn shown_path(&self) -> PathBuf {
        shown_path(self.area, self.path)
    }
}

/// What a walk has to say besides the files.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    too_many: bool,
    too_deep: bool,
    unreadable: usize,
}

impl Notes {
    /// One line each.
    pub(crate) fn lines(&self, limits: &Limits) -> Vec<String> {
        let mut lines = Vec::new();
        if self.too_many {
            lines.push(format!(
                "truncated: stopped after {} entries; give a narrower path",
                limits.walk_entries
            ));
        }
        if self.too_deep {
            lines.push(format!(
                "truncated: folders more than {} levels down were not entered",
                limits.walk_depth
            ));
        }
        if self.unreadable > 0 {
            lines.push(format!(
                "skipped: {} folders could not be read",
                self.unreadable
            ));
        }
        lines
    }
}

/// Visits every file at or below `place`.
///
/// # Errors
/// If `place` itself cannot be opened, the visitor fails, or the walk is stopped.
pub(crate) fn walk(
    roots: &Roots,
    place: &Place,
    limits: &Limits,
    stop: &Stop,
    visit: &mut dyn FnMut(&Found<'_>) -> Result<(), ToolError>,
) -> Result<Notes, ToolError> {
    let fault = |error: io::Error| explain(place, &error);
    let root = roots.dir(place.area).map_err(fault)?;
    let metadata = root.metadata(&place.path).map_err(fault)?;
    if !metadata.is_dir() && !metadata.is_file() {
        return Err(irregular(place));
    }
    if metadata.is_file() {
        visit(&Found {
            dir: &root,
            name: place.path.as_os_str(),
            path: &place.path,
            area: place.area,
        })?;
        return Ok(Notes::default());
    }
    let start = root.open_dir(&place.path).map_err(fault)?;
    let path = match place.path.as_path() {
        path if path == Path::new(".") => Path::new(""),
        path => path,
    };
    let mut walk = Walk {
        area: place.area,
        limits,
        stop,
        output: match place.area {
            Area::Workspace => roots.output_identity(),
            Area::Output => None,
        },
        ignores: Vec::new(),
        seen: 0,
        notes: Notes::default(),
        visit,
    };
    walk.learn_ignores_above(&root, path);
    let entries = start.entries().map_err(fault)?;
    walk.folder(&start, entries, path, 0)?;
    Ok(walk.notes)
}

struct Walk<'a> {
    area: Area,
    limits: &'a Limits,
    stop: &'a Stop,
    output: Option<(u64, u64)>,
    /// From the outermost to the innermost folder; the innermost word counts.
    ignores: Vec<Gitignore>,
    seen: usize,
    notes: Notes,
    visit: &'a mut dyn FnMut(&Found<'_>) -> Result<(), ToolError>,
}

impl Walk<'_> {
    fn folder(
        &mut self,
        dir: &Dir,
        entries: cap_std::fs::ReadDir,
        path: &Path,
        depth: usize,
    ) -> Result<(), ToolError> {
        let outer = self.ignores.len();
        self.learn_ignore(dir, path);
        for entry in self.sorted(entries, path)? {
            self.stop.check()?;
            let path = path.join(&entry.name);
            if !entry.is_dir {
                (self.visit)(&Found {
                    dir,
                    name: &entry.name,
                    path: &path,
                    area: self.area,
                })?;
            } else if depth + 1 > self.limits.walk_depth {
                self.notes.too_deep = true;
            } else {
                self.below(dir, &entry.name, &path, depth + 1)?;
            }
        }
        self.ignores.truncate(outer);
        Ok(())
    }

    fn below(
        &mut self,
        dir: &Dir,
        name: &OsStr,
        path: &Path,
        depth: usize,
    ) -> Result<(), ToolError> {
        // A folder that was removed or exchanged since it was listed counts as unreadable.
        let opened = dir
            .open_dir(name)
            .and_then(|below| Ok((below.entries()?, below)));
        match opened {
            Ok((_, below)) if self.is_output(&below) => Ok(()),
            Ok((entries, below)) => self.folder(&below, entries, path, depth),
            Err(_) => {
                self.notes.unreadable += 1;
                Ok(())
            }
        }
    }

    /// The entries that are to be visited, in the order of the paths that they lead to.
    fn sorted(
        &mut self,
        entries: cap_std::fs::ReadDir,
        path: &Path,
    ) -> Result<Vec<Entry>, ToolError> {
        let mut kept = Vec::new();
        for entry in entries {
            self.stop.check()?;
            if self.seen >= self.limits.walk_entries {
                self.notes.too_many = true;
                break;
            }
            self.seen += 1;
            let Ok(entry) = entry else {
                self.notes.unreadable += 1;
                break;
            };
            let name = entry.file_name();
            if let Some(is_dir) = kind(&entry)
                && !self.is_left_out(&path.join(&name), &name, is_dir)
            {
                kept.push(Entry { name, is_dir });
            }
        }
        kept.sort_by_cached_key(Entry::key);
        Ok(kept)
    }

    fn is_left_out(&self, path: &Path, name: &OsStr, is_dir: bool) -> bool {
        let hidden = name.as_bytes().starts_with(b".");
        // What tools call cairn-out is the output folder, so this one could not be reached.
        let shadowed = self.area == Area::Workspace && path == Path::new(OUTPUT);
        hidden || shadowed || self.is_ignored(path, is_dir)
    }

    fn is_ignored(&self, path: &Path, is_dir: bool) -> bool {
        self.ignores
            .iter()
            .rev()
            .map(|ignore| ignore.matched(path, is_dir))
            .find(|verdict| !verdict.is_none())
            .is_some_and(|verdict| verdict.is_ignore())
    }

    fn is_output(&self, dir: &Dir) -> bool {
        match (self.output, dir.dir_metadata()) {
            (Some(output), Ok(metadata)) => output == (metadata.dev(), metadata.ino()),
            _ => false,
        }
    }

    /// The rules of the folders above the one that the walk starts in.
    fn learn_ignores_above(&mut self, root: &Dir, start: &Path) {
        if start.components().any(|part| part == Component::ParentDir) {
            return;
        }
        let mut above: Vec<&Path> = start.ancestors().skip(1).collect();
        above.reverse();
        for path in above {
            let opened = match path.as_os_str().is_empty() {
                true => root.try_clone(),
                false => root.open_dir(path),
            };
            if let Ok(dir) = opened {
                self.learn_ignore(&dir, path);
            }
        }
    }

    fn learn_ignore(&mut self, dir: &Dir, path: &Path) {
        if self.area == Area::Output {
            return;
        }
        let Some(rules) = read_ignore(dir) else {
            return;
        };
        let mut builder = GitignoreBuilder::new(path);
        for rule in rules.trim_start_matches('\u{feff}').lines() {
            // A rule that cannot be read is passed over, as git does.
            _ = builder.add_line(None, rule);
        }
        if let Ok(ignore) = builder.build() {
            self.ignores.push(ignore);
        }
    }
}

struct Entry {
    name: OsString,
    is_dir: bool,
}

impl Entry {
    /// Folders sort as the paths below them do: `a.md` comes before `a/b.md`.
    fn key(&self) -> Vec<u8> {
        let mut key = self.name.as_bytes().to_vec();
        if self.is_dir {
            key.push(b'/');
        }
        key
    }
}

/// Whether the entry is a folder; none for what is neither folder nor file.
fn kind(entry: &DirEntry) -> Option<bool> {
    let mut kind = entry.file_type().ok()?;
    let known = kind.is_dir() || kind.is_file() || kind.is_symlink();
    if !known {
        // Some file systems do not say in the listing.
        kind = entry.metadata().ok()?.file_type();
    }
    (kind.is_dir() || kind.is_file()).then(|| kind.is_dir())
}

fn read_ignore(dir: &Dir) -> Option<String> {
    let (file, metadata) = open_file(dir, OsStr::new(IGNORE_FILE)).ok()?;
    if !metadata.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(IGNORE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

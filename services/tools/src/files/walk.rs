//! Goes through a folder and what is below it, in the order of paths, within limits.
//!
//! Left out: what the file tools do not show ([`super::view`]), the output folder (unless the walk
//! starts in it), links, and anything that is neither file nor folder. Links are never followed, so there
//! are no loops and nothing comes twice.

use super::locate::{Entry as File, Folder, Located, open};
use super::root::{Area, OUTPUT, Place, Roots, explain, open_folder, shown_path};
use super::view::{Standing, Trail, Why};
use super::{Stop, name};
use crate::config::Limits;
use crate::error::ToolError;
use cairn_engine::text::counted;
use cap_std::fs::{Dir, DirEntry, Metadata, MetadataExt};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A file on the way.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    /// The folder that it is in.
    dir: &'a Dir,
    /// Its name there.
    name: &'a OsStr,
    /// Its path below the area's folder.
    pub(crate) path: &'a Path,
    /// Its path below the folder that the walk started in.
    pub(crate) below: &'a Path,
    area: Area,
    trail: &'a Trail<'a>,
}

impl Found<'_> {
    /// Opens it for reading, without ever waiting.
    ///
    /// # Errors
    /// `NotFound` also if it is not to be shown after all.
    pub(super) fn open(&self) -> io::Result<(cap_std::fs::File, Metadata)> {
        open(self.area, self.trail, self.dir, self.name)
    }

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
    without_rules: usize,
    /// The folder of the first of these, as it is shown.
    first_without_rules: String,
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
                "skipped: {} could not be read",
                counted(self.unreadable, "folder")
            ));
        }
        if self.without_rules > 0 {
            let first = &self.first_without_rules;
            let (what, them) = match self.without_rules {
                1 => (format!("1 file or folder, in '{first}'"), "it"),
                more => (
                    format!("{more} files and folders, the first in '{first}'"),
                    "them",
                ),
            };
            lines.push(format!(
                "skipped: {what}: the .gitignore or .git/info/exclude for {them} has more than 256 KiB, or \
                 cannot be read; the operator can open {them} with the setting workspace.show"
            ));
        }
        lines
    }
}

/// Visits every file at or below `place`.
///
/// # Errors
/// If `place` itself is not to be shown or cannot be opened, the visitor fails, or the walk is stopped.
pub(crate) fn walk(
    roots: &Roots,
    place: &Place,
    limits: &Limits,
    stop: &Stop,
    visit: &mut dyn FnMut(&Found<'_>) -> Result<(), ToolError>,
) -> Result<Notes, ToolError> {
    let start = match roots.locate(place)? {
        Located::Folder(folder) => folder,
        Located::File(file) => {
            return visit_one(place.area, &file, visit).map(|()| Notes::default());
        }
    };
    let Folder {
        dir,
        path,
        standing,
        trail,
    } = start;
    let entries = dir.entries().map_err(|error| explain(place, &error))?;
    let mut walk = Walk {
        area: place.area,
        limits,
        stop,
        output: match place.area {
            Area::Workspace => roots.output_identity(),
            Area::Output => None,
        },
        start: &path,
        trail,
        seen: 0,
        notes: Notes::default(),
        visit,
    };
    let start = At {
        dir: &dir,
        path: &path,
        standing,
        depth: 0,
    };
    walk.folder(&start, entries)?;
    Ok(walk.notes)
}

fn visit_one(
    area: Area,
    file: &File<'_>,
    visit: &mut dyn FnMut(&Found<'_>) -> Result<(), ToolError>,
) -> Result<(), ToolError> {
    visit(&Found {
        dir: &file.dir,
        name: &file.name,
        path: &file.path,
        below: &file.path,
        area,
        trail: &file.trail,
    })
}

struct Walk<'a> {
    area: Area,
    limits: &'a Limits,
    stop: &'a Stop,
    output: Option<(u64, u64)>,
    /// Path of the folder that the walk started in.
    start: &'a Path,
    trail: Trail<'a>,
    seen: usize,
    notes: Notes,
    visit: &'a mut dyn FnMut(&Found<'_>) -> Result<(), ToolError>,
}

/// A folder that the walk is in.
struct At<'a> {
    dir: &'a Dir,
    path: &'a Path,
    standing: Standing,
    depth: usize,
}

impl Walk<'_> {
    fn folder(&mut self, at: &At<'_>, entries: cap_std::fs::ReadDir) -> Result<(), ToolError> {
        let rules = self.trail.enter(at.dir, at.path);
        for entry in self.sorted(entries, at)? {
            self.stop.check()?;
            let path = at.path.join(&entry.name);
            if !entry.is_dir {
                (self.visit)(&Found {
                    dir: at.dir,
                    name: &entry.name,
                    path: &path,
                    below: path.strip_prefix(self.start).unwrap_or(&path),
                    area: self.area,
                    trail: &self.trail,
                })?;
            } else if at.depth + 1 > self.limits.walk_depth {
                self.notes.too_deep = true;
            } else {
                self.below(at, &entry, &path)?;
            }
        }
        self.trail.leave(rules);
        Ok(())
    }

    fn below(&mut self, at: &At<'_>, entry: &Entry, path: &Path) -> Result<(), ToolError> {
        // A folder that was removed or exchanged since it was listed counts as unreadable.
        let opened = open_folder(at.dir, &entry.name)
            .and_then(|below| Ok((below.entries()?, below.dir_metadata()?, below)));
        let Ok((entries, metadata, below)) = opened else {
            self.notes.unreadable += 1;
            return Ok(());
        };
        let is_output = self.output == Some((metadata.dev(), metadata.ino()));
        if is_output || self.trail.is_private(&metadata) {
            return Ok(());
        }
        let below = At {
            dir: &below,
            path,
            standing: entry.standing,
            depth: at.depth + 1,
        };
        self.folder(&below, entries)
    }

    /// The entries that are to be visited, in the order of the paths that they lead to.
    fn sorted(
        &mut self,
        entries: cap_std::fs::ReadDir,
        at: &At<'_>,
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
            if let Some(is_dir) = kind(&entry) {
                kept.extend(self.judged(at, entry.file_name(), is_dir));
            }
        }
        kept.sort_by_cached_key(Entry::key);
        Ok(kept)
    }

    /// The entry, unless it is left out.
    fn judged(&mut self, at: &At<'_>, name: OsString, is_dir: bool) -> Option<Entry> {
        let path = at.path.join(&name);
        // What tools call cairn-out is the output folder, so this one could not be reached.
        if self.area == Area::Workspace && path == Path::new(OUTPUT) {
            return None;
        }
        let standing = self.trail.judge(at.standing, &path, is_dir);
        let is_passage = is_dir && self.trail.leads_through(&path);
        if !is_passage && standing.refusal() == Some(Why::Rules) {
            if self.notes.without_rules == 0 {
                let folder = shown_path(self.area, at.path);
                let is_top = folder.as_os_str().is_empty();
                self.notes.first_without_rules = match is_top {
                    true => ".".to_owned(),
                    false => name::show(&folder),
                };
            }
            self.notes.without_rules += 1;
        }
        (is_passage || standing.refusal().is_none()).then_some(Entry {
            name,
            is_dir,
            standing,
        })
    }
}

struct Entry {
    name: OsString,
    is_dir: bool,
    standing: Standing,
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

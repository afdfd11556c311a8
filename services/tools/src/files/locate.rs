//! From a path to what is there, if the file tools may show it.

use super::root::{
    Area, OUTPUT, Place, Roots, explain, irregular, leaves, open_entry, open_file, open_folder,
};
use super::view::{Standing, Trail, Why};
use crate::error::ToolError;
use cap_std::fs::{Dir, File, Metadata};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

/// Folders below one another that a path may lead through: each holds a file descriptor.
pub(super) const MOST_LEVELS: usize = 256;

/// What is at a place.
#[derive(Debug)]
pub(super) enum Located<'a> {
    File(Entry<'a>),
    Folder(Folder<'a>),
}

/// A file that may be shown.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) dir: Dir,
    pub(super) name: OsString,
    /// Below the area's folder, without `..`.
    pub(super) path: PathBuf,
    pub(super) trail: Trail<'a>,
}

/// A folder in which something may be shown.
#[derive(Debug)]
pub(super) struct Folder<'a> {
    pub(super) dir: Dir,
    /// Below the area's folder, without `..`; empty for that folder itself.
    pub(super) path: PathBuf,
    pub(super) standing: Standing,
    /// With the rules of the folders above this one.
    pub(super) trail: Trail<'a>,
}

impl Roots {
    /// Finds what is at a place.
    ///
    /// # Errors
    /// For the model: there is nothing, it is not to be shown, or it is neither file nor folder.
    pub(super) fn locate<'a>(&'a self, place: &'a Place) -> Result<Located<'a>, ToolError> {
        match place.area {
            Area::Workspace => self.follow(place),
            Area::Output => self.below_output(place),
        }
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// As [`Roots::locate`], and if it is a folder.
    pub(super) fn open_file(&self, place: &Place) -> Result<(File, Metadata), ToolError> {
        let Located::File(entry) = self.locate(place)? else {
            return Err(ToolError::ExecutionFailed(format!(
                "'{}' is a folder; list_files shows what is in it",
                place.shown
            )));
        };
        let opened = open(place.area, &entry.trail, &entry.dir, &entry.name);
        let (file, metadata) = opened.map_err(|error| explain(place, &error))?;
        match metadata.is_file() {
            true => Ok((file, metadata)),
            false => Err(irregular(place)),
        }
    }

    fn below_output(&self, place: &Place) -> Result<Located<'_>, ToolError> {
        let fault = |error: io::Error| explain(place, &error);
        let dir = self.dir(Area::Output).map_err(fault)?;
        let metadata = dir.metadata(&place.path).map_err(fault)?;
        let trail = Trail::of(self.view(), Area::Output);
        if metadata.is_dir() {
            let path = match place.path == Path::new(".") {
                true => PathBuf::new(),
                false => place.path.clone(),
            };
            return Ok(Located::Folder(Folder {
                dir: dir.open_dir(&place.path).map_err(fault)?,
                path,
                standing: Standing::default(),
                trail,
            }));
        }
        if !metadata.is_file() {
            return Err(irregular(place));
        }
        Ok(Located::File(Entry {
            dir,
            name: place.path.clone().into_os_string(),
            path: place.path.clone(),
            trail,
        }))
    }

    /// Goes down name by name. As no name is a link, `..` leads back to where the way came from.
    fn follow<'a>(&'a self, place: &'a Place) -> Result<Located<'a>, ToolError> {
        let dir = self.dir(Area::Workspace);
        let dir = dir.map_err(|error| explain(place, &error))?;
        let mut way = Way::new(place, Trail::of(self.view(), Area::Workspace), dir);
        let mut parts = place.path.components().peekable();
        while let Some(part) = parts.next() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => way.up()?,
                Component::RootDir | Component::Prefix(_) => return Err(leaves(place)),
                Component::Normal(name) => match way.down(name)? {
                    Down::Folder => {}
                    Down::File if parts.peek().is_none() => return Ok(way.file(name)),
                    Down::File => return Err(explain(place, &Errno::NOTDIR.into())),
                },
            }
        }
        Ok(way.folder())
    }
}

/// Opens a file by its name in a folder, or by its path in the output folder.
///
/// # Errors
/// `NotFound` also for a file of Cairn.
pub(super) fn open(
    area: Area,
    trail: &Trail<'_>,
    dir: &Dir,
    name: &OsStr,
) -> io::Result<(File, Metadata)> {
    match area {
        Area::Workspace => {
            let (file, metadata) = open_entry(dir, name)?;
            match trail.is_private(&metadata) {
                true => Err(Errno::NOENT.into()),
                false => Ok((file, metadata)),
            }
        }
        Area::Output => open_file(dir, name),
    }
}

/// The way through the workspace so far.
struct Way<'a> {
    place: &'a Place,
    trail: Trail<'a>,
    here: Step,
    /// The folders above, the workspace first.
    above: Vec<Step>,
}

/// A folder on the way.
struct Step {
    dir: Dir,
    path: PathBuf,
    standing: Standing,
    /// What [`Trail::leave`] takes; none while the rules of the folder are not taken up.
    rules: Option<usize>,
}

enum Down {
    Folder,
    File,
}

impl<'a> Way<'a> {
    fn new(place: &'a Place, trail: Trail<'a>, dir: Dir) -> Self {
        Self {
            place,
            trail,
            here: Step {
                dir,
                path: PathBuf::new(),
                standing: Standing::default(),
                rules: None,
            },
            above: Vec::new(),
        }
    }

    fn up(&mut self) -> Result<(), ToolError> {
        let above = self.above.pop().ok_or_else(|| leaves(self.place))?;
        let left = std::mem::replace(&mut self.here, above);
        if let Some(rules) = left.rules {
            self.trail.leave(rules);
        }
        Ok(())
    }

    fn down(&mut self, name: &OsStr) -> Result<Down, ToolError> {
        let (place, here) = (self.place, &mut self.here);
        if self.above.len() == MOST_LEVELS {
            return Err(ToolError::InvalidArguments(format!(
                "the path leads through more than {MOST_LEVELS} folders"
            )));
        }
        let path = here.path.join(name);
        if path == Path::new(OUTPUT) {
            return Err(ToolError::InvalidArguments(format!(
                "'{}' is a detour to the output folder; give a path that begins with {OUTPUT}/",
                place.shown
            )));
        }
        if here.rules.is_none() {
            here.rules = Some(self.trail.enter(&here.dir, &here.path));
        }
        let metadata = here.dir.symlink_metadata(name);
        let is_dir = metadata.as_ref().is_ok_and(Metadata::is_dir);
        let standing = self.trail.judge(here.standing, &path, is_dir);
        let is_passage = is_dir && self.trail.leads_through(&path);
        if let Some(why) = standing.refusal().filter(|_| !is_passage) {
            return Err(refused(place, why));
        }
        let metadata = metadata.map_err(|error| explain(place, &error))?;
        if metadata.is_symlink() {
            return Err(refused(place, Why::Link));
        }
        if self.trail.is_private(&metadata) {
            return Err(refused(place, Why::Private));
        }
        if metadata.is_file() {
            return Ok(Down::File);
        }
        if !is_dir {
            return Err(irregular(place));
        }
        let dir = open_folder(&here.dir, name).map_err(|error| explain(place, &error))?;
        let below = Step {
            dir,
            path,
            standing,
            rules: None,
        };
        self.above.push(std::mem::replace(&mut self.here, below));
        Ok(Down::Folder)
    }

    fn file(self, name: &OsStr) -> Located<'a> {
        Located::File(Entry {
            path: self.here.path.join(name),
            dir: self.here.dir,
            name: name.to_owned(),
            trail: self.trail,
        })
    }

    fn folder(mut self) -> Located<'a> {
        // A way that comes back from below has taken up the rules of the folder itself.
        if let Some(rules) = self.here.rules {
            self.trail.leave(rules);
        }
        Located::Folder(Folder {
            dir: self.here.dir,
            path: self.here.path,
            standing: self.here.standing,
            trail: self.trail,
        })
    }
}

/// For a path that is not shown, or not written.
pub(super) fn refused(place: &Place, why: Why) -> ToolError {
    ToolError::Denied(format!("'{}' {}", place.shown, why.explain()))
}

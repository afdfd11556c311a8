//! Where a file is written. In the workspace the way leads from open folder to open folder, through no link,
//! so that a folder exchanged in the middle leads nowhere else.
//!
//! A file that is hidden, or that git ignores, can be written although it is not shown: the owner of a call
//! makes sure that a model has read what it replaces. What belongs to Cairn itself can not.

use super::locate::{MOST_LEVELS, refused};
use super::protected::is_prompts;
use super::root::{
    Area, OUTPUT, Place, Roots, explain, irregular, leaves, make_folder, open_entry, open_file,
    open_folder, shown_path, sync,
};
use super::view::{Trail, Why};
use super::{Folders, Stop, buffer_for, name};
use crate::config::Write as Setting;
use crate::error::ToolError;
use crate::tool::FileState;
use cairn_engine::key::ContentDigest;
use cap_std::fs::{Dir, File, Metadata, MetadataExt};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Seek};
use std::path::{Component, Path, PathBuf};

/// A file that is to be written.
#[derive(Debug)]
pub(super) struct Target<'a> {
    pub(super) place: &'a Place,
    /// None in the output folder, which may not be there yet.
    way: Option<Way>,
    /// What has the name now, a link included.
    there: Option<Metadata>,
    /// The file that has the name now; none for a link, which a write to the output folder replaces.
    file: Option<File>,
    /// Below the area's folder, without `..`.
    path: PathBuf,
    pub(super) is_protected: bool,
}

/// The way to a file of the workspace.
#[derive(Debug)]
struct Way {
    /// The innermost folder that is there.
    dir: Dir,
    /// The folders below it, which a write makes.
    missing: Vec<OsString>,
}

impl Folders {
    /// The place of a file that `tool` may write.
    ///
    /// # Errors
    /// It is no file, or the setting keeps writes to the output folder.
    pub(super) fn writable(&self, path: &str, tool: &str) -> Result<Place, ToolError> {
        let place = Roots::place(path)?;
        if self.write == Setting::Out && place.area != Area::Output {
            return Err(ToolError::Denied(format!(
                "'{}' is not under {OUTPUT}/, the only place that {tool} writes to; give for \
                 example {OUTPUT}/report.md",
                place.shown
            )));
        }
        // The last part must name a file; everything else is for the kernel to resolve.
        let is_folder =
            path.ends_with('/') || place.path == Path::new(".") || place.path.file_name().is_none();
        if is_folder {
            return Err(ToolError::InvalidArguments(format!(
                "'{}' names a folder; give a file, for example {OUTPUT}/report.md",
                place.shown
            )));
        }
        Ok(place)
    }
}

impl Roots {
    /// Finds where a file is to be written, and what is there now.
    ///
    /// # Errors
    /// For the model: a link is on the way or at its end, it belongs to Cairn, or it is no file.
    pub(super) fn target<'a>(&self, place: &'a Place) -> Result<Target<'a>, ToolError> {
        match place.area {
            Area::Workspace => self.in_workspace(place),
            Area::Output => self.in_output(place),
        }
    }

    fn in_output<'a>(&self, place: &'a Place) -> Result<Target<'a>, ToolError> {
        let fault = |error: io::Error| explain(place, &error);
        let path = lexical(&place.path);
        let mut target = Target {
            place,
            way: None,
            there: None,
            file: None,
            is_protected: self.protected().covers(&path),
            path,
        };
        let root = match self.dir(Area::Output) {
            Ok(root) => root,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(target),
            Err(error) => return Err(fault(error)),
        };
        target.there = match root.symlink_metadata(&place.path) {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(fault(error)),
        };
        if let Some(metadata) = &target.there
            && !metadata.is_symlink()
        {
            let (file, metadata) = open_file(&root, place.path.as_os_str()).map_err(fault)?;
            check_file(place, &metadata)?;
            target.file = Some(file);
            target.there = Some(metadata);
        }
        Ok(target)
    }

    fn in_workspace<'a>(&self, place: &'a Place) -> Result<Target<'a>, ToolError> {
        let fault = |error: io::Error| explain(place, &error);
        let root = self.dir(Area::Workspace).map_err(fault)?;
        let mut walk = Walk {
            place,
            trail: Trail::of(self.view(), Area::Workspace),
            above: Vec::new(),
            way: Way {
                dir: root,
                missing: Vec::new(),
            },
            path: PathBuf::new(),
            is_protected: false,
        };
        for part in place.path.parent().into_iter().flat_map(Path::components) {
            match part {
                Component::CurDir => {}
                Component::ParentDir => walk.up()?,
                Component::RootDir | Component::Prefix(_) => return Err(leaves(place)),
                Component::Normal(name) => walk.down(name)?,
            }
        }
        walk.end(self)
    }
}

/// A walk through the workspace to the folder of a file.
struct Walk<'a, 'v> {
    place: &'a Place,
    trail: Trail<'v>,
    /// The folders above, the workspace first.
    above: Vec<Dir>,
    way: Way,
    path: PathBuf,
    is_protected: bool,
}

impl<'a> Walk<'a, '_> {
    fn up(&mut self) -> Result<(), ToolError> {
        if !self.way.missing.is_empty() {
            return Err(explain(self.place, &Errno::NOENT.into()));
        }
        self.way.dir = self.above.pop().ok_or_else(|| leaves(self.place))?;
        self.path.pop();
        Ok(())
    }

    /// Enters a folder, if it is there.
    fn down(&mut self, name: &OsStr) -> Result<(), ToolError> {
        let place = self.place;
        if self.above.len() + self.way.missing.len() == MOST_LEVELS {
            return Err(ToolError::InvalidArguments(format!(
                "the path leads through more than {MOST_LEVELS} folders"
            )));
        }
        self.step(name)?;
        let Some(metadata) = self.find(name)? else {
            self.way.missing.push(name.to_owned());
            return Ok(());
        };
        if !metadata.is_dir() {
            return Err(explain(place, &Errno::NOTDIR.into()));
        }
        let dir = open_folder(&self.way.dir, name).map_err(|error| explain(place, &error))?;
        self.above.push(std::mem::replace(&mut self.way.dir, dir));
        Ok(())
    }

    fn step(&mut self, name: &OsStr) -> Result<(), ToolError> {
        let is_there = self.way.missing.is_empty();
        self.is_protected |= is_there && is_prompts(&self.way.dir, name);
        self.path.push(name);
        match self.path == Path::new(OUTPUT) {
            false => Ok(()),
            true => Err(ToolError::InvalidArguments(format!(
                "'{}' is a detour to the output folder; give a path that begins with {OUTPUT}/",
                self.place.shown
            ))),
        }
    }

    /// What has the name in this folder; none if nothing has.
    fn find(&self, name: &OsStr) -> Result<Option<Metadata>, ToolError> {
        if !self.way.missing.is_empty() {
            return Ok(None);
        }
        let metadata = match self.way.dir.symlink_metadata(name) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(explain(self.place, &error)),
        };
        if metadata.is_symlink() {
            return Err(refused(self.place, Why::Link));
        }
        match self.trail.is_private(&metadata) && !is_settings(name) {
            true => Err(refused(self.place, Why::Private)),
            false => Ok(Some(metadata)),
        }
    }

    /// The file itself.
    fn end(mut self, roots: &Roots) -> Result<Target<'a>, ToolError> {
        let place = self.place;
        let name = place.path.file_name().unwrap_or_default();
        self.step(name)?;
        // It may not be there yet, such as the journal of a store.
        if roots.view().names_private(&self.path) && !is_settings(name) {
            return Err(refused(place, Why::Private));
        }
        let mut file = None;
        let mut there = self.find(name)?;
        if let Some(metadata) = &there {
            check_file(place, metadata)?;
            let opened = open_entry(&self.way.dir, name);
            let (open, metadata) = opened.map_err(|error| explain(place, &error))?;
            check_file(place, &metadata)?;
            if self.trail.is_private(&metadata) && !is_settings(name) {
                return Err(refused(place, Why::Private));
            }
            file = Some(open);
            there = Some(metadata);
        }
        Ok(Target {
            place,
            is_protected: self.is_protected || roots.protected().covers(&self.path),
            way: Some(self.way),
            there,
            file,
            path: self.path,
        })
    }
}

/// The settings are shown to no model, and a person may let one write them.
fn is_settings(name: &OsStr) -> bool {
    name == "cairn.toml"
}

fn check_file(place: &Place, metadata: &Metadata) -> Result<(), ToolError> {
    if metadata.is_dir() {
        return Err(explain(place, &Errno::ISDIR.into()));
    }
    match metadata.is_file() {
        true => Ok(()),
        false => Err(irregular(place)),
    }
}

impl Target<'_> {
    pub(super) fn name(&self) -> &OsStr {
        self.place.path.file_name().unwrap_or_default()
    }

    /// The file with a digest, as the owner of a call knows it.
    pub(super) fn state(&self, digest: String) -> FileState {
        FileState {
            path: known_as(self.place.area, &self.path),
            digest,
        }
    }

    /// What the file is now; none if there is none.
    pub(super) fn metadata(&self) -> Option<&Metadata> {
        self.file.as_ref().and(self.there.as_ref())
    }

    /// A link has the name.
    pub(super) fn is_link(&self) -> bool {
        self.there.as_ref().is_some_and(Metadata::is_symlink)
    }

    /// The digest of the file as it is now; empty if there is none.
    pub(super) fn digest(&self, stop: &Stop) -> Result<String, ToolError> {
        let (Some(mut file), Some(metadata)) = (self.file.as_ref(), self.metadata()) else {
            return Ok(String::new());
        };
        file.rewind().map_err(|error| explain(self.place, &error))?;
        let mut buffer = buffer_for(metadata.len());
        let mut digest = ContentDigest::default();
        loop {
            stop.check()?;
            let read = file.read(&mut buffer);
            match read.map_err(|error| explain(self.place, &error))? {
                0 => return Ok(digest.finish()),
                read => digest.update(&buffer[..read]),
            }
        }
    }

    /// The whole content; none if it has more than `most` bytes, or if there is no file.
    pub(super) fn content(&self, most: usize) -> Result<Option<Vec<u8>>, ToolError> {
        let Some(mut file) = self.file.as_ref() else {
            return Ok(None);
        };
        let limit = (most as u64).saturating_add(1);
        let mut content = Vec::new();
        let read = file.rewind();
        let read = read.and_then(|()| file.take(limit).read_to_end(&mut content));
        read.map_err(|error| explain(self.place, &error))?;
        Ok((content.len() <= most).then_some(content))
    }

    /// The folder of the file, made if it is not there.
    pub(super) fn folder(&self, roots: &Roots) -> io::Result<Dir> {
        let Some(way) = &self.way else {
            let root = roots.output_for_writing()?;
            return super::write::open_parent(&root, &self.place.path);
        };
        let mut dir = way.dir.try_clone()?;
        for name in &way.missing {
            make_folder(&dir, name)?;
            dir = open_folder(&dir, name)?;
        }
        Ok(dir)
    }

    /// Whether `dir` still has what was found, as far as the system says.
    pub(super) fn is_as_found(&self, dir: &Dir) -> bool {
        let now = dir.symlink_metadata(self.name()).ok();
        let mark = |it: &Metadata| {
            let changed = (it.mtime(), it.mtime_nsec(), it.ctime(), it.ctime_nsec());
            (it.dev(), it.ino(), it.len(), changed)
        };
        now.as_ref().map(mark) == self.there.as_ref().map(mark)
    }

    /// Makes a name durable that was given before.
    pub(super) fn settle(&self, roots: &Roots) -> Result<(), ToolError> {
        let synced = self.folder(roots).and_then(|dir| sync(&dir));
        synced.map_err(|error| explain(self.place, &error))
    }
}

/// The path by which the owner of a call knows a file that was read.
pub(super) fn known_place(place: &Place) -> String {
    known_as(place.area, &lexical(&place.path))
}

fn known_as(area: Area, path: &Path) -> String {
    name::show(&shown_path(area, path))
}

/// Without `..`, which leads back to where the way came from.
fn lexical(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = plain.pop(),
            part => plain.push(part),
        }
    }
    plain
}

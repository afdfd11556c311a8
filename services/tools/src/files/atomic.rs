//! A file that is written whole or not at all.
//!
//! The content goes to a temporary file beside the target, is made durable, and then takes the target's name
//! in one step. A reader sees the old file or the new one, also after a crash.

use super::Stop;
use super::root::{Place, explain, sync};
use crate::error::ToolError;
use crate::gate::Permit;
use cap_std::fs::{Dir, File, Metadata, MetadataExt, OpenOptions, Permissions, PermissionsExt};
use rustix::fs::{Gid, Uid, fchown};
use std::ffi::OsStr;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Temporary files begin with this: hidden, so that no listing shows them.
const TEMPORARY: &str = ".cairn-tmp-";
/// A temporary file older than this was left behind by a crash.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);
/// Entries of a folder that are looked at for what was left behind.
const SWEEP: usize = 1000;
/// The bits of a mode that a new content keeps. The others run a program with the rights of its owner, who gave them
/// to the old content.
const KEPT_MODE: u32 = 0o777;
/// Bytes written between two looks at whether the write is still wanted.
const PART: usize = 1 << 20;

/// A content for a file of a folder.
#[derive(Debug)]
pub(super) struct Replacement<'a> {
    pub(super) place: &'a Place,
    pub(super) dir: &'a Dir,
    pub(super) name: &'a OsStr,
    pub(super) content: &'a [u8],
    /// The file whose mode and owner it gets; none for those of a new file.
    pub(super) like: Option<&'a Metadata>,
    pub(super) permit: &'a Permit,
}

impl Replacement<'_> {
    /// Writes it. It is durable when this returns. `is_ready` is asked right before the name is taken.
    ///
    /// # Errors
    /// Nothing was replaced, unless only the folder could not be made durable.
    pub(super) fn put(
        &self,
        stop: &Stop,
        is_ready: impl FnOnce() -> Result<(), ToolError>,
    ) -> Result<(), ToolError> {
        let fault = |error: io::Error| explain(self.place, &error);
        let temporary = Temporary::create(self.dir).map_err(fault)?;
        if let Some(metadata) = self.like {
            temporary
                .be_like(metadata)
                .map_err(|error| self.not_like(&error))?;
        }
        for part in self.content.chunks(PART) {
            stop.check()?;
            temporary.file().write_all(part).map_err(fault)?;
        }
        temporary.file().sync_all().map_err(fault)?;
        // Making it durable may have taken long: nobody may be waiting, or it may be too late.
        stop.check()?;
        is_ready()?;
        self.permit.check()?;
        temporary.take_name(self.name).map_err(fault)?;
        sync(self.dir).map_err(fault)
    }

    fn not_like(&self, error: &io::Error) -> ToolError {
        ToolError::ExecutionFailed(format!(
            "'{}' was not written: the system does not let this process keep its owner and mode: {error}",
            self.place.shown
        ))
    }
}

/// Whether a name is one of temporary files.
pub(super) fn is_temporary(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(TEMPORARY.as_bytes())
}

/// A file that is removed again unless it takes the target's name.
struct Temporary<'a> {
    dir: &'a Dir,
    name: String,
    file: File,
    placed: bool,
}

impl<'a> Temporary<'a> {
    fn create(dir: &'a Dir) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("{TEMPORARY}{}-{count}", std::process::id());
            match dir.open_with(&name, &options) {
                Ok(file) => {
                    let temporary = Self {
                        dir,
                        name,
                        file,
                        placed: false,
                    };
                    temporary.sweep();
                    return Ok(temporary);
                }
                // Left behind, or of another machine's process with the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn file(&self) -> &File {
        &self.file
    }

    /// Gets the owner and the mode of another file.
    fn be_like(&self, other: &Metadata) -> io::Result<()> {
        let own = self.file.metadata()?;
        if (own.uid(), own.gid()) != (other.uid(), other.gid()) {
            let (owner, group) = (Uid::from_raw(other.uid()), Gid::from_raw(other.gid()));
            fchown(&self.file, Some(owner), Some(group))?;
        }
        // A change of the owner takes some bits of the mode away.
        let mode = other.permissions().mode() & KEPT_MODE;
        self.file.set_permissions(Permissions::from_mode(mode))
    }

    /// Takes the place of whatever has this name; a link is replaced and not followed.
    fn take_name(mut self, name: &OsStr) -> io::Result<()> {
        self.dir.rename(&self.name, self.dir, name)?;
        self.placed = true;
        Ok(())
    }

    /// Removes what crashes left behind here. The file system's own clock says what is old.
    fn sweep(&self) {
        let (Ok(entries), Ok(now)) = (
            self.dir.entries(),
            self.file.metadata().and_then(|new| new.modified()),
        ) else {
            return;
        };
        for entry in entries.flatten().take(SWEEP) {
            let written = || entry.metadata().and_then(|old| old.modified()).ok();
            let is_old = |written| {
                now.duration_since(written)
                    .is_ok_and(|age: Duration| age > LEFT_BEHIND)
            };
            if is_temporary(&entry.file_name()) && written().is_some_and(is_old) {
                _ = entry.remove_file();
            }
        }
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.placed {
            _ = self.dir.remove_file(&self.name);
        }
    }
}

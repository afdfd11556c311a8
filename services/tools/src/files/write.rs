//! `write_file`: replaces a file in the output folder, whole or not at all.
//!
//! The content goes to a temporary file beside the target, is made durable, and then takes the
//! target's name in one step. A reader sees the old file or the new one, also after a crash. A
//! repeat writes the same again.

use super::root::{Area, OUTPUT, Place, Roots, explain, open_output, sync};
use super::{Arguments, Folders, Stop, blocking};
use crate::error::ToolError;
use crate::gate::Permit;
use crate::text::line_count;
use crate::tool::{Call, Effect, Output, Tool, ToolSpec};
use async_trait::async_trait;
use cairn_views::file_results::Written;
use cap_std::fs::{Dir, File, OpenOptions};
use serde_json::json;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Temporary files begin with this: hidden, so that no listing shows them.
const TEMPORARY: &str = ".cairn-tmp-";
/// A temporary file older than this was left behind by a crash.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);
/// Entries of a folder that are looked at for what was left behind.
const SWEEP: usize = 1000;
/// Bytes written between two looks at whether the write is still wanted.
const PART: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct WriteFile {
    spec: ToolSpec,
    folders: Arc<Folders>,
}

impl WriteFile {
    pub(super) fn new(folders: Arc<Folders>) -> Self {
        let base = folders.spec(
            "write_file",
            "Writes a text file, or replaces it, whole or not at all. Only paths under 'cairn-out/' \
             can be written, for example 'cairn-out/report.md'; folders on the way are made.",
            json!({
                "type": "object",
                "properties": {
                    "path": {
                        "type": "string", "minLength": 1, "maxLength": 4096,
                        "description": "File to write, under 'cairn-out/'."
                    },
                    "content": {
                        "type": "string",
                        "description": "The whole text of the file."
                    }
                },
                "required": ["path", "content"],
                "additionalProperties": false
            }),
            Effect::Idempotent,
        );
        // As JSON text the content is longer than it is; what is longer still is refused unread.
        let argument_limit = folders.limits.write_bytes.saturating_mul(2) + base.argument_limit;
        let spec = ToolSpec {
            argument_limit,
            ..base
        };
        Self { spec, folders }
    }
}

#[async_trait]
impl Tool for WriteFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, call: &Call) -> Result<Output, ToolError> {
        let arguments = Arguments(&call.arguments);
        let content = arguments.text("content").unwrap_or_default();
        let most = self.folders.limits.write_bytes;
        if content.len() > most {
            return Err(ToolError::TooLarge(format!(
                "content has {} bytes; one file may have at most {most}; write several files",
                content.len()
            )));
        }
        let order = Order {
            target: target(arguments.text("path").unwrap_or_default())?,
            content: content.as_bytes().to_vec(),
            permit: call.permit.clone(),
        };
        let folders = self.folders.clone();
        blocking(call, move |stop| write(&folders.roots, &order, stop)).await
    }
}

struct Order {
    target: Place,
    content: Vec<u8>,
    permit: Permit,
}

fn target(path: &str) -> Result<Place, ToolError> {
    let place = Roots::place(path)?;
    if place.area != Area::Output {
        return Err(ToolError::Denied(format!(
            "'{}' is not under {OUTPUT}/, the only place that write_file writes to; give for \
             example {OUTPUT}/report.md",
            place.shown
        )));
    }
    // The last part must name a file; everything else is for the kernel to resolve.
    if path.ends_with(['/']) || place.path == Path::new(".") || place.path.file_name().is_none() {
        return Err(ToolError::InvalidArguments(format!(
            "'{}' names a folder; give a file, for example {OUTPUT}/report.md",
            place.shown
        )));
    }
    if is_temporary(place.path.file_name().unwrap_or_default()) {
        return Err(ToolError::InvalidArguments(format!(
            "'{}' is a name of a temporary file; give another",
            place.shown
        )));
    }
    Ok(place)
}

fn is_temporary(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(TEMPORARY.as_bytes())
}

fn write(roots: &Roots, order: &Order, stop: &Stop) -> Result<Output, ToolError> {
    let fault = |error: io::Error| explain(&order.target, &error);
    let root = roots.output_for_writing().map_err(fault)?;
    let parent = open_parent(&root, &order.target.path).map_err(fault)?;
    let name = order.target.path.file_name().unwrap_or_default();
    let temporary = Temporary::create(&parent).map_err(fault)?;
    for part in order.content.chunks(PART) {
        stop.check()?;
        temporary.file().write_all(part).map_err(fault)?;
    }
    temporary.file().sync_all().map_err(fault)?;
    // Making it durable may have taken long: nobody may be waiting, or it may be too late.
    stop.check()?;
    order.permit.check()?;
    temporary.take_name(name).map_err(fault)?;
    sync(&parent).map_err(fault)?;
    let written = Written {
        path: order.target.shown.clone(),
        bytes: order.content.len() as u64,
        lines: line_count(&order.content),
    };
    Ok(Output::text(written.to_string()))
}

/// Opens the folder of `path`, making what is missing of it. Every new folder is durable when this
/// returns.
fn open_parent(root: &Dir, path: &Path) -> io::Result<Dir> {
    let Some(parent) = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    else {
        return root.try_clone();
    };
    let mut made = PathBuf::new();
    for part in parent.components() {
        let above = made.clone();
        made.push(part);
        match root.create_dir(&made) {
            Ok(()) if above.as_os_str().is_empty() => sync(root)?,
            Ok(()) => sync(&root.open_dir(&above)?)?,
            // Whatever is there: opening it below tells whether it is a folder.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    root.open_dir(parent)
}

/// Writes a text into the output folder, which is made if it is not there. As with the tool `write_file`,
/// no link is followed. It is not durable when this returns. `replaces` what has the name.
///
/// # Errors
/// `AlreadyExists` if something has the name and is not to be replaced; a link on the way to the folder.
pub fn write_output(output: &Path, name: &str, text: &str, replaces: bool) -> io::Result<()> {
    let dir = open_output(&std::path::absolute(output)?, true)?;
    if replaces {
        _ = dir.remove_file(name);
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    dir.open_with(name, &options)?.write_all(text.as_bytes())
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

#[cfg(test)]
mod tests;

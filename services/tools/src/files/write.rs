//! `write_file`: writes or replaces a file, whole or not at all. A repeat writes the same again.

use super::atomic::{Replacement, is_temporary};
use super::diff::{Before, Change};
use super::root::{Area, Place, explain, open_output, sync};
use super::target::Target;
use super::writing::{Now, check_seen, concealed, rejudge, stands, unshown};
use super::{Arguments, Folders, Stop, blocking};
use crate::config::Write as Setting;
use crate::error::ToolError;
use crate::gate::Permit;
use crate::text::line_count;
use crate::tool::{Call, Digests, Effect, Output, Preview, Tool, ToolSpec};
use async_trait::async_trait;
use cairn_engine::key::ContentDigest;
use cairn_views::file_results::Written;
use cap_std::fs::{Dir, OpenOptions};
use serde_json::json;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Its name.
const NAME: &str = "write_file";

#[derive(Debug)]
pub(super) struct WriteFile {
    spec: ToolSpec,
    digest: String,
    folders: Arc<Folders>,
}

impl WriteFile {
    pub(super) fn new(folders: Arc<Folders>) -> Self {
        let (description, path) = words(folders.write);
        let base = folders.spec(
            NAME,
            description,
            json!({
                "type": "object",
                "properties": {
                    "path": {
                        "type": "string", "minLength": 1, "maxLength": 4096,
                        "description": path
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
        let spec = folders.writer(base);
        let digest = spec.digest();
        Self {
            spec,
            digest,
            folders,
        }
    }

    fn order(&self, call: &Call) -> Result<Order, ToolError> {
        let arguments = Arguments(&call.arguments);
        let content = arguments.text("content").unwrap_or_default();
        let most = self.folders.limits.write_bytes;
        if content.len() > most {
            return Err(ToolError::TooLarge(format!(
                "content has {} bytes; one file may have at most {most}; write several files",
                content.len()
            )));
        }
        let path = arguments.text("path").unwrap_or_default();
        let place = self.folders.writable(path, NAME)?;
        if is_temporary(place.path.file_name().unwrap_or_default()) {
            return Err(ToolError::InvalidArguments(format!(
                "'{}' is a name of a temporary file; give another",
                place.shown
            )));
        }
        Ok(Order {
            place,
            content: content.to_owned(),
            permit: call.permit.clone(),
            digests: call.digests.clone(),
            tool_digest: self.digest.clone(),
        })
    }
}

/// The description of the tool, and of its path.
fn words(setting: Setting) -> (&'static str, &'static str) {
    match setting {
        Setting::Out => (
            "Writes a text file, or replaces it, whole or not at all. Only paths under 'cairn-out/' \
             can be written, for example 'cairn-out/report.md'; folders on the way are made.",
            "File to write, under 'cairn-out/'.",
        ),
        Setting::Ask | Setting::Allow => (
            "Writes a new text file, or replaces a whole one; folders on the way are made. Give the \
             complete text: what you leave out is gone. To change a part of a file, use edit_file. \
             Read a file before you replace it. Paths are relative to the workspace, for example \
             'src/lib.rs'; reports and other results for a person go under 'cairn-out/', for example \
             'cairn-out/report.md'. A person may be asked first, and sees what changes.",
            "File to write, relative to the workspace.",
        ),
    }
}

#[async_trait]
impl Tool for WriteFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn preview(&self, call: &Call) -> Result<Preview, ToolError> {
        let order = self.order(call)?;
        let folders = self.folders.clone();
        blocking(call, move |stop| preview(&folders, &order, stop)).await
    }

    async fn call(&self, call: &Call) -> Result<Output, ToolError> {
        let order = self.order(call)?;
        let folders = self.folders.clone();
        blocking(call, move |stop| write(&folders, &order, stop)).await
    }
}

struct Order {
    place: Place,
    content: String,
    permit: Permit,
    digests: Option<Digests>,
    tool_digest: String,
}

impl Order {
    fn output(&self, target: &Target<'_>, digest: String) -> Output {
        let written = Written {
            path: self.place.shown.clone(),
            bytes: self.content.len() as u64,
            lines: line_count(self.content.as_bytes()),
        };
        Output {
            file: Some(target.state(digest)),
            ..Output::text(written.to_string())
        }
    }
}

fn preview(folders: &Folders, order: &Order, stop: &Stop) -> Result<Preview, ToolError> {
    let target = folders.roots.target(&order.place)?;
    let content = target.content(folders.limits.write_bytes)?;
    // Of the same reading as the diff: the file may change meanwhile.
    let before = match &content {
        Some(content) => ContentDigest::of(content),
        None => target.digest(stop)?,
    };
    let size = target.metadata().map_or(0, |metadata| metadata.len());
    // The journal has the diff, and file tools show the file to no model.
    let is_hidden =
        order.place.area == Area::Workspace && folders.roots.locate(&order.place).is_err();
    let why = match is_hidden {
        true => concealed(size),
        false => unshown(size),
    };
    let text = content.map(String::from_utf8);
    let shown = match &text {
        Some(Ok(text)) if !is_hidden => Before::Text(text),
        _ if target.metadata().is_some() => Before::Unshown(&why),
        _ => Before::Absent,
    };
    let state = target.state(before);
    let change = Change::of(&state.path, shown, &order.content);
    let after = ContentDigest::of(order.content.as_bytes());
    // No model has read what it replaces there, so a person looks at each such write.
    let is_protected = target.is_protected || (is_hidden && target.metadata().is_some());
    Ok(change.preview(state, after, is_protected))
}

fn write(folders: &Folders, order: &Order, stop: &Stop) -> Result<Output, ToolError> {
    let _turn = folders.turn(&order.place);
    let roots = &folders.roots;
    let target = roots.target(&order.place)?;
    check_seen(&target, order.digests.as_ref())?;
    let after = ContentDigest::of(order.content.as_bytes());
    if let Some(digests) = &order.digests {
        let now = target.digest(stop)?;
        match stands(digests, &now) {
            Now::Before if digests.after == after => {}
            Now::After if digests.after == after => {
                target.settle(roots)?;
                return Ok(order.output(&target, after));
            }
            _ => return Err(rejudge(&order.tool_digest, target.state(now))),
        }
    }
    let fault = |error: io::Error| explain(&order.place, &error);
    let dir = target.folder(roots).map_err(fault)?;
    let replacement = Replacement {
        place: &order.place,
        dir: &dir,
        name: target.name(),
        content: order.content.as_bytes(),
        // A file of the output folder is a new one each time.
        like: target
            .metadata()
            .filter(|_| order.place.area == Area::Workspace),
        permit: &order.permit,
    };
    replacement.put(stop, || {
        let is_checked = order.digests.is_some() && !target.is_link();
        match !is_checked || target.is_as_found(&dir) {
            true => Ok(()),
            false => Err(rejudge(&order.tool_digest, target.state(String::new()))),
        }
    })?;
    Ok(order.output(&target, after))
}

/// Opens the folder of `path`, making what is missing of it. Every new folder is durable when this
/// returns.
pub(super) fn open_parent(root: &Dir, path: &Path) -> io::Result<Dir> {
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

#[cfg(test)]
mod tests;

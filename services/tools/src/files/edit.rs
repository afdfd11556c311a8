//! `edit_file`: replaces exact text in a file.
//!
//! With the digests of a preview, an edit is made once: a file that has the edit already is left as it is.
//! Without them, an edit whose text stands in the file already counts as made.

use super::atomic::Replacement;
use super::diff::{Before, Change};
use super::locate::Located;
use super::replace::{Edit, Edited, replace};
use super::root::{Area, Place, explain};
use super::target::Target;
use super::writing::{Now, check_seen, rejudge, stands};
use super::{Arguments, Folders, Stop, blocking};
use crate::config::Write as Setting;
use crate::error::ToolError;
use crate::gate::Permit;
use crate::text::line_count;
use crate::tool::{Call, Digests, Effect, Output, Preview, Tool, ToolSpec};
use async_trait::async_trait;
use cairn_engine::key::ContentDigest;
use cairn_engine::text::counted;
use rustix::io::Errno;
use serde_json::json;
use std::sync::Arc;

/// Its name.
const NAME: &str = "edit_file";

const DESCRIPTION: &str = "Replaces text in a file and leaves the rest as it is. Read the file first. 'old' is the \
     exact text to replace, with its spaces and line breaks, but without the line number and the tab that \
     read_file puts before each line. 'old' must occur exactly once: take in neighbouring lines until it does, or \
     set 'all' to replace every occurrence. Example: {\"path\": \"src/calc.py\", \"old\": \"    return a - b\\n\", \
     \"new\": \"    return a + b\\n\"}. To insert text, repeat a line in 'old' and 'new'; to delete text, give an \
     empty 'new'. A backslash of the file is two in JSON. For a new file, use write_file.";
const ASKS: &str = " A person may be asked first, and sees what changes.";
const OUT: &str = " Only files under 'cairn-out/' can be edited.";

#[derive(Debug)]
pub(super) struct EditFile {
    spec: ToolSpec,
    digest: String,
    folders: Arc<Folders>,
}

impl EditFile {
    pub(super) fn new(folders: Arc<Folders>) -> Self {
        let more = match folders.write {
            Setting::Out => OUT,
            Setting::Ask | Setting::Allow => ASKS,
        };
        let base = folders.spec(
            NAME,
            &format!("{DESCRIPTION}{more}"),
            json!({
                "type": "object",
                "properties": {
                    "path": {
                        "type": "string", "minLength": 1, "maxLength": 4096,
                        "description": "File to edit, as list_files shows it."
                    },
                    "old": {
                        "type": "string",
                        "description": "Text to replace, exactly as it is in the file. It must not be empty."
                    },
                    "new": {
                        "type": "string",
                        "description": "Text to put in its place; empty to delete."
                    },
                    "all": {
                        "type": "boolean",
                        "description": "Replace every occurrence; false by default."
                    }
                },
                "required": ["path", "old", "new"],
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
        let text = |name: &str| arguments.text(name).unwrap_or_default().to_owned();
        Ok(Order {
            place: self.folders.writable(&text("path"), NAME)?,
            old: text("old"),
            new: text("new"),
            all: arguments.flag("all").unwrap_or_default(),
            permit: call.permit.clone(),
            digests: call.digests.clone(),
            tool_digest: self.digest.clone(),
        })
    }
}

#[async_trait]
impl Tool for EditFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn preview(&self, call: &Call) -> Result<Preview, ToolError> {
        let order = self.order(call)?;
        let folders = self.folders.clone();
        blocking(call, move |_| preview(&folders, &order)).await
    }

    async fn call(&self, call: &Call) -> Result<Output, ToolError> {
        let order = self.order(call)?;
        let folders = self.folders.clone();
        blocking(call, move |stop| edit(&folders, &order, stop)).await
    }
}

struct Order {
    place: Place,
    old: String,
    new: String,
    all: bool,
    permit: Permit,
    digests: Option<Digests>,
    tool_digest: String,
}

impl Order {
    /// The file, and its text.
    fn read<'a>(&'a self, folders: &Folders) -> Result<(Target<'a>, String), ToolError> {
        let (place, shown) = (&self.place, &self.place.shown);
        if place.area == Area::Workspace
            && let Located::Folder(_) = folders.roots.locate(place)?
        {
            return Err(explain(place, &Errno::ISDIR.into()));
        }
        let target = folders.roots.target(place)?;
        if target.is_link() {
            return Err(ToolError::Denied(format!(
                "'{shown}' is a link, and no file is edited through one; give the path that it leads to"
            )));
        }
        let Some(metadata) = target.metadata() else {
            return Err(explain(place, &Errno::NOENT.into()));
        };
        let most = folders.limits.write_bytes;
        let Some(content) = target.content(most)? else {
            return Err(ToolError::TooLarge(format!(
                "'{shown}' has {} bytes; files of up to {most} bytes can be edited",
                metadata.len()
            )));
        };
        match String::from_utf8(content) {
            Ok(text) => Ok((target, text)),
            Err(_) => Err(ToolError::ExecutionFailed(format!(
                "'{shown}' is no UTF-8 text; only such files can be edited"
            ))),
        }
    }

    /// The text after the edit.
    fn edited(&self, text: &str, most: usize, may_be_repeat: bool) -> Result<Edited, ToolError> {
        let edit = Edit {
            old: &self.old,
            new: &self.new,
            all: self.all,
            may_be_repeat,
        };
        let edited = replace(text, &edit, &self.place.shown);
        let edited = edited.map_err(ToolError::InvalidArguments)?;
        match &edited {
            Edited::Changed(new) if new.len() > most => Err(ToolError::TooLarge(format!(
                "'{}' would have {} bytes; one file may have at most {most}",
                self.place.shown,
                new.len()
            ))),
            _ => Ok(edited),
        }
    }

    /// The same for each repeat of the call.
    fn output(&self, target: &Target<'_>, text: &str, digest: String) -> Output {
        let what = match self.all {
            true => "every occurrence",
            false => "one occurrence",
        };
        let lines = counted(line_count(text.as_bytes()), "line");
        let shown = &self.place.shown;
        Output {
            file: Some(target.state(digest)),
            ..Output::text(format!(
                "edited {shown}: replaced {what}; it has {lines} now"
            ))
        }
    }
}

fn preview(folders: &Folders, order: &Order) -> Result<Preview, ToolError> {
    let (target, text) = order.read(folders)?;
    let new = match order.edited(&text, folders.limits.write_bytes, false)? {
        Edited::Changed(new) => new,
        Edited::Already(_) => text.clone(),
    };
    let state = target.state(ContentDigest::of(text.as_bytes()));
    let change = Change::of(&state.path, Before::Text(&text), &new);
    let after = ContentDigest::of(new.as_bytes());
    Ok(change.preview(state, after, target.is_protected))
}

fn edit(folders: &Folders, order: &Order, stop: &Stop) -> Result<Output, ToolError> {
    let _turn = folders.turn(&order.place);
    let roots = &folders.roots;
    let (target, text) = order.read(folders)?;
    check_seen(&target, order.digests.as_ref())?;
    let now = ContentDigest::of(text.as_bytes());
    let other = |now: &str| rejudge(&order.tool_digest, target.state(now.to_owned()));
    match order.digests.as_ref().map(|it| stands(it, &now)) {
        Some(Now::After) => {
            target.settle(roots)?;
            return Ok(order.output(&target, &text, now));
        }
        Some(Now::Other) => return Err(other(&now)),
        Some(Now::Before) | None => {}
    }
    let most = folders.limits.write_bytes;
    let new = match order.edited(&text, most, order.digests.is_none())? {
        Edited::Changed(new) => new,
        Edited::Already(line) => {
            let shown = &order.place.shown;
            return Ok(Output {
                file: Some(target.state(now)),
                ..Output::text(format!(
                    "{shown} has 'new' already, at line {line}, and 'old' nowhere else: nothing was changed"
                ))
            });
        }
    };
    let after = ContentDigest::of(new.as_bytes());
    if order.digests.as_ref().is_some_and(|it| it.after != after) {
        return Err(other(&now));
    }
    let dir = target.folder(roots);
    let dir = dir.map_err(|error| explain(&order.place, &error))?;
    let replacement = Replacement {
        place: &order.place,
        dir: &dir,
        name: target.name(),
        content: new.as_bytes(),
        like: target.metadata(),
        permit: &order.permit,
    };
    replacement.put(stop, || match target.is_as_found(&dir) {
        true => Ok(()),
        // An unknown file: it is looked at again.
        false => Err(other("")),
    })?;
    Ok(order.output(&target, &new, after))
}

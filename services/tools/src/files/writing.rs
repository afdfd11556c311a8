//! What the tools that write have in common: one write of a file at a time, and only of the file that was
//! judged.

use super::Folders;
use super::diff::Change;
use super::root::{Area, Place};
use super::target::{Target, known_place};
use crate::error::ToolError;
use crate::tool::{Digests, FileState, Preview, Rejudge, ToolSpec};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Files are written one after another within each of so many groups.
const GROUPS: usize = 16;

/// Keeps writes of one file apart, within this process.
#[derive(Debug, Default)]
pub(super) struct Turns([Mutex<()>; GROUPS]);

impl Folders {
    /// Waits until no other call of this process writes the file. Other files may have to wait, too.
    pub(super) fn turn(&self, place: &Place) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        known_place(place).hash(&mut hasher);
        let group = usize::try_from(hasher.finish() % GROUPS as u64).unwrap_or(0);
        let group = &self.turns.0[group];
        group.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the tools that write declare besides.
    pub(super) fn writer(&self, base: ToolSpec) -> ToolSpec {
        ToolSpec {
            // As JSON text a content is longer than it is; what is longer still is refused unread.
            argument_limit: self.limits.write_bytes.saturating_mul(2) + base.argument_limit,
            default: self.write.answer(),
            previews: true,
            ..base
        }
    }
}

/// What a file is beside the preview of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Now {
    /// As it was when the write was judged.
    Before,
    /// As the write would leave it, or has left it.
    After,
    /// Another one.
    Other,
}

/// What the file with the digest `now` is.
pub(super) fn stands(digests: &Digests, now: &str) -> Now {
    match now {
        _ if now == digests.after => Now::After,
        _ if now == digests.before => Now::Before,
        _ => Now::Other,
    }
}

/// Lets a write of a protected file of the workspace through only with the digests of the preview that a person
/// approved. Rules and settings do not speak for that person.
///
/// # Errors
/// The call has none.
pub(super) fn check_seen(target: &Target<'_>, digests: Option<&Digests>) -> Result<(), ToolError> {
    let is_of_workspace = target.place.area == Area::Workspace;
    if !(target.is_protected && is_of_workspace && digests.is_none()) {
        return Ok(());
    }
    Err(ToolError::Denied(format!(
        "'{}' is a file that Cairn, git or an agent reads or runs on its own; it is written only after a person \
         approved a preview of the change, and this call has no preview",
        target.place.shown
    )))
}

/// The file is not the one that was judged. Nothing was written.
pub(super) fn rejudge(tool_digest: &str, now: FileState) -> ToolError {
    ToolError::Rejudge(Rejudge {
        tool_digest: tool_digest.to_owned(),
        resolved: Vec::new(),
        file: Some(now),
    })
}

/// Why the file before a write is not shown, after "the file before".
pub(super) fn unshown(bytes: u64) -> String {
    format!("has {bytes} bytes and is not shown: it is no UTF-8 text, or too long")
}

/// The same for a file that file tools do not show.
pub(super) fn concealed(bytes: u64) -> String {
    format!("has {bytes} bytes and is not shown: file tools do not show this file")
}

impl Change {
    /// The preview of a write that makes this change.
    pub(super) fn preview(self, now: FileState, after: String, is_protected: bool) -> Preview {
        Preview {
            path: now.path,
            digests: Digests {
                before: now.digest,
                after,
            },
            diff: self.diff,
            added: self.added,
            removed: self.removed,
            is_protected,
        }
    }
}

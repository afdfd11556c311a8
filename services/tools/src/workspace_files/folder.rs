//! Folders of the workspace: their entries, and the digests of their files.

use super::cache::{Cache, Key, Read};
use super::limits::{self, Room};
use super::paths::is_plain;
use crate::files::{open_entry, open_folder};
use cairn_agents::Fault;
use cairn_agents::document::decode;
use cairn_engine::key::{digest, hex};
use cap_std::fs::{Dir, File};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _};

/// Why a file, a folder or a skill does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unfit(Fault);

impl From<Fault> for Unfit {
    fn from(fault: Fault) -> Self {
        Self(fault)
    }
}

impl Unfit {
    pub(super) fn new(problem: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self(Fault {
            line: 0,
            field: String::new(),
            problem: problem.into(),
            allowed: allowed.into(),
        })
    }

    /// The system does not give it.
    pub(super) fn unreadable(error: &io::Error) -> Self {
        Self::new(format!("cannot be read: {error}"), "")
    }

    /// The same about a file of it.
    pub(super) fn within(self, file: &str) -> Self {
        let file = crate::text::brief(file, 200);
        let problem = format!("has {file:?}, which {}", self.0.problem);
        Self(Fault { problem, ..self.0 })
    }

    /// In one line, after the path.
    pub(super) fn to_line(&self, path: &str) -> String {
        self.0.to_line(&crate::text::brief(path, 200))
    }
}

/// What an entry of a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    File(u64),
    Folder,
    Link,
    Other,
}

impl Sort {
    /// The size of a file.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn file(self) -> Result<u64, Unfit> {
        match self {
            Self::File(size) => Ok(size),
            Self::Folder => Err(Unfit::new("is a folder", "a file")),
            Self::Link => Err(link("a file")),
            Self::Other => Err(Unfit::new("is no regular file", "a file")),
        }
    }
}

/// For a link, where `allowed` could stand.
pub(super) fn link(allowed: &str) -> Unfit {
    Unfit::new("is a link, and links are not followed", allowed)
}

/// What a name of a folder stands for; none for nothing.
///
/// # Errors
/// The system does not say.
pub(super) fn sort(dir: &Dir, name: &str) -> Result<Option<Sort>, Unfit> {
    let metadata = match dir.symlink_metadata(name) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Unfit::unreadable(&error)),
    };
    Ok(Some(if metadata.is_symlink() {
        Sort::Link
    } else if metadata.is_dir() {
        Sort::Folder
    } else if metadata.is_file() {
        Sort::File(metadata.len())
    } else {
        Sort::Other
    }))
}

/// Goes down name by name. None if one of them is not there.
///
/// # Errors
/// A link or a file on the way.
pub(super) fn descend<'a>(
    dir: &Dir,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<Option<Dir>, Unfit> {
    let mut here = dir.try_clone().map_err(|error| Unfit::unreadable(&error))?;
    for name in names {
        here = match open_folder(&here, OsStr::new(name)) {
            Ok(below) => below,
            Err(error) => return not_opened(&here, name, &error),
        };
    }
    Ok(Some(here))
}

fn not_opened(dir: &Dir, name: &str, error: &io::Error) -> Result<Option<Dir>, Unfit> {
    let leads_through = |what: &str| {
        let problem = format!("leads through '{name}', which is {what}");
        Err(Unfit::new(problem, "a folder"))
    };
    match sort(dir, name)? {
        None => Ok(None),
        Some(Sort::Link) => leads_through("a link, and links are not followed"),
        Some(Sort::File(_) | Sort::Other) => leads_through("no folder"),
        Some(Sort::Folder) => Err(Unfit::unreadable(error)),
    }
}

/// The names in a folder, sorted; those that are no plain text come apart, as far as they can be shown.
///
/// # Errors
/// It cannot be listed, or has too many entries.
pub(super) fn names(dir: &Dir, room: &mut Room) -> Result<(Vec<String>, Vec<String>), Unfit> {
    let (mut plain, mut odd) = (Vec::new(), Vec::new());
    let entries = dir.entries().map_err(|error| Unfit::unreadable(&error))?;
    for entry in entries {
        room.enter()?;
        let entry = entry.map_err(|error| Unfit::unreadable(&error))?;
        match plain_name(entry.file_name()) {
            Ok(name) => plain.push(name),
            Err(shown) => odd.push(shown),
        }
    }
    plain.sort_unstable();
    odd.sort_unstable();
    Ok((plain, odd))
}

fn plain_name(name: OsString) -> Result<String, String> {
    match name.into_string() {
        Ok(name) if is_plain(&name) => Ok(name),
        Ok(name) => Err(name),
        Err(name) => Err(name.to_string_lossy().into_owned()),
    }
}

/// For a name that is no plain text.
pub(super) fn odd_name() -> Unfit {
    Unfit::new(
        "has a name that cannot be shown",
        "a name in UTF-8 without control characters",
    )
}

/// The digest of a file of `size` bytes.
///
/// # Errors
/// It is no regular file, cannot be read, or is larger now.
pub(super) fn read_digest(
    dir: &Dir,
    name: &str,
    size: u64,
    cache: &mut Cache,
) -> Result<Read, Unfit> {
    let (mut file, key) = open(dir, name)?;
    if let Some(known) = cache.get(&key) {
        return Ok(known);
    }
    let content = content(&mut file, size)?;
    let read = Read {
        digest: digest_of(&content),
        fault: match decode(name, &content) {
            Ok(_) => None,
            Err(error) => error.faults.into_iter().next(),
        },
    };
    let metadata = file.metadata();
    let after = metadata.map_err(|error| Unfit::unreadable(&error))?;
    if Key::of(&after) == key {
        cache.put(key, read.clone());
    }
    Ok(read)
}

/// The content of a file, if it is the one with this digest.
pub(super) fn read_content(dir: &Dir, name: &str, size: u64, digest: &str) -> Option<Vec<u8>> {
    let (mut file, _) = open(dir, name).ok()?;
    let content = content(&mut file, size).ok()?;
    (digest_of(&content) == digest).then_some(content)
}

fn open(dir: &Dir, name: &str) -> Result<(File, Key), Unfit> {
    let opened = open_entry(dir, OsStr::new(name));
    let (file, metadata) = opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => link("a file"),
        _ => Unfit::unreadable(&error),
    })?;
    match metadata.is_file() {
        true => Ok((file, Key::of(&metadata))),
        false => Err(Unfit::new("is no regular file", "a file")),
    }
}

fn content(file: &mut File, size: u64) -> Result<Vec<u8>, Unfit> {
    let mut content = Vec::new();
    let read = file.take(size + 1).read_to_end(&mut content);
    read.map_err(|error| Unfit::unreadable(&error))?;
    match u64::try_from(content.len()) {
        Ok(read) if read <= size => Ok(content),
        _ => Err(Unfit::new(
            "grows while it is read",
            "a file that is at rest",
        )),
    }
}

fn digest_of(content: &[u8]) -> String {
    hex(&digest(&[b"cairn.workspace.file", content]))
}

/// The folder and the name at the end of a path.
pub(super) fn parent(path: &str) -> (Vec<&str>, &str) {
    match path.rsplit_once('/') {
        Some((folders, name)) => (folders.split('/').collect(), name),
        None => (Vec::new(), path),
    }
}

/// `path` below `folder`.
///
/// # Errors
/// It is too long.
pub(super) fn join(folder: &str, name: &str) -> Result<String, Unfit> {
    let path = match folder.is_empty() {
        true => name.to_owned(),
        false => format!("{folder}/{name}"),
    };
    match path.len() <= limits::PATH {
        true => Ok(path),
        false => Err(Unfit::new(
            format!("has a path of {} bytes", path.len()),
            format!("at most {}", limits::PATH),
        )),
    }
}

//! Files of text that a person names, read whole and within bounds.

use cairn_agents::{AgentError, Fault};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The bytes of a file that has at most so many: a larger one is not read to its end.
///
/// # Errors
/// A file that cannot be read, is no regular file, or is too large.
pub(super) fn bytes(path: &Path, most_bytes: usize) -> Result<Vec<u8>, AgentError> {
    let most = u64::try_from(most_bytes).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    let file = open(path).map_err(|error| unreadable(path, &error))?;
    let Some(file) = file else {
        return Err(fault(path, "is no regular file", "a file with text"));
    };
    let read = file.take(most.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(path, &error))?;
    match bytes.len() > most_bytes {
        true => Err(fault(
            path,
            "is too large",
            &format!("at most {most_bytes} bytes"),
        )),
        false => Ok(bytes),
    }
}

/// The file, unless it is something else. Opening a pipe would wait for its writer.
fn open(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true);
    options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = options.open(path)?;
    Ok(file.metadata()?.is_file().then_some(file))
}

/// The fault of a path that cannot be read.
pub(super) fn unreadable(path: &Path, error: &io::Error) -> AgentError {
    fault(path, &format!("cannot be read: {error}"), "")
}

/// A fault of a file as a whole.
pub(super) fn fault(path: &Path, problem: &str, allowed: &str) -> AgentError {
    AgentError {
        path: path.display().to_string(),
        faults: vec![Fault {
            line: 0,
            field: String::new(),
            problem: problem.to_owned(),
            allowed: allowed.to_owned(),
        }],
    }
}

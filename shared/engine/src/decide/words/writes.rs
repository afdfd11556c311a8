//! The words about writes of files.

use crate::escape::line;

/// The result of a write of a file that its model has not read as it is. `was_read`: it read the file before.
pub(in crate::decide) fn not_read(path: &str, was_read: bool) -> String {
    let path = line(path);
    match was_read {
        false => format!(
            "'{path}' was not read in this conversation; read it with read_file first, then call this again"
        ),
        true => format!(
            "'{path}' has changed since it was read; read it again with read_file, then call this again with \
             what it has now"
        ),
    }
}

/// The result of a write for which a person would be asked, where none can be.
pub(in crate::decide) const ONLY_OUTPUT: &str = "only cairn-out/ can be written here, because no person can be asked; \
                                                 nothing was written";

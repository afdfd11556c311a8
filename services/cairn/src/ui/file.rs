//! Results that go to a file in place of standard output.

use super::out;
use crate::context::Context;
use crate::error::CliError;
use cairn_rpc::text::escape;
use serde_json::json;
use std::fs;
use std::io::{Error, Write as _};
use std::path::Path;

/// Writes a text and says so. A last line end is added if there is none.
///
/// # Errors
/// The file cannot be written.
pub fn write(context: &Context, path: &Path, text: &str) -> Result<(), CliError> {
    replace(path, text)?;
    let bytes = text.trim_end().len() + 1;
    written(context, path, &format!("{bytes} bytes"))
}

/// Puts a text into a file, so that a reader sees the old text or the new one and never a part.
/// Makes the folder if there is none. A last line end is added if there is none.
///
/// # Errors
/// The file cannot be written.
pub fn replace(path: &Path, text: &str) -> Result<(), CliError> {
    let failed = |error: Error| not_written(path, &error);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        // A device or a pipe cannot be replaced; it takes what is written.
        let mut file = fs::OpenOptions::new()
            .write(true)
            .open(path)
            .map_err(failed)?;
        return writeln!(file, "{}", text.trim_end()).map_err(failed);
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let moved =
        fs::write(&part, format!("{}\n", text.trim_end())).and_then(|()| fs::rename(&part, path));
    moved.map_err(|error| {
        // Nothing is lost if it stays.
        let _ = fs::remove_file(&part);
        failed(error)
    })
}

/// Says what was written where.
///
/// # Errors
/// Standard output takes no more.
pub fn written(context: &Context, path: &Path, what: &str) -> Result<(), CliError> {
    let path = path.display().to_string();
    if context.json {
        return out::json(&json!({"written": path}));
    }
    out::line(&format!("wrote {}: {what}", escape(&path)))
}

/// A file that cannot be written.
pub fn not_written(path: &Path, error: &Error) -> CliError {
    CliError::new(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/tree.txt");
        replace(&path, "one\n\n").unwrap();
        replace(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
        let left = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1);
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        let error = replace(Path::new("/proc/none/x"), "x").unwrap_err();
        assert!(
            error.message.starts_with("cannot write /proc/none/x: "),
            "{error}"
        );
    }
}

//! Results that go to a file in place of standard output.

use super::out;
use crate::context::Context;
use crate::error::CliError;
use cairn_rpc::text::escape;
use serde_json::json;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Error, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The file that `--output` names; none for `-`, which is standard output.
pub fn named(output: Option<&Path>) -> Option<&Path> {
    output.filter(|path| path.as_os_str() != "-")
}

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
    let mut file = Replacement::begin(path, Readers::Usual)?;
    file.line(text.trim_end())?;
    file.finish()
}

/// Who may read a file that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// As the process is set up (umask).
    Usual,
    /// The user alone, as with the store.
    User,
}

/// A file that takes the place of another one once it is whole. Dropped before that, it leaves the
/// other file as it is.
#[derive(Debug)]
pub struct Replacement {
    path: PathBuf,
    readers: Readers,
    /// The file that is written; `None` for a device or a pipe, which cannot be replaced.
    part: Option<PathBuf>,
    to: BufWriter<File>,
}

impl Replacement {
    /// Begins a file beside the one at `path`. Makes the folder if there is none.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn begin(path: &Path, readers: Readers) -> Result<Self, CliError> {
        let failed = |error: Error| not_written(path, &error);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut options = OpenOptions::new();
        options.write(true);
        let mut part = None;
        if !fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            // A name that nobody can guess, and a file that is new: others who may write in the folder
            // cannot place a link there.
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(format!(".{}.part", uuid::Uuid::now_v7().simple()));
            part = Some(path.with_file_name(name));
            options.create_new(true);
            if readers == Readers::User {
                options.mode(0o600);
            }
        }
        let to = options.open(part.as_deref().unwrap_or(path));
        Ok(Self {
            path: path.to_owned(),
            readers,
            part,
            to: BufWriter::new(to.map_err(failed)?),
        })
    }

    /// Appends a text and a line end.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn line(&mut self, text: &str) -> Result<(), CliError> {
        let written = writeln!(self.to, "{text}");
        written.map_err(|error| not_written(&self.path, &error))
    }

    /// Appends bytes as they are.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        let written = self.to.write_all(bytes);
        written.map_err(|error| not_written(&self.path, &error))
    }

    /// Puts the file into its place.
    ///
    /// # Errors
    /// The file cannot be written, or cannot be moved there.
    pub fn finish(mut self) -> Result<(), CliError> {
        let finished = self.put();
        finished.map_err(|error| not_written(&self.path, &error))
    }

    fn put(&mut self) -> io::Result<()> {
        self.to.flush()?;
        let Some(part) = &self.part else {
            return Ok(());
        };
        if self.readers == Readers::User {
            // A crash of the machine must not leave an empty file where a whole one was.
            self.to.get_ref().sync_all()?;
        }
        fs::rename(part, &self.path)?;
        self.part = None;
        Ok(())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            // Nothing is lost if it stays.
            let _ = fs::remove_file(part);
        }
    }
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
    use std::os::unix::fs::PermissionsExt as _;

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
    fn a_file_that_is_not_finished_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        fs::write(&path, "old\n").unwrap();
        let mut file = Replacement::begin(&path, Readers::User).unwrap();
        file.line("new").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_for_the_user_alone_is_nobody_elses_whatever_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        fs::write(&path, "old\n").unwrap();
        let mut file = Replacement::begin(&path, Readers::User).unwrap();
        file.line("new").unwrap();
        file.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new\n");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
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

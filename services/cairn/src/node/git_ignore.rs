//! A `.gitignore` in the store's folder, so that `git add .` does not publish the store: prompts, file
//! contents and results.

use cairn_memory::StoreConfig;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The name that the folder has unless the settings say otherwise.
const FOLDER: &str = ".cairn";
const FILE: &str = ".gitignore";
const TEXT: &str = "# Cairn made this file: nothing in this folder belongs into a repository.\n*\n";

/// The folder of a store that is about to be opened.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// The store's file.
    store: PathBuf,
    is_new: bool,
}

impl Folder {
    /// Looks at the folder before the store is opened: a store that is not there is made with it.
    pub(super) fn of(store: &StoreConfig) -> Option<Self> {
        let StoreConfig::Sqlite { path } = store else {
            return None;
        };
        let folder = path.parent().filter(|folder| *folder != Path::new(""))?;
        Some(Self {
            path: folder.to_owned(),
            store: path.clone(),
            is_new: !folder.exists(),
        })
    }

    /// Writes the file, if there is none and the folder is Cairn's own. A folder of the user may hold a
    /// whole project, and stays as it is.
    pub(super) fn ignore(&self) {
        let is_own = self.is_new
            || self.path.file_name() == Some(OsStr::new(FOLDER))
                && self.has_only_own_files().unwrap_or(false);
        if !is_own {
            return;
        }
        if let Err(error) = write_new(&self.path.join(FILE))
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            let folder = self.path.display();
            tracing::warn!(%folder, %error, "no .gitignore written: git add may take the store");
        }
    }

    fn has_only_own_files(&self) -> io::Result<bool> {
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            if !self.is_own(&name.to_string_lossy()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The store with what SQLite, the lock and the note have beside it; sockets; tokens; the archive.
    fn is_own(&self, name: &str) -> bool {
        let store = self.store.file_name().unwrap_or_default();
        name.starts_with(&*store.to_string_lossy())
            || name.starts_with("cairn.sock")
            || name.starts_with("cairn.change.sock")
            || name.ends_with(".token")
            || name == "archive"
    }
}

/// Writes the file unless it is there already.
fn write_new(path: &Path) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).open(path)?;
    file.write_all(TEXT.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is in the folder's `.gitignore` after a store was opened there, and others made the files.
    fn opened(store: &str, before: &[&str]) -> Option<String> {
        let site = tempfile::tempdir().unwrap();
        for name in before {
            let path = site.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        let path = site.path().join(store);
        let folder = Folder::of(&StoreConfig::Sqlite { path: path.clone() }).unwrap();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "the store").unwrap();
        folder.ignore();
        fs::read_to_string(path.with_file_name(FILE)).ok()
    }

    #[test]
    fn a_folder_that_is_made_is_ignored_by_git() {
        let ignored = Some(TEXT.to_owned());
        assert_eq!(opened(".cairn/cairn.db", &[]), ignored);
        assert_eq!(opened("deep/data/c.db", &[]), ignored);
    }

    #[test]
    fn an_older_folder_is_ignored_if_nothing_else_is_in_it() {
        let own = [
            ".cairn/cairn.db-wal",
            ".cairn/cairn.db.lock",
            ".cairn/cairn.db.workspace",
            ".cairn/cairn.sock",
            ".cairn/7878.token",
            ".cairn/archive/default/s.jsonl",
        ];
        assert_eq!(opened(".cairn/cairn.db", &own), Some(TEXT.to_owned()));
        let notes = [&own[..], &[".cairn/notes.md"]].concat();
        assert_eq!(opened(".cairn/cairn.db", &notes), None);
    }

    #[test]
    fn what_a_user_made_stays_as_it_is() {
        assert_eq!(opened("cairn.db", &[]), None);
        assert_eq!(opened("project/cairn.db", &["project/main.rs"]), None);
        assert_eq!(opened("data/cairn.db", &["data/cairn.db"]), None);
        let own = opened(".cairn/cairn.db", &[".cairn/cairn.db", ".cairn/.gitignore"]);
        assert_eq!(own.as_deref(), Some(".cairn/.gitignore"));
    }
}

//! The folder of a store: for its user alone, and not for a repository. A store holds prompts, file contents
//! and results, and its folder may lie in a project.

use cairn_memory::StoreConfig;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

const IGNORE: &str = ".gitignore";
const TEXT: &str = "# Cairn made this file: nothing in this folder belongs into a repository.\n*\n";

/// Makes the folder of a store that is about to be opened, if it is not there. One that a user made may hold a
/// whole project, and stays as it is.
pub(super) fn make(store: &StoreConfig) {
    let StoreConfig::Sqlite { path } = store else {
        return;
    };
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let Some(folder) = folder.filter(|folder| !folder.exists()) else {
        return;
    };
    let mut builder = DirBuilder::new();
    // Where it cannot be made, opening the store says why.
    if builder.recursive(true).mode(0o700).create(folder).is_ok()
        && let Err(error) = fs::write(folder.join(IGNORE), TEXT)
    {
        let folder = folder.display();
        tracing::warn!(%folder, %error, "no .gitignore written: git add may take the store");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// What is in the folder's `.gitignore` after a store was to be opened there, and others made the files.
    fn made(store: &str, before: &[&str]) -> Option<String> {
        let site = tempfile::tempdir().unwrap();
        for name in before {
            let path = site.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        let path = site.path().join(store);
        make(&StoreConfig::Sqlite { path: path.clone() });
        fs::read_to_string(path.with_file_name(IGNORE)).ok()
    }

    #[test]
    fn a_folder_that_is_made_is_ignored_by_git() {
        assert_eq!(made("data/cairn.db", &[]).as_deref(), Some(TEXT));
        assert_eq!(made("deep/data/c.db", &[]).as_deref(), Some(TEXT));
    }

    #[test]
    fn a_folder_that_is_made_is_for_its_user_alone() {
        let site = tempfile::tempdir().unwrap();
        let path = site.path().join("state/cairn/site-1/cairn.db");
        make(&StoreConfig::Sqlite { path: path.clone() });
        let mode = fs::metadata(path.parent().unwrap()).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o700);
    }

    #[test]
    fn what_a_user_made_stays_as_it_is() {
        assert_eq!(made("cairn.db", &[]), None);
        assert_eq!(made("project/cairn.db", &["project/main.rs"]), None);
        assert_eq!(made("data/cairn.db", &["data/cairn.db"]), None);
        let own = made("data/cairn.db", &["data/.gitignore"]);
        assert_eq!(own.as_deref(), Some("data/.gitignore"));
    }
}

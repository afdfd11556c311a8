//! Where the store of a workspace is, unless a setting says otherwise: in the user's state folder. So each
//! workspace has a store of its own, tools do not reach it, and none comes with a folder of others.

use cairn_boot::{Environment, state_folder};
use cairn_engine::key::hex;
use sha2::{Digest as _, Sha256};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The file of the store.
const FILE: &str = "cairn.db";
/// Digits of the workspace's digest in the name of a store's folder.
const DIGITS: usize = 12;
/// Most characters that the workspace's own name has in that name.
const MOST_CHARACTERS: usize = 32;

/// The store of the folder `workspace`. None if the environment names no place for it.
pub(super) fn default_store(workspace: &Path, environment: &Environment) -> Option<PathBuf> {
    let state = state_folder(|name| environment.get(name).map(str::to_owned))?;
    Some(state.join(folder_name(&resolved(workspace))).join(FILE))
}

/// The workspace's name for people, and a digest of its path that tells it from others. Programs in other
/// languages look for the digest: the first digits of the path's SHA-256.
fn folder_name(workspace: &Path) -> String {
    let name = workspace.file_name().unwrap_or_default().to_string_lossy();
    let plain = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_alphanumeric() || "-_.".contains(c) => c,
        _ => '-',
    };
    // A name that begins with a dot would be hidden.
    let name = name.trim_start_matches('.').chars().map(plain);
    let name: String = name.take(MOST_CHARACTERS).collect();
    let name = if name.is_empty() {
        "workspace"
    } else {
        name.as_str()
    };
    let digest = hex(&Sha256::digest(workspace.as_os_str().as_bytes()));
    format!("{name}-{}", &digest[..DIGITS])
}

/// The folder's path without links. One that is gone has the name that it had, below the folder that it was in.
fn resolved(folder: &Path) -> PathBuf {
    let gone = || {
        let parent = fs::canonicalize(folder.parent()?).ok()?;
        Some(parent.join(folder.file_name()?))
    };
    let found = fs::canonicalize(folder).ok().or_else(gone);
    let absolute = || std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    found.unwrap_or_else(absolute)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(workspace: &Path) -> PathBuf {
        let environment = Environment::of([("XDG_STATE_HOME", "/state"), ("HOME", "/home/a")]);
        default_store(workspace, &environment).unwrap()
    }

    #[test]
    fn the_place_comes_from_absolute_variables_alone() {
        let of = |variables: &[(&str, &str)]| {
            let environment = Environment::of(variables.iter().copied());
            default_store(Path::new("/"), &environment)
        };
        let digest = "8a5edab28263";
        let below = |folder: &str| Some(PathBuf::from(format!("{folder}-{digest}/cairn.db")));
        let home = ("HOME", "/home/a");
        let place = below("/home/a/.local/state/cairn/workspace");
        assert_eq!(of(&[home]), place);
        assert_eq!(of(&[home, ("XDG_STATE_HOME", "state")]), place);
        let named = of(&[home, ("XDG_STATE_HOME", "/state")]);
        assert_eq!(named, below("/state/cairn/workspace"));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("HOME", "")]), None);
    }

    #[test]
    fn each_folder_has_a_store_and_a_folder_of_many_names_has_one() {
        let place = tempfile::tempdir().unwrap();
        let [one, two] = ["a/site", "b/site"].map(|name| place.path().join(name));
        for folder in [&one, &two] {
            fs::create_dir_all(folder).unwrap();
        }
        assert_ne!(store(&one), store(&two));
        let link = place.path().join("link");
        std::os::unix::fs::symlink(&one, &link).unwrap();
        assert_eq!(store(&link), store(&one));
        assert_eq!(store(&place.path().join("a/../link/.")), store(&one));
        let before = store(&one);
        fs::remove_dir(&one).unwrap();
        assert_eq!(store(&one), before, "a folder that is gone keeps its store");
    }

    #[test]
    fn names_of_folders_are_plain_and_short() {
        for (path, want) in [
            ("/a/site", "site"),
            ("/a/My Site", "my-site"),
            ("/a/.hidden", "hidden"),
            ("/a/...", "workspace"),
            ("/a/k\u{e4}se\u{1b}[2J", "k-se--2j"),
            ("/", "workspace"),
        ] {
            let name = folder_name(Path::new(path));
            let (name, digest) = name.rsplit_once('-').unwrap();
            assert_eq!((name, digest.len()), (want, DIGITS), "{path}");
        }
        let long = folder_name(Path::new(&format!("/{}", "x".repeat(255))));
        assert_eq!(long.len(), MOST_CHARACTERS + 1 + DIGITS);
    }
}

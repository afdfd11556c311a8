//! What confined programs may read besides the workspace.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Folders of the system. What a program finds in `/proc` of other programs, Landlock decides for itself.
const SYSTEM: [&str; 13] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/nix",
    "/run/current-system",
    "/proc",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/sys/kernel/mm/transparent_hugepage",
];
/// The folder of settings of the system.
pub(super) const ETC: &str = "/etc";
/// Most entries of `/etc` that are looked at.
const MOST_ENTRIES: usize = 50_000;

/// The home of a toolchain: the variable that names it, its place below the user's home without one, and the
/// parts that are read. A whole home is `""`. Credentials that lie beside the parts stay out.
const HOMES: &[(&str, &str, &[&str])] = &[
    (
        "CARGO_HOME",
        ".cargo",
        &["bin", "registry", "git", "config.toml", "config", "env"],
    ),
    ("RUSTUP_HOME", ".rustup", &["toolchains", "settings.toml"]),
    ("PYENV_ROOT", ".pyenv", &[""]),
    ("NVM_DIR", ".nvm", &[""]),
    ("VOLTA_HOME", ".volta", &["bin", "tools"]),
    ("GOPATH", "go", &["bin", "pkg"]),
    ("GOROOT", "sdk", &[""]),
    ("", ".npm", &["_cacache"]),
    ("", ".asdf", &[""]),
    ("", ".rbenv", &[""]),
    ("", ".bun", &["bin"]),
    ("", ".deno", &["bin"]),
    ("", ".sdkman", &["candidates"]),
    (
        "",
        ".local",
        &["bin", "lib", "pipx", "share/uv", "share/mise", "share/pnpm"],
    ),
    // Git ends with an error if it cannot read these.
    (
        "",
        "",
        &[
            ".gitconfig",
            ".config/git/config",
            ".config/git/ignore",
            ".config/git/attributes",
        ],
    ),
];

/// Names of folders of programs. Beside one lies the rest of its toolchain.
const PROGRAMS: [&str; 2] = ["bin", "sbin"];

/// The folders of the system that are there, but [`ETC`].
pub(super) fn system() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = SYSTEM.map(PathBuf::from).into();
    found.retain(|path| path.exists());
    found
}

/// What of [`ETC`] programs read. Those of the superuser could read all of it, and get what every user can. The first
/// call looks at all of it.
pub(super) fn etc() -> &'static [PathBuf] {
    static FOUND: OnceLock<Vec<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(|| match rustix::process::geteuid().is_root() {
        false => vec![ETC.into()],
        true => {
            let mut open = Vec::new();
            let mut left = MOST_ENTRIES;
            if is_open(Path::new(ETC), &mut open, &mut left) {
                open = vec![ETC.into()];
            }
            open
        }
    })
}

/// Whether every user can read a path and everything below it. If not, what can be read below it is added to `open`.
fn is_open(path: &Path, open: &mut Vec<PathBuf>, left: &mut usize) -> bool {
    let Some(rest) = left.checked_sub(1) else {
        return false;
    };
    *left = rest;
    let Ok(found) = path.symlink_metadata() else {
        return false;
    };
    // A link leads to what is looked at for itself, or to what is not there.
    if found.is_symlink() {
        return true;
    }
    let mode = found.permissions().mode();
    if !found.is_dir() {
        return mode & 0o004 != 0;
    }
    if mode & 0o005 != 0o005 {
        return false;
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut below = Vec::new();
    let mut are_open = true;
    for entry in entries {
        let path = entry.path();
        match is_open(&path, &mut below, left) {
            true => below.push(path),
            false => are_open = false,
        }
    }
    if !are_open {
        open.extend(below);
    }
    are_open
}

/// Folders of programs on `PATH`, and the homes of toolchains, as far as they are there.
pub(super) fn toolchains(environment: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let home = home(environment);
    let mut found = Vec::new();
    for (variable, place, parts) in HOMES {
        let named = environment.get(*variable).filter(|it| !it.is_empty());
        let folder = match (named, &home) {
            (Some(named), _) => PathBuf::from(named),
            (None, Some(home)) => home.join(place),
            (None, None) => continue,
        };
        found.extend(parts.iter().map(|part| match part.is_empty() {
            true => folder.clone(),
            false => folder.join(part),
        }));
    }
    let path = environment.get("PATH").map_or("", String::as_str);
    for folder in std::env::split_paths(path) {
        found.extend(of_programs(&folder, home.as_deref()));
    }
    found.retain(|path| path.is_absolute() && path.exists() && path.to_str().is_some());
    found.sort();
    found.dedup();
    found
}

/// A folder of programs, with the folder above it if the rest of the toolchain lies there.
fn of_programs(folder: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let folder = real(folder);
    let is_home = |path: &Path| home.is_some_and(|home| real(home).starts_with(path));
    if folder.parent().is_none() || is_home(&folder) {
        return Vec::new();
    }
    let is_of_programs = folder
        .file_name()
        .is_some_and(|name| PROGRAMS.iter().any(|it| name == *it));
    // Homes that hold more than a toolchain are read in parts.
    let in_parts = |path: &Path| {
        let mut homes = HOMES.iter().filter(|(_, _, parts)| *parts != [""]);
        homes.any(|(_, place, _)| home.is_some_and(|home| path == real(&home.join(place))))
    };
    let above = folder.parent().filter(|_| is_of_programs);
    let above = above.filter(|above| above.parent().is_some() && !is_home(above));
    let above = above.filter(|above| !in_parts(above)).map(Path::to_owned);
    std::iter::once(folder).chain(above).collect()
}

/// Paths of the settings, where `~/` is the user's home, as far as they are there.
pub(super) fn named<'a>(
    paths: &'a [PathBuf],
    environment: &BTreeMap<String, String>,
) -> impl Iterator<Item = PathBuf> + use<'a> {
    let home = home(environment);
    let whole = move |path: &PathBuf| match (path.strip_prefix("~"), &home) {
        (Ok(below), Some(home)) => real(&home.join(below)),
        _ => real(path),
    };
    let found = paths.iter().map(whole);
    found.filter(|path| path.exists() && path.to_str().is_some())
}

fn home(environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    let home = environment.get("HOME").filter(|home| !home.is_empty())?;
    Some(PathBuf::from(home)).filter(|home| home.is_absolute())
}

/// An absolute path without links, as far as it is there.
pub(super) fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (above.canonicalize(), path.strip_prefix(above)) {
            return match rest.as_os_str().is_empty() {
                true => real,
                false => real.join(rest),
            };
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap().join("home");
        (folder, home)
    }

    #[test]
    fn toolchains_are_read_without_the_credentials_beside_them() {
        let (_folder, home) = folder();
        for path in [
            ".cargo/bin",
            ".cargo/registry",
            ".nvm/versions/node/v24/bin",
            ".local/bin",
            ".local/state/cairn",
            "tools/bin",
            "bin",
            ".ssh",
        ] {
            fs::create_dir_all(home.join(path)).unwrap();
        }
        fs::write(home.join(".cargo/credentials.toml"), "x").unwrap();
        fs::write(home.join(".gitconfig"), "x").unwrap();
        let shown = home.display();
        let path = format!(
            "{shown}/.cargo/bin:{shown}/.local/bin:{shown}/tools/bin:{shown}/bin:{shown}:relative:/nowhere/bin"
        );
        let environment = [("HOME", home.display().to_string()), ("PATH", path)];
        let environment = environment.map(|(name, value)| (name.to_owned(), value));
        let found = toolchains(&environment.into());
        let opens = |path: &str| found.iter().any(|it| home.join(path).starts_with(it));
        for path in [
            ".cargo/bin/cargo",
            ".cargo/registry/index",
            ".nvm/versions/node/v24/lib/node_modules/npm",
            ".local/bin/uv",
            "tools/lib/x",
            "bin/x",
            ".gitconfig",
        ] {
            assert!(opens(path), "{path}: {found:?}");
        }
        for path in [
            ".cargo/credentials.toml",
            ".local/state/cairn/x/cairn.db",
            ".ssh/id_ed25519",
            ".netrc",
        ] {
            assert!(!opens(path), "{path}: {found:?}");
        }
    }

    #[test]
    fn of_a_folder_with_secrets_only_the_rest_is_open() {
        let (folder, _) = folder();
        let etc = folder.path().join("etc");
        fs::create_dir_all(etc.join("ssl/private")).unwrap();
        fs::create_dir_all(etc.join("fonts")).unwrap();
        let modes = [
            ("shadow", 0o640),
            ("passwd", 0o644),
            ("ssl/cert", 0o644),
            ("fonts/a", 0o644),
        ];
        for (name, mode) in modes {
            fs::write(etc.join(name), "x").unwrap();
            fs::set_permissions(etc.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let closed = fs::Permissions::from_mode(0o710);
        fs::set_permissions(etc.join("ssl/private"), closed).unwrap();
        let mut open = Vec::new();
        assert!(!is_open(&etc, &mut open, &mut 100));
        open.sort();
        let expected = ["fonts", "passwd", "ssl/cert"].map(|name| etc.join(name));
        assert_eq!(open, expected);
        // What was not looked at is not open.
        assert!(!is_open(&etc, &mut Vec::new(), &mut 1));
    }

    #[test]
    fn a_path_of_the_settings_may_begin_at_home() {
        let (_folder, home) = folder();
        fs::create_dir_all(home.join("data")).unwrap();
        let environment = BTreeMap::from([("HOME".to_owned(), home.display().to_string())]);
        let paths = ["~/data".into(), "~/none".into(), "/usr".into()];
        let found: Vec<_> = named(&paths, &environment).collect();
        assert_eq!(found, [home.join("data"), real(Path::new("/usr"))]);
    }
}

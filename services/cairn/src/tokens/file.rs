//! Files with a token, one for each port.

use cairn_rpc::Token;
use rustix::fs::OFlags;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// More than any token has.
const MOST_BYTES: u64 = 1024;

/// The file of a port.
pub(super) fn path(folder: &Path, port: u16) -> PathBuf {
    folder.join(format!("{port}.token"))
}

/// What a file holds.
pub(super) fn text(path: &Path) -> io::Result<String> {
    read_text(&File::open(path)?)
}

/// The token of a port, while this process serves there. At its end the file goes.
#[derive(Debug)]
pub(crate) struct Kept {
    path: PathBuf,
    /// With a shared lock: the system says so of a process that is alive, and of no other.
    file: File,
}

/// The token of the process that serves at the port.
///
/// A file without such a process is none: it is left from a process that was killed, or came with the
/// folder. Whoever listens at the port now would get its token.
pub(super) fn read(path: &Path) -> Option<Token> {
    let file = open(OpenOptions::new().read(true), path).ok()?;
    check(&file).ok()?;
    let _turn = turn(path).ok()?;
    match is_served(&file) {
        Ok(true) => read_text(&file).ok()?.parse().ok(),
        Ok(false) | Err(_) => None,
    }
}

/// A new token for a process that serves at the port. Two processes may serve at one port, each at an
/// address of its own: they share the token of the first.
///
/// # Errors
/// The system's; a file of another user, or one that others may read or write.
pub(super) fn make(path: &Path) -> io::Result<(Token, Kept)> {
    if let Some(folder) = path.parent().filter(|folder| !folder.is_dir()) {
        make_folder(folder)?;
    }
    let _turn = turn(path)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = open(options.mode(0o600), path)?;
    check(&file)?;
    let token = match is_served(&file)? {
        true => read_text(&file)?
            .parse::<Token>()
            .map_err(io::Error::other)?,
        false => {
            let token = Token::random()?;
            file.set_len(0)?;
            file.write_all(format!("{}\n", token.expose()).as_bytes())?;
            token
        }
    };
    file.lock_shared()?;
    let path = path.to_owned();
    Ok((token, Kept { path, file }))
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove the token file");
        }
    }
}

impl Kept {
    fn end(&self) -> io::Result<()> {
        let _turn = turn(&self.path)?;
        self.file.unlock()?;
        let is_own = fs::metadata(&self.path)?.ino() == self.file.metadata()?.ino();
        match is_own && !is_served(&self.file)? {
            true => fs::remove_file(&self.path),
            false => Ok(()),
        }
    }
}

/// Lets one process at a time look at the locks of the files in a folder, until the value is dropped.
fn turn(path: &Path) -> io::Result<File> {
    let folder = File::open(path.parent().unwrap_or(Path::new(".")))?;
    folder.lock()?;
    Ok(folder)
}

/// Whether a process holds the lock of the file. Only to be asked in one's [`turn`].
fn is_served(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => file.unlock().map(|()| false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Follows no link, and waits for nothing that is no file.
fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = flags.bits().cast_signed();
    options.custom_flags(flags).open(path)
}

/// A folder for tokens, in which `git add .` finds nothing: it may lie in a project.
fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    fs::write(folder.join(".gitignore"), "*\n")
}

/// Refuses a file whose token others may know, or choose.
fn check(file: &File) -> io::Result<()> {
    let found = file.metadata()?;
    let own = rustix::process::geteuid().as_raw();
    let problem = match found.mode() & 0o777 {
        _ if !found.is_file() => "it is not a file".to_owned(),
        _ if found.uid() != own => format!("it belongs to user {}", found.uid()),
        mode if mode & 0o077 != 0 => format!("others may use it (mode {mode:03o})"),
        _ => return Ok(()),
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
}

fn read_text(file: &File) -> io::Result<String> {
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn only_its_user_may_read_a_token_and_only_while_its_process_serves() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(&folder.path().join("run/cairn"), 7878);
        assert!(read(&path).is_none());
        let (made, kept) = make(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        let ignored = fs::read_to_string(path.with_file_name(".gitignore"));
        assert_eq!(ignored.unwrap(), "*\n");
        assert_eq!(read(&path).unwrap().expose(), made.expose());
        // Another process at the port, at an address of its own, shares it.
        let (shared, other) = make(&path).unwrap();
        assert_eq!(shared.expose(), made.expose());
        drop(kept);
        assert_eq!(read(&path).unwrap().expose(), made.expose());
        drop(other);
        assert!(!path.exists(), "the file outlives its last process");
        let (next, _kept) = make(&path).unwrap();
        assert_ne!(next.expose(), made.expose());
    }

    /// A process that was killed leaves its file, and a folder of others may have one.
    #[test]
    fn a_file_that_no_process_has_is_neither_read_nor_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(folder.path(), 1);
        let left = Token::random().unwrap();
        for text in [format!("{}\n", left.expose()), String::new()] {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            assert!(read(&path).is_none());
            let (made, kept) = make(&path).unwrap();
            assert_ne!(made.expose(), left.expose());
            assert_eq!(read(&path).unwrap().expose(), made.expose());
            drop(kept);
        }
    }

    #[test]
    fn a_file_that_others_may_use_or_choose_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(folder.path(), 1);
        let (_, _kept) = make(&path).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o602, 0o666] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let error = make(&path).unwrap_err();
            assert!(error.to_string().contains("others may use it"), "{error}");
            assert!(read(&path).is_none());
        }
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let link = folder.path().join("2.token");
        symlink(&path, &link).unwrap();
        assert!(make(&link).is_err(), "it followed a link");
        assert!(read(&link).is_none(), "it followed a link");
        fs::write(&path, "short\n").unwrap();
        let error = make(&path).unwrap_err();
        assert!(!error.to_string().contains("short"), "{error}");
        assert!(make(folder.path()).is_err(), "a folder is a file");
    }
}

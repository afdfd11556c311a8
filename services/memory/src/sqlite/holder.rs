//! Who holds a store: whoever has the lock, and nobody else.

use super::open::OpenError;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek as _, Write as _};
use std::path::{Path, PathBuf};

/// The lock on a store; ends with this value, and with the process at the latest.
///
/// It lies on a file of its own: SQLite's locks on the database would be dropped if anybody else
/// in the process opened and closed that file. The same forbids a look at the database's header
/// before the lock is taken, so what turns out to be no store has got a lock by then, and
/// [`Lock::undo`] takes it away again.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    file: File,
    is_new: bool,
}

impl Lock {
    /// Takes the lock without waiting.
    pub(super) fn take(store: &Path) -> Result<Self, OpenError> {
        let path = lock_path(store);
        let io = |source| OpenError::Io {
            path: path.clone(),
            source,
        };
        loop {
            let (file, is_new) = open(&path).map_err(io)?;
            make_private(&file, &path);
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let path = store.to_owned();
                    return Err(OpenError::Held { path });
                }
                Err(TryLockError::Error(source)) => return Err(io(source)),
            }
            // A lock on a file that was taken away meanwhile keeps nobody out.
            if is_at(&file, &path).map_err(io)? {
                return Ok(Self { path, file, is_new });
            }
        }
    }

    /// Writes into the lock's file, which is no part of the lock.
    pub(super) fn write(&self, content: &[u8]) -> io::Result<()> {
        let mut file = &self.file;
        file.rewind()?;
        file.write_all(content)
    }

    /// What a holder of the store has written there.
    pub(super) fn content(store: &Path) -> io::Result<Vec<u8>> {
        fs::read(lock_path(store))
    }

    /// Ends the lock and leaves no file that was not there before.
    ///
    /// The file goes while it is still locked. Whoever has it open by then finds out that it is
    /// gone once the lock is theirs, so two holders cannot come of it.
    pub(super) fn undo(self) {
        // Without a way to tell files apart nobody would find out.
        if cfg!(unix)
            && self.is_new
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove the lock");
        }
        drop(self.file);
    }
}

/// The file, and whether it was made just now.
fn open(path: &Path) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    loop {
        match options.clone().create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|file| (file, true)),
        }
        match options.open(path) {
            // It was taken away between the two.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened.map(|file| (file, false)),
        }
    }
}

/// Leaves the file to its user alone, also if an earlier version or a copy made it readable for others:
/// a user who may read a file may lock it, and would keep every holder out.
#[cfg(unix)]
fn make_private(file: &File, path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let set = file
        .metadata()
        .and_then(|metadata| match metadata.permissions().mode() & 0o077 {
            0 => Ok(()),
            _ => file.set_permissions(fs::Permissions::from_mode(0o600)),
        });
    if let Err(error) = set {
        let path = path.display();
        tracing::warn!(%path, %error, "mode of lock file not set to 0600: other users may lock the store");
    }
}

#[cfg(not(unix))]
fn make_private(_: &File, _: &Path) {}

/// Whether the path still leads to the file.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match fs::metadata(path) {
        Ok(found) => Ok(identity(found) == identity(file.metadata()?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> io::Result<bool> {
    Ok(true)
}

fn lock_path(store: &Path) -> PathBuf {
    let mut name = OsString::from(store);
    name.push(".lock");
    name.into()
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    fn in_folder() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("cairn.db");
        let lock = lock_path(&store);
        (folder, store, lock)
    }

    #[test]
    fn undoing_leaves_only_what_was_there() {
        let (_folder, store, path) = in_folder();
        Lock::take(&store).unwrap().undo();
        assert!(!path.exists());
        drop(Lock::take(&store).unwrap());
        assert!(path.exists());
        Lock::take(&store).unwrap().undo();
        assert!(path.exists());
    }

    #[test]
    fn the_lock_is_its_users_alone_also_where_it_was_not() {
        use std::os::unix::fs::PermissionsExt as _;
        let (_folder, store, path) = in_folder();
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        drop(Lock::take(&store).unwrap());
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        drop(Lock::take(&store).unwrap());
        assert_eq!(mode(), 0o600);
    }

    #[test]
    fn a_lock_on_a_file_that_is_gone_is_none() {
        let (_folder, store, path) = in_folder();
        let first = Lock::take(&store).unwrap();
        // Another process has opened the file and is about to lock it.
        let (late, is_new) = open(&path).unwrap();
        assert!(!is_new && is_at(&late, &path).unwrap());
        first.undo();
        late.try_lock().unwrap();
        assert!(!is_at(&late, &path).unwrap());
        // A third one makes a new file, and that is the lock.
        let _third = Lock::take(&store).unwrap();
        assert!(!is_at(&late, &path).unwrap());
        assert!(matches!(Lock::take(&store), Err(OpenError::Held { .. })));
    }

    #[test]
    fn locks_that_come_and_go_keep_others_out() {
        let (_folder, store, _) = in_folder();
        let inside = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let Ok(lock) = Lock::take(&store) else {
                            continue;
                        };
                        let others = inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        assert_eq!(others, 0, "two hold the store");
                        std::thread::yield_now();
                        inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        lock.undo();
                    }
                });
            }
        });
    }
}

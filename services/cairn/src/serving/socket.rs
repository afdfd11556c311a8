//! The socket beside the store.

use crate::error::CliError;
use cairn_rpc::ShortPath;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// The socket of the process that holds the store.
pub(crate) fn path(store: &Path) -> PathBuf {
    store.with_file_name("cairn.sock")
}

/// The socket of a process that holds the store for one change, and carries out nothing. Whoever wants
/// work done waits for it to go.
pub(crate) fn path_for_change(store: &Path) -> PathBuf {
    store.with_file_name("cairn.change.sock")
}

/// The file of a bound socket.
#[derive(Debug)]
pub(super) struct Socket {
    path: PathBuf,
    /// Device and inode: the file at the path may be somebody else's by now.
    file: (u64, u64),
}

impl Socket {
    /// Listens on the path, in the place of a stale socket. The caller has the store's lock.
    pub(super) fn bind(path: &Path) -> Result<(Self, UnixListener), CliError> {
        let (listener, file) = bind(path).map_err(|error| {
            let hint = "nothing but a socket or a file may lie there; where its path is too long, give a \
                        shorter one with --store";
            CliError::new(format!("cannot listen on {}: {error}", path.display())).hint(hint)
        })?;
        let path = path.to_owned();
        Ok((Self { path, file }, listener))
    }

    /// Takes the file away, if it is still this socket's. Open connections go on.
    pub(super) fn remove(&self) {
        if identity(&self.path).is_ok_and(|file| file == self.file)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove the socket");
        }
    }
}

/// Binds under another name first, so that nobody can connect before the mode is set, and the
/// stale socket is replaced in one step.
fn bind(path: &Path) -> io::Result<(UnixListener, (u64, u64))> {
    let own = path.with_extension(format!("{}", std::process::id()));
    match fs::remove_file(&own) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(ShortPath::of(&own)?.path())?;
    let moved = fs::set_permissions(&own, Permissions::from_mode(0o600))
        .and_then(|()| identity(&own))
        .and_then(|file| fs::rename(&own, path).map(|()| file));
    match moved {
        Ok(file) => Ok((listener, file)),
        Err(error) => {
            // Where it cannot be taken away either, the first error says more.
            let _ = fs::remove_file(&own);
            Err(error)
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let file = fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino()))
}

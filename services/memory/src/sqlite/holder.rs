//! Who holds a store: whoever has the lock, and nobody else.

use super::open::OpenError;
use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

/// The lock on a store; ends with this value, and with the process at the latest.
///
/// It lies on a file of its own: SQLite's locks on the database would be dropped if anybody else
/// in the process opened and closed that file.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock without waiting.
    pub(super) fn take(store: &Path) -> Result<Self, OpenError> {
        let path = lock_path(store);
        let open = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let file = open.map_err(|source| OpenError::Io { path, source })?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(OpenError::Held {
                path: store.to_owned(),
            }),
            Err(TryLockError::Error(source)) => Err(OpenError::Io {
                path: lock_path(store),
                source,
            }),
        }
    }
}

fn lock_path(store: &Path) -> PathBuf {
    let mut name = OsString::from(store);
    name.push(".lock");
    name.into()
}

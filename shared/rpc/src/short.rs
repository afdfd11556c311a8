//! Unix sockets with paths that are longer than the system takes.

use std::io;
use std::path::{Path, PathBuf};

/// Most bytes of a socket's path. Linux takes so many and a zero.
#[cfg(target_os = "linux")]
const MOST_BYTES: usize = 107;

/// A name of a socket that is short enough to bind or to connect, for as long as the value is there.
///
/// On Linux a path of any length has one: through the folder, which is opened. Elsewhere it is the path itself.
#[derive(Debug)]
pub struct ShortPath {
    path: PathBuf,
    #[cfg(target_os = "linux")]
    _folder: Option<std::os::fd::OwnedFd>,
}

impl ShortPath {
    /// The short name of the socket at `path`.
    ///
    /// # Errors
    /// The folder of a long path cannot be opened.
    #[cfg(target_os = "linux")]
    pub fn of(path: &Path) -> io::Result<Self> {
        use rustix::fs::{Mode, OFlags};
        use std::os::fd::AsRawFd as _;

        let parts = path.parent().zip(path.file_name());
        let is_long = path.as_os_str().len() > MOST_BYTES;
        let Some((folder, name)) = parts.filter(|_| is_long) else {
            let path = path.to_owned();
            return Ok(Self {
                path,
                _folder: None,
            });
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())?;
        let short = format!("/proc/self/fd/{}", folder.as_raw_fd());
        Ok(Self {
            path: Path::new(&short).join(name),
            _folder: Some(folder),
        })
    }

    /// The short name of the socket at `path`.
    ///
    /// # Errors
    /// None.
    #[cfg(not(target_os = "linux"))]
    pub fn of(path: &Path) -> io::Result<Self> {
        let path = path.to_owned();
        Ok(Self { path })
    }

    /// The name.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn a_socket_with_a_long_path_is_bound_and_reached() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("long".repeat(50));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("a.sock");
        assert!(
            UnixListener::bind(&path).is_err(),
            "the path is not too long"
        );
        let _listener = UnixListener::bind(ShortPath::of(&path).unwrap().path()).unwrap();
        assert!(path.exists());
        UnixStream::connect(ShortPath::of(&path).unwrap().path()).unwrap();
    }

    #[test]
    fn a_short_path_stays_and_a_long_one_without_a_folder_is_an_error() {
        let short = ShortPath::of(Path::new("/run/a.sock")).unwrap();
        assert_eq!(short.path(), Path::new("/run/a.sock"));
        let nowhere = format!("/nowhere/{}/a.sock", "long".repeat(50));
        assert!(ShortPath::of(Path::new(&nowhere)).is_err());
    }
}

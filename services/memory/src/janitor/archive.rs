//! Sessions as files: `NAMESPACE/SESSION.jsonl`, in the format of [`crate::archive`].
//!
//! Whoever writes in a namespace's folder has the lock there, until the session is deleted: a file
//! is never replaced by an earlier state of its session.

use crate::apart::{listed, listed_blob};
use crate::archive::{Header, Lines};
use crate::port::{IdleSession, Store, StoreError};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// More bytes than the last line of a file has.
const TAIL: u64 = 256;
/// Sessions of one name in an archive, as come of deleting a session and beginning anew.
const MOST_OF_A_NAME: u32 = 10_000;

/// A folder that journals are written to before their sessions are deleted.
#[derive(Debug, Clone)]
pub struct Archive {
    folder: PathBuf,
}

/// Why a session is not in the archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// A file or folder cannot be written.
    #[error("cannot write {path:?}")]
    Io {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The journal cannot be read.
    #[error("its journal cannot be read")]
    Store(#[from] StoreError),
    /// The store gives no events where there should be some.
    #[error("its journal ends at event {found}, before event {last}")]
    Short {
        /// The last event that was read.
        found: u64,
        /// What should have been the last.
        last: u64,
    },
}

/// A file that is on the disk. Keeps others from writing in its folder while it lives.
#[derive(Debug)]
pub(crate) struct Written {
    path: PathBuf,
    _lock: File,
}

impl Written {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Archive {
    /// An archive in a folder, which is made if there is none.
    ///
    /// # Errors
    /// It cannot be made, or nothing can be written there.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, ArchiveError> {
        let folder = folder.into();
        make_folder(&folder)?;
        // Known at the start rather than when the first session is due.
        let probe = folder.join(".lock");
        lock_file(&probe).map_err(at(&probe))?;
        Ok(Self { folder })
    }

    /// Writes the journal of a session as it was found. `None` if it has changed since, or is gone,
    /// or somebody else writes in its namespace.
    pub(crate) async fn write(
        &self,
        store: &Arc<dyn Store>,
        session: &IdleSession,
    ) -> Result<Option<Written>, ArchiveError> {
        let folder = self.folder.join(session.key.namespace());
        let Some(mut partial) = blocking(move || Partial::begin(folder)).await? else {
            return Ok(None);
        };
        let last = session.last_seq;
        let (mut lines, mut cursor) = (Lines::default(), 0);
        while cursor < last {
            let page = match store.transcript(&session.key, cursor).await {
                Err(StoreError::Terminal(_) | StoreError::NotFound) => return Ok(None),
                page => page?,
            };
            if page.last_seq != last {
                return Ok(None);
            }
            if page.events.is_empty() {
                return Err(ArchiveError::Short {
                    found: cursor,
                    last,
                });
            }
            let mut text = String::new();
            if cursor == 0 {
                let (namespace, id) = (session.key.namespace(), session.key.session());
                text = lines.header(&Header::new(namespace, id, page.time_to_live_ms));
            }
            for event in &page.events {
                cursor += 1;
                for digest in listed(&event.event) {
                    let part = match listed_blob(&**store, &session.key, digest).await {
                        Err(StoreError::Terminal(_)) => return Ok(None),
                        part => part?,
                    };
                    text.push_str(&lines.part(&part));
                    partial = partial.append(std::mem::take(&mut text)).await?;
                }
                text.push_str(&lines.event(cursor, event));
            }
            partial = partial.append(text).await?;
        }
        partial = partial.append(lines.end(last)).await?;
        let name = session.key.session().to_owned();
        blocking(move || partial.finish(&name)).await.map(Some)
    }
}

/// A file that is not whole yet. One that a killed process left is written anew.
struct Partial {
    folder: PathBuf,
    path: PathBuf,
    file: File,
    lock: File,
}

impl Partial {
    /// `None` if somebody else writes in this folder.
    fn begin(folder: PathBuf) -> Result<Option<Self>, ArchiveError> {
        make_folder(&folder)?;
        let path = folder.join(".lock");
        let lock = lock_file(&path).map_err(at(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(at(&path)(error)),
        }
        let path = folder.join(".partial");
        let mut options = private();
        let file = options.create(true).truncate(true).open(&path);
        let file = file.map_err(at(&path))?;
        Ok(Some(Self {
            folder,
            path,
            file,
            lock,
        }))
    }

    async fn append(mut self, text: String) -> Result<Self, ArchiveError> {
        let append = move || match self.file.write_all(text.as_bytes()) {
            Ok(()) => Ok(self),
            Err(error) => Err(at(&self.path)(error)),
        };
        blocking(append).await
    }

    /// Gives the file its name once it is on the disk.
    fn finish(mut self, session: &str) -> Result<Written, ArchiveError> {
        self.file.sync_all().map_err(at(&self.path))?;
        let path = self.place(session)?;
        fs::rename(&self.path, &path).map_err(at(&path))?;
        sync_folder(&self.folder)?;
        Ok(Written {
            path,
            _lock: self.lock,
        })
    }

    /// The first name that is free, or whose file has the beginning of this journal: that was written
    /// before, and the session was not deleted then, or came back. Others were sessions of the same
    /// name.
    fn place(&mut self, session: &str) -> Result<PathBuf, ArchiveError> {
        for number in 1..MOST_OF_A_NAME {
            let path = self.folder.join(match number {
                1 => format!("{session}.jsonl"),
                number => format!("{session}.{number}.jsonl"),
            });
            match File::open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(path),
                Err(error) => return Err(at(&path)(error)),
                Ok(mut before) => {
                    let length = without_end(&mut before).map_err(at(&path))?;
                    self.file.rewind().map_err(at(&self.path))?;
                    if begins_with(&self.file, &before, length).map_err(at(&path))? {
                        return Ok(path);
                    }
                }
            }
        }
        let error = io::Error::other("there are too many sessions of this name");
        Err(at(&self.folder.join(session))(error))
    }
}

/// How long a file is without its last line, which says where the journal ends. The file is then at
/// its beginning.
fn without_end(file: &mut File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let start = length.saturating_sub(TAIL);
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(start))?;
    file.read_to_end(&mut tail)?;
    file.rewind()?;
    tail.pop();
    let end = tail.iter().rposition(|&byte| byte == b'\n');
    Ok(end.map_or(length, |end| start + end as u64 + 1))
}

/// Whether a file begins with so many bytes of another.
fn begins_with(whole: &File, beginning: &File, length: u64) -> io::Result<bool> {
    if length > whole.metadata()?.len() {
        return Ok(false);
    }
    let (whole, beginning) = (
        BufReader::new(whole),
        BufReader::new(beginning.take(length)),
    );
    let mut whole = whole.bytes();
    for byte in beginning.bytes() {
        let byte = byte?;
        if whole.next().transpose()? != Some(byte) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Journals are for their user alone.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn lock_file(path: &Path) -> io::Result<File> {
    private().create(true).open(path)
}

/// Makes a folder that outlives a crash.
fn make_folder(folder: &Path) -> Result<(), ArchiveError> {
    if folder.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(folder).map_err(at(folder))?;
    match folder.parent() {
        Some(parent) if parent != Path::new("") => sync_folder(parent),
        _ => Ok(()),
    }
}

fn sync_folder(folder: &Path) -> Result<(), ArchiveError> {
    let sync = File::open(folder).and_then(|folder| folder.sync_all());
    sync.map_err(at(folder))
}

fn at(path: &Path) -> impl Fn(io::Error) -> ArchiveError + '_ {
    move |source| ArchiveError::Io {
        path: path.to_owned(),
        source,
    }
}

/// Work on files, on a thread of its own.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ArchiveError> + Send + 'static,
) -> Result<T, ArchiveError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(StoreError::unavailable)?
}

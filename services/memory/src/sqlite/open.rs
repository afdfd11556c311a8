//! Opening a store: checks before anything is changed, and clear errors.

use super::create::forget_tombstones;
use super::document;
use super::holder::Lock;
use super::idle;
use super::log;
use super::mark;
use super::memory;
use super::options::SqliteOptions;
use super::readers::Target;
use super::removal;
use super::schema::{APPLICATION_ID, FORMAT, OPEN, create, set_up_writer};
use super::waiting;
use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;
use rusqlite::{Connection, ErrorCode, params};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The oldest SQLite without the WAL-reset race, by which a commit could be lost.
const OLDEST_SQLITE: i32 = 3_051_003;

/// Why a store cannot be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process holds it, or another place in this one.
    #[error("the store {path:?} is in use by another process")]
    Held {
        /// The store's file.
        path: PathBuf,
    },
    /// There is no such file, or nothing was made in it yet; only told when opening for reading.
    #[error("there is no store at {path:?}")]
    Missing {
        /// The store's file.
        path: PathBuf,
    },
    /// Something that is no file stands at the path.
    #[error("{path:?} is not a file")]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file, or the folder that it is in, cannot be written.
    #[error("{path:?} is read-only, and a store must be written to")]
    ReadOnly {
        /// The file or the folder.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("{path:?} is not a store of cairn")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The store was written by a newer version of this program.
    #[error("the store {path:?} has format {found}, and this program knows formats up to {known}")]
    Newer {
        /// The store's file.
        path: PathBuf,
        /// The file's format.
        found: i32,
        /// The newest known format.
        known: i32,
    },
    /// The file system cannot keep a write-ahead log, as some network file systems cannot.
    #[error("the file system of {path:?} does not admit a write-ahead log (journal mode {mode:?})")]
    NoLog {
        /// The store's file.
        path: PathBuf,
        /// The journal mode that SQLite fell back to.
        mode: String,
    },
    /// The SQLite in this program is too old.
    #[error("SQLite {found} can lose commits: at least 3.51.3 is needed")]
    OldSqlite {
        /// Its version.
        found: &'static str,
    },
    /// The store was not closed, and its write-ahead log is not there any more.
    #[error(
        "the store {path:?} was not closed, and its write-ahead log {log:?} is missing, empty or has no \
         header: what was acknowledged last may be lost; put the log back, or accept the loss once with \
         cairn doctor --accept-loss"
    )]
    LogMissing {
        /// The store's file.
        path: PathBuf,
        /// Where its log was.
        log: PathBuf,
    },
    /// The write-ahead log is damaged, and what was committed after that place would be lost.
    #[error(
        "the write-ahead log {log:?} is damaged at byte {at}, and what was acknowledged after that is \
         lost without it; put an undamaged one in its place, or accept the loss once with cairn doctor \
         --accept-loss"
    )]
    LogDamaged {
        /// The log.
        log: PathBuf,
        /// The first byte of what SQLite does not take up.
        at: u64,
    },
    /// There is a write-ahead log, and no store that it belongs to.
    #[error(
        "the store {path:?} is missing or empty, and its write-ahead log {log:?} is there; put the file \
         back, or remove the log to begin with an empty store"
    )]
    FileMissing {
        /// The store's file.
        path: PathBuf,
        /// Its log.
        log: PathBuf,
    },
    /// The operating system refuses.
    #[error("cannot open {path:?}")]
    Io {
        /// What could not be opened.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// SQLite refuses.
    #[error("cannot open the database {path:?}")]
    Sqlite {
        /// The store's file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// The writer's thread cannot be started.
    #[error("cannot start a thread")]
    Thread {
        /// Why.
        source: io::Error,
    },
}

/// A file that is open for writing by this process alone.
pub(super) struct Opened {
    pub(super) conn: Connection,
    pub(super) lock: Option<Lock>,
    pub(super) path: PathBuf,
    /// Names this opening.
    pub(super) holder: Vec<u8>,
}

/// What comes of opening a file as its holder.
pub(super) enum Opening {
    Whole(Box<Opened>),
    Full(Full),
}

/// A file whose disk has no room for what every opening writes. It can be read.
pub(super) struct Full {
    /// Nobody else writes the file meanwhile: a file without a log could not be read then.
    pub(super) lock: Lock,
    pub(super) target: Target,
}

/// Opens a file, and makes it if there is none.
pub(super) fn open_file(
    path: &Path,
    now: i64,
    options: &SqliteOptions,
) -> Result<Opening, OpenError> {
    check_sqlite()?;
    let path = prepare(path)?;
    let lock = Lock::take(&path)?;
    match open_locked(&path, now, options) {
        Ok((conn, holder)) => Ok(Opening::Whole(Box::new(Opened {
            conn,
            lock: Some(lock),
            path,
            holder,
        }))),
        Err(error) => {
            if is_full(&error)
                && let Ok(target) = readable(&path)
            {
                tracing::error!(%error, path = %path.display(), "{FULL}");
                return Ok(Opening::Full(Full { lock, target }));
            }
            lock.undo();
            Err(error)
        }
    }
}

/// Why a store that was opened on a full disk takes no writes.
pub(super) const FULL: &str = "the store is open for reading only, because its disk was full when it \
     was opened: make room there and restart this process";

/// Whether there was no room on the disk, for the log or for what stands beside it.
fn is_full(error: &OpenError) -> bool {
    match error {
        OpenError::Sqlite { source, .. } => {
            source.sqlite_error_code() == Some(ErrorCode::DiskFull)
                || source.sqlite_extended_error_code() == Some(SQLITE_IOERR_SHMSIZE)
        }
        OpenError::Io { source, .. } => matches!(
            source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        ),
        _ => false,
    }
}

/// How a file that this process has locked can be read without room on its disk. SQLite leaves an empty log
/// where it could not begin one.
pub(super) fn readable(path: &Path) -> Result<Target, OpenError> {
    let log = fs::metadata(log::path_of(path));
    let target = match log.is_ok_and(|log| log.len() > 0) {
        true => Target::File(path.into()),
        false => Target::Frozen(path.into()),
    };
    try_target(&target, path).map(|()| target)
}

fn open_locked(
    path: &Path,
    now: i64,
    options: &SqliteOptions,
) -> Result<(Connection, Vec<u8>), OpenError> {
    let sql = |source| sql_error(path, source);
    log::check_file(path)?;
    let log = log::examine(path)?;
    // Before SQLite looks at the log: it removes a log that it has taken up.
    if !options.accept_loss {
        log::check(path, log, false)?;
    }
    make_private(path)?;
    let conn = Connection::open(path).map_err(sql)?;
    if conn.is_readonly("main").map_err(sql)? {
        return Err(OpenError::ReadOnly { path: path.into() });
    }
    let state = check_format(&conn, path)?;
    if state == State::Open {
        // Also where the disk is full.
        mark::keep_log(&conn).map_err(sql)?;
    }
    if !options.accept_loss {
        log::check(path, log, state == State::Open)?;
    }
    let mode = set_up_writer(&conn).map_err(sql)?;
    if mode != "wal" {
        let path = path.into();
        return Err(OpenError::NoLog { path, mode });
    }
    limit_pages(&conn, options.max_pages).map_err(sql)?;
    if state == State::Fresh {
        create(&conn).map_err(sql)?;
    }
    idle::prepare(&conn).map_err(sql)?;
    removal::prepare(&conn).map_err(sql)?;
    waiting::prepare(&conn).map_err(sql)?;
    memory::prepare(&conn).map_err(sql)?;
    document::prepare(&conn).map_err(sql)?;
    let holder = begin(&conn, now).map_err(sql)?;
    mark::set(&conn).map_err(sql)?;
    Ok((conn, holder))
}

/// Opens an empty store in memory.
pub(super) fn open_memory(now: i64, max_pages: Option<u32>) -> Result<Opened, OpenError> {
    check_sqlite()?;
    let path = PathBuf::from(":memory:");
    let open = || {
        let conn = Connection::open_in_memory()?;
        set_up_writer(&conn)?;
        limit_pages(&conn, max_pages)?;
        create(&conn)?;
        idle::prepare(&conn)?;
        removal::prepare(&conn)?;
        waiting::prepare(&conn)?;
        let holder = begin(&conn, now)?;
        Ok((conn, holder))
    };
    let (conn, holder) = open().map_err(|source| sql_error(&path, source))?;
    Ok(Opened {
        conn,
        lock: None,
        path,
        holder,
    })
}

/// Finds out how a file can be read without being its holder.
pub(super) fn open_target(path: &Path) -> Result<Target, OpenError> {
    check_sqlite()?;
    // The log lies beside the file itself.
    let resolved = fs::canonicalize(path);
    let path = resolved.as_deref().unwrap_or(path);
    log::check_file(path)?;
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            return Err(OpenError::NotAFile { path: path.into() });
        }
        Ok(_) => {}
        Err(source) if source.kind() == io::ErrorKind::NotFound => {
            return Err(OpenError::Missing { path: path.into() });
        }
        Err(source) => {
            let path = path.into();
            return Err(OpenError::Io { path, source });
        }
    }
    let target = Target::File(path.into());
    match try_target(&target, path) {
        // A store that nobody holds has no log; to make one, the folder must be written.
        Err(OpenError::Sqlite { source, .. })
            if cannot_open(&source) && !log::path_of(path).exists() =>
        {
            let target = Target::Frozen(path.into());
            try_target(&target, path).map(|()| target)
        }
        outcome => outcome.map(|()| target),
    }
}

fn try_target(target: &Target, path: &Path) -> Result<(), OpenError> {
    let log = log::examine(path)?;
    let conn = target.open().map_err(|source| sql_error(path, source))?;
    match check_format(&conn, path)? {
        // Whoever began to make it ended before it was one; the next holder makes it.
        State::Fresh => Err(OpenError::Missing { path: path.into() }),
        state => log::check(path, log, state == State::Open),
    }
}

fn cannot_open(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly)
    )
}

fn check_sqlite() -> Result<(), OpenError> {
    if rusqlite::version_number() < OLDEST_SQLITE {
        let found = rusqlite::version();
        return Err(OpenError::OldSqlite { found });
    }
    Ok(())
}

/// The path with links resolved, so that two names of a store have one lock; its folder exists.
fn prepare(path: &Path) -> Result<PathBuf, OpenError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| OpenError::Io { path, source }
    };
    let path = match fs::canonicalize(path) {
        Ok(path) => path,
        Err(_) => {
            let folder = match path.parent() {
                Some(folder) if folder != Path::new("") => folder,
                _ => Path::new("."),
            };
            fs::create_dir_all(folder).map_err(io(folder))?;
            let name = path
                .file_name()
                .ok_or_else(|| OpenError::NotAFile { path: path.into() })?;
            fs::canonicalize(folder).map_err(io(folder))?.join(name)
        }
    };
    if fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(OpenError::NotAFile { path });
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    for part in [folder, &path] {
        if fs::metadata(part).is_ok_and(|metadata| metadata.permissions().readonly()) {
            return Err(OpenError::ReadOnly { path: part.into() });
        }
    }
    Ok(path)
}

/// Makes the file, for its user alone. SQLite gives the same rights to the files beside it.
fn make_private(path: &Path) -> Result<(), OpenError> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(OpenError::Io {
            path: path.into(),
            source,
        }),
    }
}

/// How a store was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The database is empty.
    Fresh,
    /// The store is open, or was not closed.
    Open,
    Closed,
}

/// How the store was left, if no other program made it and its format is known.
fn check_format(conn: &Connection, path: &Path) -> Result<State, OpenError> {
    let number = |pragma: &str| conn.query_row(pragma, [], |row| row.get::<_, i64>(0));
    let read = || {
        let tables = number("SELECT count(*) FROM sqlite_schema")?;
        let application = number("PRAGMA application_id")?;
        Ok((tables, application, number("PRAGMA user_version")?))
    };
    let (tables, application, format) = read().map_err(|source| sql_error(path, source))?;
    if tables == 0 && application == 0 && format == 0 {
        return Ok(State::Fresh);
    }
    if application != i64::from(APPLICATION_ID) {
        return Err(OpenError::Foreign { path: path.into() });
    }
    let is_open = format & i64::from(OPEN) != 0;
    let format = format & !i64::from(OPEN);
    if format > i64::from(FORMAT) {
        return Err(OpenError::Newer {
            path: path.into(),
            found: i32::try_from(format).unwrap_or(i32::MAX),
            known: FORMAT,
        });
    }
    Ok(if is_open { State::Open } else { State::Closed })
}

fn limit_pages(conn: &Connection, max_pages: Option<u32>) -> rusqlite::Result<()> {
    let Some(pages) = max_pages else {
        return Ok(());
    };
    conn.execute_batch(&format!("PRAGMA max_page_count = {pages}"))
}

/// What every opening begins with: leases of owners that died with an earlier holder end, because
/// the lock proves that holder dead. Leases of owners in other processes run on.
fn begin(conn: &Connection, now: i64) -> rusqlite::Result<Vec<u8>> {
    let tx = conn.unchecked_transaction()?;
    tx.execute(
        "UPDATE session SET owner = NULL, holder = NULL, lease_until_ms = 0, due_ms = ?1, \
         holder_dead = 1 WHERE owner IS NOT NULL AND holder IS NOT NULL",
        params![now],
    )?;
    forget_tombstones(&tx, now)?;
    let holder = tx.query_row("SELECT randomblob(16)", [], |row| row.get(0))?;
    mark::write(&tx)?;
    tx.commit()?;
    Ok(holder)
}

fn sql_error(path: &Path, source: rusqlite::Error) -> OpenError {
    let path = path.to_owned();
    match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenError::Foreign { path },
        _ => OpenError::Sqlite { path, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi::{SQLITE_BUSY, SQLITE_FULL, SQLITE_IOERR_READ};

    #[test]
    fn a_full_disk_is_told_from_other_failures() {
        let sqlite = |code| OpenError::Sqlite {
            path: PathBuf::new(),
            source: rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None),
        };
        let io = |kind: io::ErrorKind| OpenError::Io {
            path: PathBuf::new(),
            source: kind.into(),
        };
        for (error, want) in [
            (sqlite(SQLITE_FULL), true),
            (sqlite(SQLITE_IOERR_SHMSIZE), true),
            (sqlite(SQLITE_IOERR_READ), false),
            (sqlite(SQLITE_BUSY), false),
            (io(io::ErrorKind::StorageFull), true),
            (io(io::ErrorKind::QuotaExceeded), true),
            (io(io::ErrorKind::PermissionDenied), false),
        ] {
            assert_eq!(is_full(&error), want, "{error:?}");
        }
    }
}

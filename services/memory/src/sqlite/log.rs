//! The write-ahead log beside a store's file, as it is before SQLite opens the file.
//!
//! SQLite takes up the log as far as its checksums are right, and reports nothing of the rest. A kill in
//! the middle of a commit needs that, but it hides damage: what was committed after the first bad byte
//! is lost in silence. Each commit is synced before the next one begins, so only the last one can be
//! incomplete. A bad frame with a later commit behind it is damage, and so is a log that ends before what
//! was noted of it (see [`Extent`]).
//!
//! The format is <https://sqlite.org/fileformat.html#the_write_ahead_log>.

use super::extent::Extent;
use super::open::OpenError;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Bytes of the log's header.
const HEADER: usize = 32;

/// Bytes in front of each page.
const FRAME: usize = 24;

/// What a log begins with, but for the lowest bit.
const MAGIC: u32 = 0x377f_0682;

/// What is there of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Log {
    /// No file, an empty one, or one whose header SQLite does not accept.
    Missing,
    /// SQLite takes it up as far as that.
    Usable(Extent),
    /// What was committed from this byte on would be lost.
    Damaged(u64),
}

/// Where the log of a store lies.
pub(super) fn path_of(store: &Path) -> PathBuf {
    let mut path = store.as_os_str().to_owned();
    path.push("-wal");
    path.into()
}

/// Refuses to make a store where only the log of one is left.
pub(super) fn check_file(store: &Path) -> Result<(), OpenError> {
    let bytes = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
    let (path, log) = (store.to_owned(), path_of(store));
    let is_other = fs::metadata(store).is_ok_and(|metadata| !metadata.is_file());
    if is_other || bytes(store) > 0 || bytes(&log) == 0 {
        return Ok(());
    }
    Err(OpenError::FileMissing { path, log })
}

/// Refuses a store that would come up with less than was acknowledged, by what there was of its log
/// before SQLite looked at the store, and by the [mark](super::mark).
pub(super) fn check(store: &Path, log: Log, is_open: bool) -> Result<(), OpenError> {
    let is_lost = |log| match log {
        Log::Missing => is_open,
        Log::Usable(_) => false,
        Log::Damaged(_) => true,
    };
    // To a reader it may only look so, while another process opens or closes the store.
    if !is_lost(log) || !is_lost(examine(store)?) {
        return Ok(());
    }
    let (path, beside) = (store.to_owned(), path_of(store));
    Err(match log {
        Log::Damaged(at) => OpenError::LogDamaged { log: beside, at },
        _ => OpenError::LogMissing { path, log: beside },
    })
}

/// Reads the log. Takes as long as a read of the file.
pub(super) fn examine(store: &Path) -> Result<Log, OpenError> {
    // While another process writes the store, the log is never behind what was noted before it is read.
    let noted = Extent::noted(store);
    let log = read(&path_of(store)).map_err(|source| OpenError::Io {
        path: path_of(store),
        source,
    })?;
    Ok(match (log, noted) {
        (Log::Usable(there), Some(noted))
            if there.salts == noted.salts && there.end < noted.end =>
        {
            Log::Damaged(there.end)
        }
        (log, _) => log,
    })
}

fn read(log: &Path) -> io::Result<Log> {
    let file = match File::open(log) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Log::Missing),
        Err(error) => return Err(error),
    };
    let mut file = BufReader::with_capacity(1 << 16, file);
    let mut header = [0; HEADER];
    if !fill(&mut file, &mut header)? {
        return Ok(Log::Missing);
    }
    let Some(mut written) = Written::begun(&header) else {
        return Ok(Log::Missing);
    };
    if let Some(place) = written.go_on(&mut file)? {
        file.seek(SeekFrom::Start(place))?;
        if !is_last_commit(&mut file, written.salts, written.page_bytes)? {
            return Ok(Log::Damaged(place));
        }
    }
    Ok(Log::Usable(written.extent()))
}

/// A log up to its last commit, with what it takes to read on from there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    salts: (u32, u32),
    page_bytes: usize,
    sums: Sums,
    end: u64,
}

impl Written {
    /// A log with this header; nothing if SQLite does not accept it.
    fn begun(header: &[u8; HEADER]) -> Option<Self> {
        let mut sums = Sums {
            is_big: number(header, 0) & 1 == 1,
            pair: (0, 0),
        };
        sums.add(&header[..24]);
        let is_accepted = number(header, 0) & !1 == MAGIC && sums.pair == pair(header, 24);
        is_accepted.then(|| Self {
            salts: pair(header, 16),
            page_bytes: usize::try_from(number(header, 8)).unwrap_or_default(),
            sums,
            end: HEADER as u64,
        })
    }

    /// Reads what was committed since that was known; from the beginning if SQLite has begun the log anew.
    pub(super) fn follow(log: &File, known: Option<Self>) -> io::Result<Option<Self>> {
        let mut log = BufReader::with_capacity(1 << 14, log);
        log.rewind()?;
        let mut header = [0; HEADER];
        if !fill(&mut log, &mut header)? {
            return Ok(None);
        }
        let salts = pair(&header, 16);
        let same = known.filter(|known| known.salts == salts);
        let Some(mut written) = same.or_else(|| Self::begun(&header)) else {
            return Ok(None);
        };
        written.go_on(&mut log)?;
        Ok(Some(written))
    }

    pub(super) fn extent(&self) -> Extent {
        Extent {
            salts: self.salts,
            end: self.end,
        }
    }

    /// Reads on to the last commit. Answers where a bad frame lies, if one follows.
    fn go_on(&mut self, log: &mut (impl Read + Seek)) -> io::Result<Option<u64>> {
        let (mut sums, mut place) = (self.sums, self.end);
        log.seek(SeekFrom::Start(place))?;
        let (mut frame, mut page) = ([0; FRAME], vec![0; self.page_bytes]);
        while fill(log, &mut frame)? && fill(log, &mut page)? {
            sums.add(&frame[..8]);
            sums.add(&page);
            if pair(&frame, 8) != self.salts || pair(&frame, 16) != sums.pair {
                return Ok(Some(place));
            }
            place += (FRAME + page.len()) as u64;
            // The last frame of a commit says how many pages the database has.
            if number(&frame, 4) != 0 {
                (self.end, self.sums) = (place, sums);
            }
        }
        Ok(None)
    }
}

/// Whether no later commit of the same log follows the one that the next frame belongs to. Frames with
/// other salts are what is left of an earlier log.
fn is_last_commit(
    file: &mut BufReader<File>,
    salts: (u32, u32),
    page_bytes: usize,
) -> io::Result<bool> {
    let (mut frame, mut is_first, mut is_over) = ([0; FRAME], true, false);
    while fill(file, &mut frame)? {
        if is_first || pair(&frame, 8) == salts {
            if is_over {
                return Ok(false);
            }
            // The last frame of a commit says how many pages the database has.
            is_over = number(&frame, 4) != 0;
        }
        is_first = false;
        file.seek_relative(i64::try_from(page_bytes).unwrap_or(i64::MAX))?;
    }
    Ok(true)
}

/// The checksum of the log up to a frame.
#[derive(Debug, Clone, Copy)]
struct Sums {
    is_big: bool,
    pair: (u32, u32),
}

impl Sums {
    fn add(&mut self, bytes: &[u8]) {
        let (words, _) = bytes.as_chunks::<8>();
        for &[a, b, c, d, e, f, g, h] in words {
            let of = if self.is_big {
                u32::from_be_bytes
            } else {
                u32::from_le_bytes
            };
            let (one, other) = self.pair;
            let one = one.wrapping_add(of([a, b, c, d])).wrapping_add(other);
            let other = other.wrapping_add(of([e, f, g, h])).wrapping_add(one);
            self.pair = (one, other);
        }
    }
}

/// Reads as many bytes as there is room for. Answers whether there were so many.
fn fill(file: &mut impl Read, room: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(room) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    let [a, b, c, d] = [0, 1, 2, 3].map(|place| bytes[at + place]);
    u32::from_be_bytes([a, b, c, d])
}

fn pair(bytes: &[u8], at: usize) -> (u32, u32) {
    (number(bytes, at), number(bytes, at + 4))
}

//! What all processes of a confined program use up together. Limits of the system hold for one process, and
//! some of them do not hold for the superuser.

use super::bounds::Bounds;
use cairn_rpc::{BootClock, Monotonic as _};
use rustix::fs::statvfs;
use rustix::process::getpid;
use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Every so many looks, all processes are counted, whatever the number of all tasks of the system is.
const FULL: u32 = 10;
/// So many looks pass between two looks at files, if these take no longer than [`SHORT`]: what others delete
/// meanwhile hides what a program writes.
const FILES: u32 = 50;
/// See [`FILES`].
const SHORT: Duration = Duration::from_millis(50);
/// Of the limit: growth of a file system after which files are looked at again.
const PART: u64 = 8;
/// Most processes whose open files are looked at.
const MOST_OPEN: usize = 4096;
/// Bytes of a block as files count them.
const BLOCK: u64 = 512;

/// Follows what the processes below this one use up.
pub(crate) struct Watch {
    bounds: Bounds,
    temporary: PathBuf,
    /// Seconds since 1970.
    started: i64,
    tasks: u64,
    looks: u32,
    /// The last look at files was a short one.
    is_short: bool,
    /// The free bytes of each file system at the start, and how much less there may be before files are looked
    /// at.
    disks: Vec<Disk>,
    page: u64,
}

struct Disk {
    folder: PathBuf,
    free: u64,
    allowed: u64,
}

impl Watch {
    /// From now on.
    pub(crate) fn begin(bounds: Bounds, temporary: PathBuf) -> Self {
        // By the clock of files. It may be a moment behind.
        let started = temporary.metadata().map_or(0, |made| made.ctime() - 1);
        let folders = bounds.write.iter().chain([&temporary]);
        let disk = |folder: &PathBuf| Disk {
            folder: folder.clone(),
            free: free(folder).unwrap_or_default(),
            allowed: bounds.caps.bytes,
        };
        Self {
            disks: folders.map(disk).collect(),
            started,
            tasks: tasks().unwrap_or_default(),
            looks: 0,
            is_short: true,
            page: u64::try_from(rustix::param::page_size()).unwrap_or(4096),
            bounds,
            temporary,
        }
    }

    /// Whether the system has many more tasks than when they were last counted.
    pub(crate) fn is_growing(&self) -> bool {
        let more = tasks().map_or(u64::MAX, |now| now.saturating_sub(self.tasks));
        more > u64::from(self.bounds.caps.processes) / 2
    }

    /// Why all of them are to be killed, if they are: in words for the model.
    pub(crate) fn look(&mut self) -> Option<String> {
        let most = u64::from(self.bounds.caps.processes);
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(FULL) || self.is_growing() {
            self.tasks = tasks().unwrap_or_default();
            // There may be so many that all of them are never counted.
            let room = usize::try_from(most).unwrap_or(usize::MAX);
            let below = descendants(room);
            if below.len() > room {
                return Some(format!("more than {most} processes ran at one time"));
            }
            if self.memory(&below) > self.bounds.caps.memory {
                let most = self.bounds.caps.memory >> 20;
                return Some(format!("the processes took more than {most} MiB of memory"));
            }
        }
        let is_less = |disk: &Disk| {
            let now = free(&disk.folder).unwrap_or(disk.free);
            disk.free.saturating_sub(now) > disk.allowed
        };
        let is_due = self.is_short && self.looks.is_multiple_of(FILES);
        if is_due || self.disks.iter().any(is_less) {
            let began = BootClock.now();
            let written = self.written();
            self.is_short = BootClock.now().saturating_sub(began) <= SHORT;
            if written > self.bounds.caps.bytes {
                let most = self.bounds.caps.bytes >> 20;
                return Some(format!("more than {most} MiB were written"));
            }
            // Others have written. Files take a while to look at.
            let part = if is_due {
                0
            } else {
                self.bounds.caps.bytes / PART
            };
            for disk in &mut self.disks {
                disk.allowed = disk.allowed.saturating_add(part);
            }
        }
        None
    }

    /// Bytes of memory that these processes share with no file.
    fn memory(&self, processes: &[i32]) -> u64 {
        let pages = processes.iter().map(|id| memory(*id).unwrap_or_default());
        pages.sum::<u64>().saturating_mul(self.page)
    }

    /// The bytes of files that changed since the start, where the program may write, and of those that have no
    /// name any more.
    fn written(&self) -> u64 {
        let folders = self.bounds.write.iter().chain([&self.temporary]);
        let named: u64 = folders.map(|folder| changed(folder, self.started)).sum();
        let open = descendants(MOST_OPEN).into_iter().flat_map(|id| {
            let entries = fs::read_dir(format!("/proc/{id}/fd"));
            entries.into_iter().flatten().flatten()
        });
        // The same file may be open many times.
        let nameless: BTreeMap<(u64, u64), u64> = open
            .filter_map(|entry| fs::metadata(entry.path()).ok())
            .filter(|file| file.is_file() && file.nlink() == 0)
            .map(|file| ((file.dev(), file.ino()), bytes(&file)))
            .collect();
        named + nameless.values().sum::<u64>()
    }
}

fn bytes(file: &Metadata) -> u64 {
    file.blocks().saturating_mul(BLOCK)
}

fn changed(folder: &Path, since: i64) -> u64 {
    let mut found: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            // Links are not followed.
            let Ok(file) = entry.metadata() else { continue };
            if file.is_dir() {
                folders.push(entry.path());
            } else if file.ctime() >= since {
                found.insert((file.dev(), file.ino()), bytes(&file));
            }
        }
    }
    found.values().sum()
}

fn free(folder: &Path) -> Option<u64> {
    let disk = statvfs(folder).ok()?;
    Some(disk.f_bfree.saturating_mul(disk.f_frsize))
}

/// The tasks of the whole system.
pub(super) fn tasks() -> Option<u64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    let (_, all) = text.split_whitespace().nth(3)?.split_once('/')?;
    all.parse().ok()
}

/// The processes below this one; with more than `most` of them, at least one more than that.
pub(crate) fn descendants(most: usize) -> Vec<i32> {
    let own = getpid().as_raw_nonzero().get();
    let by_parents = |id| children(id).unwrap_or_default();
    if children(own).is_some() {
        return below(own, most, by_parents);
    }
    // This system does not list the children of a process.
    let mut all: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for (id, parent) in processes().unwrap_or_default() {
        all.entry(parent).or_default().push(id);
    }
    below(own, most, |id| all.remove(&id).unwrap_or_default())
}

fn below(own: i32, most: usize, mut children: impl FnMut(i32) -> Vec<i32>) -> Vec<i32> {
    let mut below = Vec::new();
    let mut left = vec![own];
    while let Some(id) = left.pop().filter(|_| below.len() <= most) {
        let of = children(id);
        below.extend(&of);
        left.extend(of);
    }
    below
}

/// The children of a process, by each of its threads.
fn children(id: i32) -> Option<Vec<i32>> {
    let mut found = Vec::new();
    for thread in fs::read_dir(format!("/proc/{id}/task")).ok()?.flatten() {
        let text = fs::read_to_string(thread.path().join("children")).ok()?;
        found.extend(text.split_whitespace().flat_map(str::parse::<i32>));
    }
    Some(found)
}

/// Each process with its parent.
fn processes() -> io::Result<Vec<(i32, i32)>> {
    let of = |entry: fs::DirEntry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read(entry.path().join("stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        // The name before it may hold anything.
        let (_, rest) = stat.rsplit_once(')')?;
        let parent = rest.split_whitespace().nth(1)?.parse().ok()?;
        Some((id, parent))
    };
    Ok(fs::read_dir("/proc")?.flatten().filter_map(of).collect())
}

/// Pages of memory that a process has for itself.
fn memory(id: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{id}/statm")).ok()?;
    let mut pages = text.split_whitespace().skip(1);
    let all: u64 = pages.next()?.parse().ok()?;
    let shared: u64 = pages.next()?.parse().ok()?;
    Some(all.saturating_sub(shared))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_changed_count_and_others_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("a/b");
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join("new"), vec![1; 100_000]).unwrap();
        fs::hard_link(below.join("new"), below.join("again")).unwrap();
        let now = fs::metadata(below.join("new")).unwrap().ctime();
        let found = changed(folder.path(), now);
        assert!((100_000..200_000).contains(&found), "{found}");
        assert_eq!(changed(folder.path(), now + 1), 0);
    }

    #[test]
    fn a_child_is_found_below_this_process() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let id = i32::try_from(child.id()).unwrap();
        let found = descendants(usize::MAX);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&id), "{id}: {found:?}");
        assert!(tasks().unwrap() > 1);
    }
}

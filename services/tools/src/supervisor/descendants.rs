//! Everything below this process, also what has left its process group.

use rustix::process::{Pid, Signal, getpid, kill_process};
use std::time::Duration;
use tokio::time::sleep;

/// Between two looks for what is left.
const PAUSE: Duration = Duration::from_millis(10);
/// Most looks: something that starts processes faster than they are killed keeps none waiting.
const MOST_LOOKS: u32 = 500;

/// Makes this process the parent of each process below it whose own parent ends, so that it is found.
/// Only Linux has this.
pub(super) fn adopt() {
    #[cfg(target_os = "linux")]
    // Without it, what is in the process group is still found.
    let _ = rustix::process::set_child_subreaper(Some(getpid()));
}

/// Kills all of them. Those below a process become children of this one when it ends.
pub(super) async fn end() {
    for _ in 0..MOST_LOOKS {
        let children = children();
        if children.is_empty() {
            return;
        }
        for child in children {
            // It may have ended.
            let _ = kill_process(child, Signal::KILL);
        }
        sleep(PAUSE).await;
    }
}

/// The children that run; none where the system does not list processes as files.
fn children() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero().get();
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let child = |entry: std::fs::DirEntry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read(entry.path().join("stat")).ok()?;
        let parent = running_below(&String::from_utf8_lossy(&stat))?;
        Pid::from_raw(id).filter(|_| parent == own)
    };
    entries.flatten().filter_map(child).collect()
}

/// The parent in the text of a `stat` file; none if the process has ended and was not waited for yet.
fn running_below(stat: &str) -> Option<i32> {
    // The name before it may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_whitespace();
    let state = words.next()?;
    let parent = words.next()?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_found_behind_any_name() {
        assert_eq!(running_below("7 (sh) S 3 7 7 0"), Some(3));
        assert_eq!(running_below("7 (a) S 9 (b) R 3 7"), Some(3));
        assert_eq!(running_below("7 (sh) Z 3 7 7 0"), None);
        assert_eq!(running_below(""), None);
    }
}

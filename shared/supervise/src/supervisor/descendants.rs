//! Everything below this process, also what has left its process group.

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};
use std::time::Duration;
use tokio::time::sleep;

/// Between two looks for what is left.
const PAUSE: Duration = Duration::from_millis(10);
/// Most looks: something that starts processes faster than they are killed keeps none waiting.
const MOST_LOOKS: u32 = 500;

/// Makes this process the parent of each process below it whose own parent ends, so that it is found.
/// Only Linux has this.
pub(crate) fn adopt() {
    #[cfg(target_os = "linux")]
    // Without it, what is in the process group is still found.
    let _ = rustix::process::set_child_subreaper(Some(getpid()));
}

/// Kills all of them. Those below a process become children of this one when it ends.
pub(super) async fn end() {
    for _ in 0..MOST_LOOKS {
        let children = children(State::Runs);
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

/// Waits for children that have ended, which keep their numbers until then. The server is waited for elsewhere.
pub(crate) fn reap(server: Option<Pid>) {
    let ended = children(State::Ended).into_iter();
    for child in ended.filter(|child| Some(*child) != server) {
        let _ = waitpid(Some(child), WaitOptions::NOHANG);
    }
}

/// A process as its parent sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Runs,
    /// It was not waited for yet.
    Ended,
}

/// The children in a state; none where the system does not list processes as files.
fn children(state: State) -> Vec<Pid> {
    let own = getpid().as_raw_nonzero().get();
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let child = |entry: std::fs::DirEntry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read(entry.path().join("stat")).ok()?;
        let found = parsed(&String::from_utf8_lossy(&stat))?;
        Pid::from_raw(id).filter(|_| found == (own, state))
    };
    entries.flatten().filter_map(child).collect()
}

/// The parent and the state in the text of a `stat` file.
fn parsed(stat: &str) -> Option<(i32, State)> {
    // The name before it may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_whitespace();
    let state = match words.next()? {
        "Z" | "X" => State::Ended,
        _ => State::Runs,
    };
    Some((words.next()?.parse().ok()?, state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_found_behind_any_name() {
        assert_eq!(parsed("7 (sh) S 3 7 7 0"), Some((3, State::Runs)));
        assert_eq!(parsed("7 (a) S 9 (b) R 3 7"), Some((3, State::Runs)));
        assert_eq!(parsed("7 (sh) Z 3 7 7 0"), Some((3, State::Ended)));
        assert_eq!(parsed(""), None);
    }
}

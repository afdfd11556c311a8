//! Whether a process group has ended for certain.

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process_group};
use std::time::Duration;
use tokio::time::sleep;

/// Between two looks, and the most of them: a killed process ends at once, unless the system holds it.
const PAUSE: Duration = Duration::from_millis(10);
const MOST_LOOKS: u32 = 50;

/// Whether no process of a killed group runs any more. Waits a moment for the last ones.
pub(crate) async fn has_ended(group: Pid) -> bool {
    for _ in 0..MOST_LOOKS {
        if !may_run(group) {
            return true;
        }
        sleep(PAUSE).await;
    }
    false
}

fn may_run(group: Pid) -> bool {
    match test_kill_process_group(group) {
        Err(Errno::SRCH) => false,
        _ => !only_ended(group),
    }
}

/// Whether all that is left of the group are processes that ended and were not waited for. Where the system
/// does not list processes as files, that is not known.
fn only_ended(group: Pid) -> bool {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return false;
    };
    let states = entries.flatten().filter_map(|entry| {
        let id: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read(entry.path().join("stat")).ok()?;
        let (found, has_ended) = parsed(&String::from_utf8_lossy(&stat))?;
        (id > 0 && found == group.as_raw_nonzero().get()).then_some(has_ended)
    });
    let states: Vec<bool> = states.collect();
    // A group without a process that can be seen may have one that cannot.
    !states.is_empty() && states.into_iter().all(|has_ended| has_ended)
}

/// The group of a process, and whether it has ended, in the text of its `stat` file.
fn parsed(stat: &str) -> Option<(i32, bool)> {
    // The name before it may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_whitespace();
    let has_ended = matches!(words.next()?, "Z" | "X");
    let _parent = words.next()?;
    Some((words.next()?.parse().ok()?, has_ended))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_and_state_are_found_behind_any_name() {
        assert_eq!(parsed("7 (sh) S 3 9 7 0"), Some((9, false)));
        assert_eq!(parsed("7 (a) S 9 (b) Z 3 12 7"), Some((12, true)));
        assert_eq!(parsed(""), None);
    }

    #[tokio::test]
    async fn a_group_ends_with_its_last_process() {
        let mut command = tokio::process::Command::new("sleep");
        let mut child = command.arg("1000").process_group(0).spawn().unwrap();
        let group = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
        assert!(may_run(group));
        child.start_kill().unwrap();
        assert!(has_ended(group).await, "it ended, and was not waited for");
        child.wait().await.unwrap();
        assert!(!may_run(group));
    }
}

//! What this system can hold.

use cairn_supervise::{NO_LANDLOCK, Supervisor, landlock_version};
use std::fmt;

/// Memory of a machine that does not say how much it has.
const UNKNOWN_MEMORY: u64 = 8 << 30;

/// What this system can hold of a confined program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holds {
    /// The version of Landlock; 0 without one that confines.
    pub landlock: u8,
    /// The mode, the owner and the times of files elsewhere cannot be changed.
    pub mounts: bool,
    /// A network of a program's own can be made.
    pub loopback: bool,
}

impl Holds {
    /// Finds out, by processes that try.
    pub fn find(supervisor: &Supervisor) -> Self {
        let landlock = landlock_version();
        let can = |what| landlock > 0 && supervisor.can(what);
        Self {
            landlock,
            mounts: can("mounts"),
            loopback: can("loopback"),
        }
    }

    /// Whether programs are confined at all.
    pub fn is_confined(self) -> bool {
        self.landlock > 0
    }

    /// What is open although it should not be, each in a few words.
    pub fn gaps(self) -> Vec<&'static str> {
        let gaps = [
            (self.landlock < 1, NO_LANDLOCK),
            (
                (1..4).contains(&self.landlock),
                "ports of the network cannot be opened one by one: Landlock is older than version 4",
            ),
            (
                (1..6).contains(&self.landlock),
                "a program can signal other programs of its user: Landlock is older than version 6",
            ),
            (
                self.landlock > 0 && !self.mounts,
                "a program can change the mode, the owner and the times of its user's files anywhere: it gets no \
                 mounts of its own here",
            ),
            (
                self.landlock > 0 && !self.loopback,
                "network = \"loopback\" is refused: a program gets no network of its own here",
            ),
        ];
        let open = gaps.into_iter().filter(|(is_open, _)| *is_open);
        open.map(|(_, words)| words).collect()
    }
}

impl fmt::Display for Holds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let yes = |holds| if holds { "yes" } else { "no" };
        write!(
            f,
            "Landlock {}, own mounts: {}, own network: {}",
            self.landlock,
            yes(self.mounts),
            yes(self.loopback)
        )
    }
}

/// Most memory of a program's processes unless the settings say otherwise: three quarters of the machine's.
pub(super) fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(UNKNOWN_MEMORY, |kib| kib.saturating_mul(1024)) / 4 * 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gap_is_named_once() {
        let holds = |landlock, mounts, loopback| Holds {
            landlock,
            mounts,
            loopback,
        };
        assert!(holds(7, true, true).gaps().is_empty());
        assert_eq!(holds(0, false, false).gaps(), [NO_LANDLOCK]);
        assert_eq!(holds(3, false, false).gaps().len(), 4);
        assert_eq!(holds(5, true, true).gaps().len(), 1);
    }
}

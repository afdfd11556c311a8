//! What keeps a confined program within its bounds.
//!
//! The process that supervises the program encloses it, and starts it through a second stage that takes rights
//! away.
//!
//! | module | gives |
//! |---|---|
//! | `bounds` | what one program may do, as it goes to the supervising process |
//! | `enclosure` | the part of the supervising process |
//! | `stage` | the second stage, which becomes the program |
//! | `landlock`, `filter`, `namespaces` | files and signals; calls of the system; mounts and network |
//! | `watch` | what all processes of a program use up together |

mod bounds;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod enclosure;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod namespaces;
#[cfg(target_os = "linux")]
mod stage;
#[cfg(target_os = "linux")]
mod watch;

pub use bounds::{Bounds, Caps, Network};
#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{Enclosure, LOOK, become_program};
#[cfg(target_os = "linux")]
pub(crate) use enclosure::{Enclosure, LOOK};
#[cfg(target_os = "linux")]
pub(crate) use stage::{attempt, become_program};

/// Why no program is confined on this system.
pub const NO_LANDLOCK: &str =
    "this system cannot confine programs: that needs Linux 6.2 or later with Landlock";

/// The version of Landlock that the system has; 0 without one that confines.
#[cfg(target_os = "linux")]
pub fn landlock_version() -> u8 {
    use std::sync::OnceLock;
    static FOUND: OnceLock<u8> = OnceLock::new();
    *FOUND.get_or_init(landlock::version)
}

/// The version of Landlock that the system has; 0 without one that confines.
#[cfg(not(target_os = "linux"))]
pub fn landlock_version() -> u8 {
    0
}

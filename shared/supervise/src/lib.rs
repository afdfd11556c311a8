//! Programs as processes: what ends them in time, what they may do, what goes in and what comes out.
//!
//! A program is started below a process that supervises it, which is the running program once more. So `main` of
//! each program that uses a [`Supervisor`] calls [`supervise`] before anything else.
//!
//! | module | gives |
//! |---|---|
//! | `supervisor` | [`Supervisor`]: keeps a program's time limit when the process that started it is killed |
//! | `confine` | [`Bounds`] of a confined program, and what keeps it within them |
//! | `running` | [`Running`]: a program with its input and its output, and its end |
//! | `group` | whether a process group has ended |

mod confine;
mod group;
mod running;
mod supervisor;

pub use confine::{Bounds, Caps, NO_LANDLOCK, Network, landlock_version};
pub use running::{DEFAULT_PATH, End, Head, LAST_OUTPUT, Running};
pub use supervisor::{NOT_STARTED, Supervisor, end, signal_of, supervise, why_not_started};

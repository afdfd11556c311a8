//! Bounds of one call of a file tool.

use super::{LONGEST, millis};
use crate::error::Fault;
use crate::tool::TIME_LIMIT;
use cairn_engine::limits::MAX_RESULT;
use serde::{Deserialize, Serialize};

/// Bytes of a file tool's result: a listing of all files that one call may look at, with paths of usual length.
const FILE_OUTPUT: usize = 8 << 20;

/// Bounds of what one call may use up. Sizes are bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Calls of one source of tools at one time; further ones wait.
    pub parallel_calls: usize,
    /// Result of a file tool. `read_file` has pages of 32 KiB or fewer; a listing or a search has more than
    /// that only if its call gives `max`.
    pub output_bytes: usize,
    /// Time of a file tool, in milliseconds.
    pub file_time_ms: u64,
    /// Files and folders that one listing or search looks at.
    pub walk_entries: usize,
    /// Folders below one another that one listing or search enters.
    pub walk_depth: usize,
    /// One file that is searched, or whose lines are counted.
    pub file_bytes: u64,
    /// Everything that one call reads.
    pub total_bytes: u64,
    /// A file that `write_file` or `edit_file` writes.
    pub write_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            parallel_calls: 64,
            output_bytes: FILE_OUTPUT,
            file_time_ms: millis(TIME_LIMIT),
            walk_entries: 50_000,
            walk_depth: 64,
            file_bytes: 16 << 20,
            total_bytes: 256 << 20,
            write_bytes: 8 << 20,
        }
    }
}

impl Limits {
    pub(super) fn validate(&self, faults: &mut Vec<Fault>) {
        let mut at_least = |field: &str, value: u64, least: u64| {
            if value < least {
                let (problem, allowed) = (format!("is {value}"), format!("{least} or more"));
                faults.push(Fault::new(format!("limits.{field}"), problem, allowed));
            }
        };
        at_least("parallel_calls", self.parallel_calls as u64, 1);
        at_least("output_bytes", self.output_bytes as u64, 1024);
        at_least("file_time_ms", self.file_time_ms, 1);
        at_least("walk_entries", self.walk_entries as u64, 1);
        at_least("walk_depth", self.walk_depth as u64, 1);
        at_least("file_bytes", self.file_bytes, 1);
        at_least("total_bytes", self.total_bytes, 1);
        at_least("write_bytes", self.write_bytes as u64, 1);
        let mut at_most = |field: &str, value: u64, most: u64, why: &str| {
            if value > most {
                let (problem, allowed) = (format!("is {value}; {why}"), format!("at most {most}"));
                faults.push(Fault::new(format!("limits.{field}"), problem, allowed));
            }
        };
        at_most(
            "parallel_calls",
            self.parallel_calls as u64,
            4096,
            "every running call may take a thread",
        );
        at_most(
            "output_bytes",
            self.output_bytes as u64,
            MAX_RESULT as u64,
            "no result has more",
        );
        at_most(
            "walk_depth",
            self.walk_depth as u64,
            256,
            "every level holds a file descriptor",
        );
        at_most(
            "file_time_ms",
            self.file_time_ms,
            millis(LONGEST),
            "that is a day",
        );
    }
}

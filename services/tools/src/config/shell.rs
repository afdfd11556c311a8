//! `shell_exec`, and what confined programs may do.

use super::check_env;
use crate::confine::Network;
use crate::error::Fault;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Fewest processes, bytes and bytes of memory that a program needs to do anything.
const LEAST: (u32, u64, u64) = (8, 1 << 20, 64 << 20);
/// Most processes: more could not be counted in time.
const MOST_PROCESSES: u32 = 16_384;

/// `shell_exec`, and what confined programs may do besides reading system folders, toolchains and the workspace,
/// and writing the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShellConfig {
    /// Whether there is the tool `shell_exec`.
    pub enabled: bool,
    /// Further files and folders that confined programs may read. `~/` is the user's home.
    pub read: Vec<PathBuf>,
    /// Further files and folders that they may read and write.
    pub write: Vec<PathBuf>,
    /// Names of variables that `shell_exec` passes on besides its own list.
    pub env: Vec<String>,
    /// What they reach over the network.
    pub network: Network,
    /// Processes of one program at one time; all of them are killed beyond it.
    pub max_processes: u32,
    /// Bytes that the processes of one program write; all of them are killed beyond it.
    pub max_bytes: u64,
    /// Bytes of memory of the processes of one program, three quarters of the machine's without it; all of them
    /// are killed beyond it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_memory: Option<u64>,
}

impl Default for ShellConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            read: Vec::new(),
            write: Vec::new(),
            env: Vec::new(),
            network: Network::None,
            max_processes: 512,
            max_bytes: 16 << 30,
            max_memory: None,
        }
    }
}

impl ShellConfig {
    pub(super) fn validate(&self, faults: &mut Vec<Fault>) {
        for (field, paths) in [("read", &self.read), ("write", &self.write)] {
            for (index, path) in paths.iter().enumerate() {
                let is_whole = path.is_absolute() || path.starts_with("~");
                if !is_whole || path.to_str().is_none() || path == Path::new("/") {
                    let at = format!("shell.{field}[{index}]");
                    let path = path.display().to_string();
                    let problem = format!("is '{}'", path.escape_debug());
                    let allowed = "an absolute path other than /, or one that begins with ~/";
                    faults.push(Fault::new(at, problem, allowed));
                }
            }
        }
        check_env("shell.env", &self.env, faults);
        let (processes, bytes, memory) = LEAST;
        if !(processes..=MOST_PROCESSES).contains(&self.max_processes) {
            let allowed = format!("{processes} to {MOST_PROCESSES}");
            let problem = format!("is {}", self.max_processes);
            faults.push(Fault::new("shell.max_processes", problem, allowed));
        }
        let sizes = [
            ("shell.max_bytes", Some(self.max_bytes), bytes),
            ("shell.max_memory", self.max_memory, memory),
        ];
        for (field, value, least) in sizes {
            if let Some(value) = value.filter(|value| *value < least) {
                let allowed = format!("{least} or more");
                faults.push(Fault::new(field, format!("is {value}"), allowed));
            }
        }
    }
}

//! What programs may do: those of the settings, commands of `shell_exec`, and servers that the operator confines.
//!
//! A confined program reads system folders, toolchains and the workspace, and writes the workspace and a folder of
//! its own for temporary files. It has no network unless the settings open one. The process that supervises it
//! keeps it within these bounds; see [`cairn_supervise`].
//!
//! | module | gives |
//! |---|---|
//! | `paths` | system folders, and the toolchains of the user |
//! | `report` | what this system can hold |
//! | `guarded` | files that Cairn or git runs or reads on its own, compared after each command |

mod guarded;
mod paths;
mod report;

pub use cairn_supervise::Network;
pub use report::Holds;

use crate::config::{Config, ShellConfig};
use cairn_supervise::{Bounds, Caps, NO_LANDLOCK, Supervisor, landlock_version};
use guarded::Guarded;
pub(crate) use guarded::Snapshot;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Where folders for temporary files are made if the process has no `TMPDIR`.
const TEMPORARY: &str = "/tmp";

/// Whether a program is confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confine {
    /// To the workspace, and what `[tools.shell]` opens besides.
    #[default]
    Workspace,
    /// Not at all: it runs with the rights of the process that starts it.
    None,
}

/// How programs are confined, by the settings and the environment of this process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Confinement(Arc<State>);

#[derive(Debug)]
struct State {
    bounds: Bounds,
    guarded: Guarded,
    /// What decides about calls: no program reads it.
    stores: Vec<PathBuf>,
    /// Whether mounts of a program's own can be made; found out with the first one.
    mounts: OnceLock<bool>,
}

/// Why no program can be confined. Nothing runs then that is to be confined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unconfined {
    /// The system cannot do it.
    System(String),
    /// It would not help: the settings let programs reach what decides about calls.
    Store(String),
}

impl Unconfined {
    /// The reason, in words for a person and the model.
    pub fn why(&self) -> &str {
        match self {
            Self::System(why) | Self::Store(why) => why,
        }
    }
}

impl Confinement {
    /// For programs that run in `workspace`. `environment` is that of this process.
    ///
    /// # Errors
    /// Programs cannot be confined here, or a program could change the store and answer for a person.
    pub fn of(
        config: &Config,
        workspace: &Path,
        environment: &BTreeMap<String, String>,
    ) -> Result<Self, Unconfined> {
        let shell = &config.shell;
        let workspace = &paths::real(workspace);
        let write = [workspace.to_owned()];
        let write: Vec<PathBuf> = write
            .into_iter()
            .chain(paths::named(&shell.write, environment))
            .collect();
        let stores: Vec<PathBuf> = config
            .store_paths
            .iter()
            .map(|path| paths::real(path))
            .collect();
        check_stores(&stores, &write, "can change")?;
        let mut read = paths::system();
        read.extend(paths::named(&shell.read, environment));
        check_stores(&stores, &read, "can read")?;
        check_stores(&stores, &[paths::ETC.into()], "can read")?;
        // These were not asked for, and may lie anywhere.
        let mut toolchains = paths::toolchains(environment);
        toolchains.retain(|path| !stores.iter().any(|store| store.starts_with(path)));
        read.extend(toolchains);
        if landlock_version() == 0 {
            return Err(Unconfined::System(NO_LANDLOCK.to_owned()));
        }
        let more = config.agent_paths.iter().chain(&config.skill_paths);
        // The settings in use may have another name than the usual one.
        let named = config.private.iter().map(|path| paths::real(path));
        let named = named.filter(|path| path.is_file());
        let named = named.filter_map(|path| Some(path.strip_prefix(workspace).ok()?.to_owned()));
        let more = more.map(PathBuf::from).chain(named).collect();
        let temporary = environment.get("TMPDIR").filter(|path| !path.is_empty());
        let temporary = temporary.map_or(TEMPORARY, String::as_str);
        Ok(Self(Arc::new(State {
            bounds: Bounds {
                read,
                write,
                temporary: paths::real(Path::new(temporary)),
                network: shell.network.clone(),
                mounts: false,
                caps: caps(shell),
            },
            guarded: Guarded::of(workspace, more),
            stores,
            mounts: OnceLock::new(),
        })))
    }

    /// Whether a program may read `more` besides.
    ///
    /// # Errors
    /// It would read what decides about calls.
    pub(crate) fn check(&self, more: &[PathBuf]) -> Result<(), Unconfined> {
        let more: Vec<PathBuf> = more.iter().map(|path| paths::real(path)).collect();
        check_stores(&self.0.stores, &more, "can read")
    }

    /// What a program may do. `more` are folders that it may read besides; see [`Self::check`].
    pub(crate) fn bounds(&self, supervisor: &Supervisor, more: &[PathBuf]) -> Bounds {
        let mounts = self.0.mounts.get_or_init(|| supervisor.can("mounts"));
        let mut bounds = self.0.bounds.clone();
        bounds.mounts = *mounts;
        bounds.read.extend(paths::etc().iter().cloned());
        bounds.read.extend(more.iter().cloned());
        bounds
    }

    /// The files that are compared after each command.
    pub(crate) fn guarded(&self) -> &Guarded {
        &self.0.guarded
    }

    /// What a confined program may reach over the network.
    pub(crate) fn network(&self) -> &Network {
        &self.0.bounds.network
    }
}

/// What all processes of one program may use up together, in words for people.
pub fn limits(shell: &ShellConfig) -> String {
    let Caps {
        processes,
        bytes,
        memory,
    } = caps(shell);
    format!(
        "each has at most {processes} processes, {} MiB written and {} MiB of memory",
        bytes >> 20,
        memory >> 20
    )
}

fn caps(shell: &ShellConfig) -> Caps {
    Caps {
        processes: shell.max_processes,
        bytes: shell.max_bytes,
        memory: shell.max_memory.unwrap_or_else(report::memory),
    }
}

/// Whoever can change the store, or read the token beside it, can approve a call.
fn check_stores(stores: &[PathBuf], open: &[PathBuf], can: &str) -> Result<(), Unconfined> {
    let mut pairs = stores
        .iter()
        .flat_map(|store| open.iter().map(move |folder| (store, folder)));
    let found = pairs.find(|(store, folder)| store.starts_with(folder));
    found.map_or(Ok(()), |(store, folder)| {
        Err(Unconfined::Store(format!(
            "'{}' lies in '{}', which programs {can}, and with it a program could approve calls itself; keep the \
             store in another place, such as the default one",
            store.display(),
            folder.display()
        )))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a folder with a workspace `ws`, and the store in `state`.
    fn of(change: impl FnOnce(&mut Config, &Path)) -> Result<Confinement, Unconfined> {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().canonicalize().unwrap();
        for name in ["ws", "state"] {
            std::fs::create_dir(at.join(name)).unwrap();
        }
        let mut config = Config {
            store_paths: vec![at.join("state/cairn.db")],
            ..Config::default()
        };
        change(&mut config, &at);
        Confinement::of(&config, &at.join("ws"), &BTreeMap::new())
    }

    #[test]
    fn a_store_that_programs_could_reach_turns_them_off() {
        for (path, says) in [
            ("ws/cairn.db", "programs can change"),
            ("ws/.cairn/cairn.db", "programs can change"),
            ("/usr/cairn/cairn.db", "programs can read"),
        ] {
            let refused = of(|config, at| config.store_paths = vec![at.join(path)]);
            let Err(Unconfined::Store(why)) = refused else {
                panic!("{path}: {refused:?}");
            };
            assert!(why.contains(says) && why.contains(path), "{why}");
        }
        let opened = of(|config, at| config.shell.write = vec![at.to_owned()]);
        assert!(matches!(opened, Err(Unconfined::Store(_))), "{opened:?}");
        let opened = of(|config, at| config.shell.read = vec![at.join("state")]);
        assert!(matches!(opened, Err(Unconfined::Store(_))), "{opened:?}");
        let apart = of(|_, _| {});
        assert!(!matches!(apart, Err(Unconfined::Store(_))), "{apart:?}");
        if let Ok(confinement) = apart {
            confinement.check(&["/usr".into()]).unwrap();
            confinement.check(&["/".into()]).unwrap_err();
        }
    }
}

//! The files of the workspace that define agents, skills and instructions.
//!
//! Such files may have come with a repository of others. So no content of them leaves this process before a
//! person confirmed exactly these files: one digest covers them all, and a change of any of them is another
//! digest. They are opened name by name and through no link, and only regular files are read.
//!
//! | module | gives |
//! |---|---|
//! | `paths` | which folders settings may name, and which names files may have |
//! | `limits` | how much of them counts |
//! | `folder` | the entries of a folder, and the digests of its files |
//! | `cache` | the digests of files that have not changed since they were read |
//! | `scan` | all files at one moment |
//! | `skill` | the files of a skill's folder |
//! | `state` | what was read and confirmed, and the reading itself |

mod cache;
mod folder;
mod limits;
mod paths;
mod scan;
mod skill;
mod state;

pub(crate) use paths::check_paths;
pub(crate) use scan::{Found, Kind};
pub(crate) use state::{Reading, SkillText};

use crate::allowances::Allowances;
use crate::config::Config;
use crate::source::AllowError;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::Mutex;

use state::{Places, State};

/// The files of one workspace.
#[derive(Debug)]
pub(crate) struct WorkspaceFiles {
    /// Absolute and without links.
    folder: PathBuf,
    allowances: Allowances,
    /// Held while the files are read. A disk that stalls then holds one thread, however many callers wait.
    state: Arc<Mutex<State>>,
}

/// Why files of the workspace are not read or not confirmed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilesError {
    /// They are others each time.
    #[error("the files of the workspace change while they are read; try again")]
    Busy,
    /// Memory has not said what is confirmed.
    #[error("it is not known yet which files of the workspace are confirmed: {0}")]
    NotKnown(String),
    /// The process ends.
    #[error("the tools service is stopping")]
    Stopping,
    /// There is none.
    #[error("the workspace has no file that defines an agent, a skill or instructions")]
    NoFiles,
    /// They are others than the person has seen.
    #[error(
        "the files of the workspace have changed since they were shown; look at them again, and confirm \
         their present digest {digest}"
    )]
    Changed {
        /// What they have now.
        digest: String,
    },
    /// The confirmation was not stored.
    #[error(transparent)]
    NotKept(#[from] AllowError),
    /// The path of a file of a skill cannot be one.
    #[error("{0}")]
    Path(&'static str),
    /// No skill of the workspace has the name.
    #[error("there is no skill '{}' in the workspace{}", .skill.escape_debug(), listed("skills", .known))]
    NoSkill {
        /// The name that was asked for.
        skill: String,
        /// The skills that there are.
        known: Vec<String>,
    },
    /// The skill has no such file.
    #[error("skill '{skill}' has no file '{}'{}", .file.escape_debug(), listed("files", .known))]
    NoSkillFile {
        /// The skill.
        skill: String,
        /// The path that was asked for.
        file: String,
        /// The files that it has.
        known: Vec<String>,
    },
    /// The skill is not the one that was confirmed.
    #[error(
        "skill '{0}' has changed and is not confirmed; it can be read again once a person has confirmed the \
         files of the workspace"
    )]
    SkillChanged(String),
}

/// Names in a message: the first of them.
fn listed(what: &str, known: &[String]) -> String {
    const MOST: usize = 20;
    let more = known.len().saturating_sub(MOST);
    let names = known[..known.len() - more].join(", ");
    match (known.len(), more) {
        (0, _) => String::new(),
        (_, 0) => format!("; {what}: {names}"),
        (_, more) => format!("; {what}: {names} and {more} more"),
    }
}

impl WorkspaceFiles {
    /// Opens the workspace, which is absolute and without links. No file is read yet.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn open(
        folder: PathBuf,
        config: &Config,
        allowances: Allowances,
    ) -> io::Result<Self> {
        let dir = Dir::open_ambient_dir(&folder, ambient_authority())?;
        let places = config.agents_enabled.then(|| Places {
            agents: config.agent_paths.clone(),
            skills: config.skill_paths.clone(),
        });
        let state = State::new(dir, folder.clone(), places, allowances.clone());
        Ok(Self {
            folder,
            allowances,
            state: Arc::new(Mutex::new(state)),
        })
    }

    /// The files as they are now, with their contents if they are confirmed and their digest is not `known`.
    ///
    /// # Errors
    /// [`FilesError::Busy`] and [`FilesError::NotKnown`].
    pub(crate) async fn read(&self, known: String) -> Result<Reading, FilesError> {
        self.work(move |state| state.read(&known)).await?
    }

    /// Keeps that a person confirms the files with this digest, which they must have now.
    ///
    /// # Errors
    /// [`FilesError::NoFiles`], [`FilesError::Changed`] and [`FilesError::NotKept`].
    pub(crate) async fn confirm(&self, digest: &str) -> Result<(), FilesError> {
        let present = self.work(State::digest).await?;
        if present.is_empty() {
            return Err(FilesError::NoFiles);
        }
        if present != digest {
            return Err(FilesError::Changed { digest: present });
        }
        let keep = self.allowances.keep();
        Ok(keep.confirm_workspace(&self.folder, digest).await?)
    }

    /// A file of a skill, as it was confirmed with the skill's digest. An empty `file` is its `SKILL.md`.
    ///
    /// # Errors
    /// Those of [`FilesError`] about skills, and those of [`Self::read`].
    pub(crate) async fn skill_file(
        &self,
        skill: String,
        file: String,
        digest: String,
    ) -> Result<SkillText, FilesError> {
        self.work(move |state| state.skill_file(&skill, &file, &digest))
            .await?
    }

    /// Works with the files on a thread of its own: the disk may stall.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut State) -> T + Send + 'static,
    ) -> Result<T, FilesError> {
        let mut state = self.state.clone().lock_owned().await;
        let done = tokio::task::spawn_blocking(move || work(&mut state)).await;
        done.map_err(|_| FilesError::Stopping)
    }
}

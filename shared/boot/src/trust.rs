//! What a person has confirmed: settings files, files of workspaces, servers, and tools as they were when they
//! were allowed.
//!
//! All of it is in one JSON file of the user, by default `~/.local/state/cairn/trust.json`. It holds
//! digests only, never a setting or a secret. Each use reads the file again, and each change is made
//! under a lock, so that several processes share it. A file that cannot be read is an error: without it,
//! nothing counts as confirmed.

use crate::state::state_folder;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The version of the file's form.
const VERSION: u32 = 1;
/// Most bytes of the file.
const MOST_BYTES: u64 = 64 << 20;
/// Rights that others must not have on the file: to write it.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Tools by their qualified names, each with the digests of its parts.
pub type Pins = BTreeMap<String, BTreeMap<String, String>>;

/// The file. Clones speak of the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trust {
    path: PathBuf,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// It cannot be read or written.
    #[error("cannot {what} the trust file '{path}': {source}; give another place with tools.trust")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file, or the folder it is in.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// Its content is not what Cairn writes.
    #[error(
        "the trust file '{path}' cannot be used: {problem}; mend it, or remove it and confirm again"
    )]
    Content {
        /// The file.
        path: String,
        /// What is wrong.
        problem: String,
    },
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    /// Confirmed settings files: absolute path to digest.
    #[serde(default)]
    settings: BTreeMap<String, String>,
    /// Settings files that a person refused: absolute path to digest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    refused: BTreeMap<String, String>,
    /// Allowed servers: the file that names them, to name, to digest.
    #[serde(default)]
    servers: BTreeMap<String, BTreeMap<String, String>>,
    /// The tools of a server, by its name and digest.
    #[serde(default)]
    tools: BTreeMap<String, Pins>,
    /// Workspaces whose files for agents were confirmed: absolute path to digest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    workspaces: BTreeMap<String, String>,
    /// The protocol that a server speaks, by the server's digest.
    #[serde(default)]
    protocols: BTreeMap<String, String>,
}

impl Trust {
    /// The file at `path`, which need not exist.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The user's file: `$XDG_STATE_HOME/cairn/trust.json`, else `~/.local/state/cairn/trust.json`.
    /// `None` without a home.
    pub fn default_path(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
        Some(state_folder(variable)?.join("trust.json"))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a person confirmed the settings file `file` with this digest.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn is_confirmed(&self, file: &Path, digest: &str) -> Result<bool, TrustError> {
        let content = self.read()?;
        Ok(content
            .settings
            .get(&file_key(file))
            .is_some_and(|it| it == digest))
    }

    /// Keeps that a person confirmed the settings file `file` with this digest.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn confirm(&self, file: &Path, digest: &str) -> Result<(), TrustError> {
        self.change(|content| {
            content.refused.remove(&file_key(file));
            content.settings.insert(file_key(file), digest.to_owned());
        })
    }

    /// Whether a person refused the settings file `file` with this digest.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn is_refused(&self, file: &Path, digest: &str) -> Result<bool, TrustError> {
        let content = self.read()?;
        Ok(content
            .refused
            .get(&file_key(file))
            .is_some_and(|it| it == digest))
    }

    /// Keeps that a person refused the settings file `file` with this digest. It is confirmed no more,
    /// with whatever content.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn refuse(&self, file: &Path, digest: &str) -> Result<(), TrustError> {
        self.change(|content| {
            content.settings.remove(&file_key(file));
            content.refused.insert(file_key(file), digest.to_owned());
        })
    }

    /// Whether a person allowed the server `name` of the file `origin` with this digest.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn is_server_allowed(
        &self,
        origin: &Path,
        name: &str,
        digest: &str,
    ) -> Result<bool, TrustError> {
        let content = self.read()?;
        let servers = content.servers.get(&file_key(origin));
        Ok(servers
            .and_then(|it| it.get(name))
            .is_some_and(|it| it == digest))
    }

    /// Keeps that a person allowed the server `name` of the file `origin` with this digest.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn allow_server(&self, origin: &Path, name: &str, digest: &str) -> Result<(), TrustError> {
        self.change(|content| {
            let servers = content.servers.entry(file_key(origin)).or_default();
            servers.insert(name.to_owned(), digest.to_owned());
        })
    }

    /// Whether a person confirmed the files of the workspace `folder` with this digest.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn is_workspace_confirmed(&self, folder: &Path, digest: &str) -> Result<bool, TrustError> {
        let content = self.read()?;
        let confirmed = content.workspaces.get(&file_key(folder));
        Ok(confirmed.is_some_and(|it| it == digest))
    }

    /// Keeps that a person confirmed the files of the workspace `folder` with this digest, and with no other.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn confirm_workspace(&self, folder: &Path, digest: &str) -> Result<(), TrustError> {
        self.change(|content| {
            let workspaces = &mut content.workspaces;
            workspaces.insert(file_key(folder), digest.to_owned());
        })
    }

    /// The tools of the server with this digest as they were allowed; `None` if it was never listed.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn pins(&self, server: &str) -> Result<Option<Pins>, TrustError> {
        Ok(self.read()?.tools.remove(server))
    }

    /// Changes the tools of a server, and returns them. No change of another process is lost.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn change_pins(
        &self,
        server: &str,
        change: impl FnOnce(Option<Pins>) -> Pins,
    ) -> Result<Pins, TrustError> {
        self.change(|content| {
            let pins = change(content.tools.remove(server));
            content.tools.insert(server.to_owned(), pins.clone());
            pins
        })
    }

    /// The protocol that the server with this digest spoke last.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn protocol(&self, server: &str) -> Result<Option<String>, TrustError> {
        Ok(self.read()?.protocols.remove(server))
    }

    /// Keeps the protocol that a server speaks.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn remember_protocol(&self, server: &str, protocol: &str) -> Result<(), TrustError> {
        if self.protocol(server)?.as_deref() == Some(protocol) {
            return Ok(());
        }
        self.change(|content| {
            content
                .protocols
                .insert(server.to_owned(), protocol.to_owned());
        })
    }

    fn read(&self) -> Result<Content, TrustError> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Content {
                    version: VERSION,
                    ..Content::default()
                });
            }
            Err(error) => return Err(self.io("read", error)),
        };
        let known = file.metadata().map_err(|error| self.io("read", error))?;
        if known.permissions().mode() & WRITABLE_BY_OTHERS != 0 {
            return Err(self.content("others can write it, so that its content may be theirs"));
        }
        if known.len() > MOST_BYTES {
            return Err(self.content(format!("it has more than {MOST_BYTES} bytes")));
        }
        let mut text = String::new();
        file.read_to_string(&mut text)
            .map_err(|error| self.io("read", error))?;
        let content: Content = serde_json::from_str(&text)
            .map_err(|error| self.content(format!("it is not what Cairn writes: {error}")))?;
        if content.version != VERSION {
            let problem = format!(
                "its version is {}, and this Cairn knows {VERSION}",
                content.version
            );
            return Err(self.content(problem));
        }
        Ok(content)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Content) -> T) -> Result<T, TrustError> {
        let io = |error| self.io("write", error);
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut builder = fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(io)?;
        // Not the file itself: it is replaced, and a lock on the old file would not keep others out.
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(self.beside(".lock"))
            .map_err(io)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| io(error.into()))?;
        let mut content = self.read()?;
        let changed = change(&mut content);
        let mut text =
            serde_json::to_vec_pretty(&content).map_err(|error| self.content(error.to_string()))?;
        text.push(b'\n');
        if text.len() as u64 > MOST_BYTES {
            return Err(self.content(format!(
                "it would have more than {MOST_BYTES} bytes; remove what is no longer used"
            )));
        }
        let next = self.beside(".next");
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&next)
            .map_err(io)?;
        file.write_all(&text).map_err(io)?;
        file.sync_all().map_err(io)?;
        fs::rename(&next, &self.path).map_err(io)?;
        File::open(folder)
            .and_then(|it| it.sync_all())
            .map_err(io)?;
        Ok(changed)
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut path = self.path.as_os_str().to_owned();
        path.push(ending);
        PathBuf::from(path)
    }

    fn io(&self, what: &'static str, source: io::Error) -> TrustError {
        TrustError::Io {
            what,
            path: self.path.display().to_string(),
            source,
        }
    }

    fn content(&self, problem: impl Into<String>) -> TrustError {
        TrustError::Content {
            path: self.path.display().to_string(),
            problem: problem.into(),
        }
    }
}

/// One name for each file, also for a path through a link. May block.
pub fn file_key(file: &Path) -> String {
    let real = file.canonicalize().or_else(|_| std::path::absolute(file));
    real.unwrap_or_else(|_| file.to_owned())
        .display()
        .to_string()
}

#[cfg(test)]
mod tests;

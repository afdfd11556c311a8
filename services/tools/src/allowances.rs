//! What a person allowed of servers, their tools and the files of the workspace, and where it is kept.
//!
//! Memory keeps it for all tools processes of an installation. A process that has all services over a store in a
//! file keeps it in the user's trust file: the store may have come with a folder of others.

mod cache;
mod documents;
mod file;
mod process;

use crate::source::AllowError;
use async_trait::async_trait;
use cairn_boot::{Pins, Trust};
use cairn_rpc::Link;
use documents::WithMemory;
use file::InFile;
use process::InProcess;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::watch;

/// Digests of the parts of a tool, by the names of the parts.
pub(crate) type Parts = BTreeMap<String, String>;

/// Where a process keeps what a person allowed. Cheap to clone.
#[derive(Clone)]
pub struct Allowances(Arc<dyn Keep>);

impl Allowances {
    /// In this process: what is allowed holds until the process ends.
    pub fn in_process() -> Self {
        Self(Arc::new(InProcess::default()))
    }

    /// In the user's trust file.
    pub fn in_file(trust: Trust) -> Self {
        Self(Arc::new(InFile(trust)))
    }

    /// With the memory service: all tools processes hold the same, and follow a change at once. It belongs to the
    /// installation, so it is in the namespace `default`. Needs a tokio runtime.
    pub fn with_memory(memory: Link) -> Self {
        Self(Arc::new(WithMemory::follow(memory)))
    }

    pub(crate) fn keep(&self) -> Arc<dyn Keep> {
        self.0.clone()
    }
}

impl Default for Allowances {
    fn default() -> Self {
        Self::in_process()
    }
}

impl fmt::Debug for Allowances {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Allowances")
    }
}

/// The name under which the tools of a server are pinned.
#[derive(Debug)]
pub(crate) struct PinnedServer {
    /// The server's name, and what it is.
    pub(crate) name: String,
    /// The name in trust files of earlier versions. It counts until the next change.
    pub(crate) before: String,
}

/// Keeps what a person allowed. Functions that are not async may block.
#[async_trait]
pub(crate) trait Keep: Send + Sync + 'static {
    /// Why it is not known yet what was allowed. Once that is known, it stays known.
    fn unknown(&self) -> Option<String> {
        None
    }

    /// Changes with what is allowed, in whatever process. `None` where only a look shows a change.
    fn changes(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// Whether a person allowed the server `name` of the file `origin` with this digest.
    ///
    /// # Errors
    /// Why that cannot be said.
    fn is_server_allowed(&self, origin: &Path, name: &str, digest: &str) -> Result<bool, String>;

    /// Keeps that a person allowed that server.
    ///
    /// # Errors
    /// It cannot be kept.
    async fn allow_server(&self, origin: &Path, name: &str, digest: &str)
    -> Result<(), AllowError>;

    /// The pins of a server that has the tools `current` now.
    ///
    /// # Errors
    /// Why there are none.
    fn pins(&self, server: &PinnedServer, current: &Pins) -> Result<Pins, String>;

    /// Whether [`Self::pins`] has pins of the server, or can make them.
    fn is_pinned(&self, server: &PinnedServer) -> bool {
        let _ = server;
        true
    }

    /// Pins the first tools of a server as they are.
    ///
    /// # Errors
    /// They cannot be kept.
    async fn pin_first(&self, server: &PinnedServer, first: Pins) -> Result<(), AllowError> {
        let _ = (server, first);
        Ok(())
    }

    /// Pins a tool as it is now.
    ///
    /// # Errors
    /// It cannot be kept.
    async fn pin(&self, server: &PinnedServer, tool: &str, parts: Parts) -> Result<(), AllowError>;

    /// The protocol that the server with this digest spoke last.
    fn protocol(&self, server: &str) -> Option<String>;

    /// Keeps the protocol that a server speaks.
    ///
    /// # Errors
    /// It cannot be kept.
    async fn remember_protocol(
        &self,
        server: &str,
        protocol: &'static str,
    ) -> Result<(), AllowError>;

    /// Whether a person confirmed the files of the workspace `folder` with this digest.
    ///
    /// # Errors
    /// Why that cannot be said.
    fn is_workspace_confirmed(&self, folder: &Path, digest: &str) -> Result<bool, String>;

    /// Keeps that a person confirmed these files, in place of those that were confirmed before.
    ///
    /// # Errors
    /// It cannot be kept.
    async fn confirm_workspace(&self, folder: &Path, digest: &str) -> Result<(), AllowError>;
}

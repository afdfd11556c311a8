//! Allowances that end with the process.

use super::{Keep, Parts, PinnedServer};
use crate::source::AllowError;
use async_trait::async_trait;
use cairn_boot::Pins;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A server that was allowed knows that itself.
#[derive(Debug, Default)]
pub(super) struct InProcess {
    /// By the names of their servers.
    pins: Mutex<BTreeMap<String, Pins>>,
    /// The confirmed digests of workspaces.
    workspaces: Mutex<BTreeMap<PathBuf, String>>,
}

impl InProcess {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Pins>> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn workspaces(&self) -> MutexGuard<'_, BTreeMap<PathBuf, String>> {
        let workspaces = self.workspaces.lock();
        workspaces.unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Keep for InProcess {
    fn is_server_allowed(&self, _: &Path, _: &str, _: &str) -> Result<bool, String> {
        Ok(false)
    }

    async fn allow_server(&self, _: &Path, _: &str, _: &str) -> Result<(), AllowError> {
        Ok(())
    }

    fn pins(&self, server: &PinnedServer, current: &Pins) -> Result<Pins, String> {
        // A server that lists nothing yet is not known yet.
        if current.is_empty() {
            return Ok(Pins::new());
        }
        let mut all = self.all();
        let pins = all.entry(server.name.clone());
        Ok(pins.or_insert_with(|| current.clone()).clone())
    }

    async fn pin(&self, server: &PinnedServer, tool: &str, parts: Parts) -> Result<(), AllowError> {
        let mut all = self.all();
        let pins = all.entry(server.name.clone()).or_default();
        pins.insert(tool.to_owned(), parts);
        Ok(())
    }

    fn protocol(&self, _: &str) -> Option<String> {
        None
    }

    async fn remember_protocol(&self, _: &str, _: &'static str) -> Result<(), AllowError> {
        Ok(())
    }

    fn is_workspace_confirmed(&self, folder: &Path, digest: &str) -> Result<bool, String> {
        let workspaces = self.workspaces();
        Ok(workspaces.get(folder).is_some_and(|it| it == digest))
    }

    async fn confirm_workspace(&self, folder: &Path, digest: &str) -> Result<(), AllowError> {
        let mut workspaces = self.workspaces();
        workspaces.insert(folder.to_owned(), digest.to_owned());
        Ok(())
    }
}

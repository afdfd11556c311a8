//! Allowances that end with the process.

use super::{Keep, Parts, PinnedServer};
use crate::source::AllowError;
use async_trait::async_trait;
use cairn_boot::Pins;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The pins by the names of their servers. A server that was allowed knows that itself.
#[derive(Debug, Default)]
pub(super) struct InProcess(Mutex<BTreeMap<String, Pins>>);

impl InProcess {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Pins>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
}

//! Allowances in the user's trust file.

use super::{Keep, Parts, PinnedServer};
use crate::source::AllowError;
use async_trait::async_trait;
use cairn_boot::{Pins, Trust, TrustError};
use std::path::Path;

/// The file. Processes on one machine can share it.
#[derive(Debug)]
pub(super) struct InFile(pub(super) Trust);

impl InFile {
    /// Changes the file in a thread of its own, because its disk may stall.
    async fn change(
        &self,
        change: impl FnOnce(&Trust) -> Result<(), TrustError> + Send + 'static,
    ) -> Result<(), AllowError> {
        let trust = self.0.clone();
        match tokio::task::spawn_blocking(move || change(&trust)).await {
            Ok(changed) => changed.map_err(|error| AllowError::NotKept(error.to_string())),
            Err(_) => Err(AllowError::NotKept("it was given up".to_owned())),
        }
    }
}

fn stored(trust: &Trust, name: &str, before: &str) -> Result<Option<Pins>, TrustError> {
    match trust.pins(name)? {
        Some(pins) => Ok(Some(pins)),
        None => trust.pins(before),
    }
}

fn change_pins(
    trust: &Trust,
    name: &str,
    before: &str,
    change: impl FnOnce(Option<Pins>) -> Pins,
) -> Result<Pins, TrustError> {
    let before = stored(trust, name, before)?;
    trust.change_pins(name, |pins| change(pins.or(before)))
}

#[async_trait]
impl Keep for InFile {
    fn is_server_allowed(&self, origin: &Path, name: &str, digest: &str) -> Result<bool, String> {
        let allowed = self.0.is_server_allowed(origin, name, digest);
        allowed.map_err(|error| error.to_string())
    }

    async fn allow_server(
        &self,
        origin: &Path,
        name: &str,
        digest: &str,
    ) -> Result<(), AllowError> {
        let (origin, name, digest) = (origin.to_owned(), name.to_owned(), digest.to_owned());
        self.change(move |trust| trust.allow_server(&origin, &name, &digest))
            .await
    }

    fn pins(&self, server: &PinnedServer, current: &Pins) -> Result<Pins, String> {
        let PinnedServer { name, before } = server;
        let pins = match stored(&self.0, name, before) {
            Ok(Some(pins)) => Ok(pins),
            // A server that lists nothing yet is not known yet.
            Ok(None) if current.is_empty() => Ok(Pins::new()),
            Ok(None) => change_pins(&self.0, name, before, |pins| {
                pins.unwrap_or_else(|| current.clone())
            }),
            Err(error) => Err(error),
        };
        pins.map_err(|error| error.to_string())
    }

    async fn pin(&self, server: &PinnedServer, tool: &str, parts: Parts) -> Result<(), AllowError> {
        let (name, before) = (server.name.clone(), server.before.clone());
        let tool = tool.to_owned();
        self.change(move |trust| {
            let pinned = change_pins(trust, &name, &before, |pins| {
                let mut pins = pins.unwrap_or_default();
                pins.insert(tool, parts);
                pins
            });
            pinned.map(|_| ())
        })
        .await
    }

    fn protocol(&self, server: &str) -> Option<String> {
        // A file that cannot be read is reported with the tools, which it disables.
        self.0.protocol(server).ok()?
    }

    async fn remember_protocol(
        &self,
        server: &str,
        protocol: &'static str,
    ) -> Result<(), AllowError> {
        let server = server.to_owned();
        self.change(move |trust| trust.remember_protocol(&server, protocol))
            .await
    }

    fn is_workspace_confirmed(&self, folder: &Path, digest: &str) -> Result<bool, String> {
        let confirmed = self.0.is_workspace_confirmed(folder, digest);
        confirmed.map_err(|error| error.to_string())
    }

    async fn confirm_workspace(&self, folder: &Path, digest: &str) -> Result<(), AllowError> {
        let (folder, digest) = (folder.to_owned(), digest.to_owned());
        self.change(move |trust| trust.confirm_workspace(&folder, &digest))
            .await
    }
}

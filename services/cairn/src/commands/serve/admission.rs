//! Who may call the listeners of this process: callers that have the token.

use super::listeners::Listeners;
use crate::context::Context;
use crate::error::CliError;
use crate::node::Authenticators;
use crate::tokens::{Source, Tokens};
use crate::ui::out;
use cairn_rpc::{AllowAnonymous, Authenticate};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpListener;

/// What the listeners of this process ask for, and where it is found.
pub(super) struct Admission {
    /// For the node.
    pub(super) authenticators: Authenticators,
    /// The tokens of other processes.
    pub(super) tokens: Tokens,
    /// The callers of each listener with the token that they need, if they need one.
    listeners: Vec<(&'static str, Option<Source>)>,
    /// Files of ports that the system chose: no later process has a use for them.
    passing: Vec<PathBuf>,
}

impl Admission {
    /// Makes the tokens of these listeners, or takes those that are there. `anonymous` opens the
    /// public listener to every client.
    ///
    /// # Errors
    /// See [`Tokens`].
    pub(super) fn of(
        context: &Context,
        listeners: &Listeners,
        anonymous: bool,
    ) -> Result<Self, CliError> {
        let mut admission = Self {
            authenticators: Authenticators::default(),
            tokens: Tokens::of(context)?,
            listeners: Vec::new(),
            passing: Vec::new(),
        };
        let settings = &context.config().serve;
        if let Some(listener) = &listeners.public {
            let is_chosen = settings.listen.port() == 0;
            admission.authenticators.public = Some(if anonymous {
                admission.listeners.push(("clients", None));
                Arc::new(AllowAnonymous)
            } else {
                admission.require("clients", listener, is_chosen)?
            });
        }
        if let Some(listener) = &listeners.internal {
            let is_chosen = settings.internal.is_some_and(|address| address.port() == 0);
            let required = admission.require("Cairn's services", listener, is_chosen)?;
            admission.authenticators.internal = Some(required);
        }
        Ok(admission)
    }

    fn require(
        &mut self,
        callers: &'static str,
        listener: &TcpListener,
        is_chosen: bool,
    ) -> Result<Arc<dyn Authenticate>, CliError> {
        let (required, source) = self.tokens.require(listener.local_addr()?.port())?;
        if let Source::Port(path) = &source
            && is_chosen
        {
            self.passing.push(path.clone());
        }
        self.listeners.push((callers, Some(source)));
        Ok(Arc::new(required))
    }

    /// The file with the token for clients, or without a public listener with that for services.
    pub(super) fn token_file(&self) -> Option<String> {
        let (_, source) = self.listeners.first()?;
        let Some(Source::File(path) | Source::Port(path)) = source else {
            return None;
        };
        Some(path.display().to_string())
    }

    /// Says for each listener where its token is.
    pub(super) fn announce(&self) -> Result<(), CliError> {
        for (callers, source) in &self.listeners {
            let line = match source {
                Some(source) => format!("{callers} need the token in {}", source.place()),
                None => format!("{callers} need no token (--allow-anonymous)"),
            };
            out::line(&cairn_rpc::text::escape(&line))?;
        }
        Ok(())
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        for path in &self.passing {
            if let Err(error) = fs::remove_file(path) {
                tracing::warn!(%error, path = %path.display(), "cannot remove the token file");
            }
        }
    }
}

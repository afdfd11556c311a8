//! Who may call the listeners of this process: callers that have the token.

use super::listeners::Listeners;
use crate::context::Context;
use crate::error::CliError;
use crate::node::Authenticators;
use crate::tokens::{Kept, Source, Tokens};
use crate::ui::out;
use cairn_rpc::{AllowAnonymous, Authenticate};
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
    /// The tokens of its ports, which count as long as this is there.
    kept: Vec<Kept>,
}

impl Admission {
    /// Makes the tokens of these listeners, or takes that of the settings. `anonymous` opens the
    /// public listener to every client. `has_socket` says that clients also come through a socket.
    ///
    /// # Errors
    /// See [`Tokens`].
    pub(super) fn of(
        context: &Context,
        listeners: &Listeners,
        anonymous: bool,
        has_socket: bool,
    ) -> Result<Self, CliError> {
        let mut admission = Self {
            authenticators: Authenticators::default(),
            tokens: Tokens::of(context)?,
            listeners: Vec::new(),
            kept: Vec::new(),
        };
        if let Some(listener) = &listeners.public {
            admission.authenticators.public = Some(if anonymous {
                admission.listeners.push(("clients", None));
                Arc::new(AllowAnonymous)
            } else {
                admission.require("clients", listener, has_socket)?
            });
        }
        if let Some(listener) = &listeners.internal {
            let required = admission.require("Cairn's services", listener, has_socket)?;
            admission.authenticators.internal = Some(required);
        }
        Ok(admission)
    }

    fn require(
        &mut self,
        callers: &'static str,
        listener: &TcpListener,
        has_socket: bool,
    ) -> Result<Arc<dyn Authenticate>, CliError> {
        let port = listener.local_addr()?.port();
        let (required, source, kept) = self.tokens.require(port, has_socket)?;
        self.kept.extend(kept);
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
                Some(source @ Source::Unkept(_)) => {
                    format!("{callers} cannot call over TCP: {source}")
                }
                Some(source) => format!("{callers} need the token in {}", source.place()),
                None => format!("{callers} need no token (--allow-anonymous)"),
            };
            out::line(&cairn_rpc::text::escape(&line))?;
        }
        Ok(())
    }
}

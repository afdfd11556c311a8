//! Who may call the listeners of this process: callers that have the token.

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
    /// For each listener who calls it, and who of them is admitted.
    listeners: Vec<(&'static str, Admitted)>,
    /// Files of ports that the system chose: no later process has a use for them.
    passing: Vec<PathBuf>,
}

/// Who of the callers of a listener is admitted.
enum Admitted {
    /// Those with the token.
    With(Source),
    /// All of them.
    All,
}

impl Admission {
    /// Makes the tokens of these listeners, or takes those that are there. `anonymous` opens the
    /// public listener to every client.
    ///
    /// # Errors
    /// See [`Tokens`].
    pub(super) fn of(
        context: &Context,
        public: Option<&TcpListener>,
        internal: Option<&TcpListener>,
        anonymous: bool,
    ) -> Result<Self, CliError> {
        let mut admission = Self {
            authenticators: Authenticators::default(),
            tokens: Tokens::of(context)?,
            listeners: Vec::new(),
            passing: Vec::new(),
        };
        let settings = &context.config().serve;
        if let Some(listener) = public {
            let admitted = if anonymous {
                admission.authenticators.public = Some(Arc::new(AllowAnonymous));
                Admitted::All
            } else {
                let is_chosen = settings.listen.port() == 0;
                let (required, source) = admission.require(listener, is_chosen)?;
                admission.authenticators.public = Some(required);
                Admitted::With(source)
            };
            admission.listeners.push(("clients", admitted));
        }
        if let Some(listener) = internal {
            let is_chosen = settings.internal.is_some_and(|address| address.port() == 0);
            let (required, source) = admission.require(listener, is_chosen)?;
            admission.authenticators.internal = Some(required);
            let admitted = Admitted::With(source);
            admission.listeners.push(("Cairn's services", admitted));
        }
        Ok(admission)
    }

    fn require(
        &mut self,
        listener: &TcpListener,
        is_chosen: bool,
    ) -> Result<(Arc<dyn Authenticate>, Source), CliError> {
        let (required, source) = self.tokens.require(listener.local_addr()?.port())?;
        if let Source::Port(path) = &source
            && is_chosen
        {
            self.passing.push(path.clone());
        }
        Ok((Arc::new(required), source))
    }

    /// The file with the token for clients, or without a public listener with that for services.
    pub(super) fn token_file(&self) -> Option<String> {
        let (_, admitted) = self.listeners.first()?;
        let Admitted::With(Source::File(path) | Source::Port(path)) = admitted else {
            return None;
        };
        Some(path.display().to_string())
    }

    /// Says for each listener where its token is.
    pub(super) fn announce(&self) -> Result<(), CliError> {
        for (callers, admitted) in &self.listeners {
            let line = match admitted {
                Admitted::With(source) => format!("{callers} need the token in {}", source.place()),
                Admitted::All => format!("{callers} need no token (--allow-anonymous)"),
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

//! The sockets of the process.

use super::Args;
use crate::context::Context;
use crate::error::CliError;
use crate::node::Service;
use crate::settings::links::internal_address;
use cairn_boot::Origin;
use std::net::SocketAddr;
use tokio::net::TcpListener;

/// The bound sockets.
pub(super) struct Listeners {
    /// For clients.
    pub(super) public: Option<TcpListener>,
    /// For other services.
    pub(super) internal: Option<TcpListener>,
}

impl Listeners {
    /// Those that the services of the process need.
    ///
    /// # Errors
    /// An address that is not allowed or not free.
    pub(super) async fn bind(args: &Args, context: &Context) -> Result<Self, CliError> {
        let settings = &context.config().serve;
        let here = args.here();
        let mut listeners = Self {
            public: None,
            internal: None,
        };
        if here.contains(&Service::Orchestrator) {
            check("serve.listen", settings.listen, args.allow_remote, context)?;
            listeners.public = Some(bind(settings.listen, "--listen").await?);
        }
        // With all services in one process, nobody but clients needs an address.
        let is_alone = args.services.is_empty();
        let mut here = here.iter().filter(|_| !is_alone);
        let first = here.find(|service| **service != Service::Orchestrator);
        if let Some(first) = first {
            let address = settings.internal.unwrap_or(internal_address(*first));
            check("serve.internal", address, args.allow_remote, context)?;
            listeners.internal = Some(bind(address, "--internal").await?);
        }
        Ok(listeners)
    }
}

/// A URL of the listener.
pub(super) fn url(listener: Option<&TcpListener>) -> Result<Option<String>, CliError> {
    let address = listener.map(TcpListener::local_addr).transpose()?;
    Ok(address.map(|address| format!("http://{address}")))
}

/// What a port sends and takes is not encrypted, so it is not opened to others by accident.
pub(super) fn check(
    setting: &str,
    address: SocketAddr,
    allow_remote: bool,
    context: &Context,
) -> Result<(), CliError> {
    if address.ip().is_loopback() || allow_remote {
        return Ok(());
    }
    let origin = match context.settings.origin(setting) {
        Origin::Default => String::new(),
        origin => format!("{origin}: "),
    };
    Err(CliError::usage(format!(
        "{origin}{address} can be reached by other machines, and there is no TLS"
    ))
    .hint("listen on 127.0.0.1, or accept that with --allow-remote"))
}

async fn bind(address: SocketAddr, flag: &str) -> Result<TcpListener, CliError> {
    TcpListener::bind(address).await.map_err(|error| {
        CliError::new(format!("cannot listen on {address}: {error}"))
            .hint(format!("give another address with {flag}"))
    })
}

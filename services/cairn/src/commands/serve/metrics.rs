//! Where the process shows its metrics.

use super::Args;
use super::listeners::check;
use crate::context::Context;
use crate::error::CliError;
use crate::node::Service;
use axum::Router;
use cairn_boot::MetricsAddress;
use cairn_boot::telemetry::MetricsServer;
use std::net::SocketAddr;
use tokio_util::sync::{CancellationToken, DropGuard};

/// What is shown until this is dropped.
pub(super) struct Metrics {
    address: SocketAddr,
    /// For the listeners of the services, whose callers need a token.
    pub(super) pages: Router,
    _stop: DropGuard,
}

impl Metrics {
    /// What a browser or Prometheus is given.
    pub(super) fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }
}

/// Shows the metrics of this process, if it is to show any. To be called before there are services:
/// what they count before is forgotten.
///
/// # Errors
/// An address that somebody asked for and that is not allowed or not free.
pub(super) async fn serve(args: &Args, context: &Context) -> Result<Option<Metrics>, CliError> {
    let server = match context.config().telemetry.metrics {
        MetricsAddress::Off => return Ok(None),
        MetricsAddress::At(address) => {
            check("telemetry.metrics", address, args.allow_remote, context)?;
            MetricsServer::bind(address).await.map_err(|error| {
                CliError::new(format!("cannot show metrics on {address}: {error}"))
                    .hint("give another address with --metrics, or --metrics off")
            })?
        }
        // Nobody asked for them, so nobody is refused his services for want of them.
        MetricsAddress::Auto => {
            let address = default_address(args);
            match MetricsServer::bind(address).await {
                Ok(server) => server,
                Err(error) => {
                    tracing::warn!(
                        %error, %address,
                        "metrics are not shown; give another address with --metrics, or --metrics off"
                    );
                    return Ok(None);
                }
            }
        }
    };
    let (address, pages) = (server.local_addr()?, server.pages());
    let stop = CancellationToken::new();
    let served = server.serve(stop.clone());
    tokio::spawn(async move {
        if let Err(error) = served.await {
            tracing::error!(%error, %address, "metrics are no longer shown");
        }
    });
    Ok(Some(Metrics {
        address,
        pages,
        _stop: stop.drop_guard(),
    }))
}

fn default_address(args: &Args) -> SocketAddr {
    let port = match args.services.iter().min() {
        None => 9464,
        Some(Service::Memory) => 9481,
        Some(Service::Tools) => 9482,
        Some(Service::Executor) => 9483,
        Some(Service::Planner) => 9484,
        Some(Service::Orchestrator) => 9485,
    };
    SocketAddr::from(([127, 0, 0, 1], port))
}

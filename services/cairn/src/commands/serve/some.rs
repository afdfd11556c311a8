//! Some of the services in this process, the others elsewhere; or all of them, over a store that other
//! processes share.

use super::admission::Admission;
use super::metrics::{self, Metrics};
use super::{Args, LONG, MOMENT, bind, check};
use crate::attach::start_error;
use crate::context::Context;
use crate::error::CliError;
use crate::node::{Node, Parts, Placement, Service};
use crate::settings::{self, links::internal_address};
use crate::ui::out;
use cairn_rpc::{Listener, Server};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long the store may take to close.
const CLOSE: Duration = Duration::from_secs(5);

/// The sockets of a process with some services.
struct Listeners {
    /// For clients.
    public: Option<TcpListener>,
    /// For other services.
    internal: Option<TcpListener>,
}

/// Serves the services that were named until it is told to stop.
pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitCode, CliError> {
    let here = args.here();
    // Before any work: a port in use is known at once.
    let listeners = Listeners::bind(&here, args, context).await?;
    let first = here.first().copied().filter(|_| !args.services.is_empty());
    let metrics = metrics::serve(first, args.allow_remote, context).await?;
    let Listeners { public, internal } = &listeners;
    let anonymous = args.allow_anonymous;
    let admission = Admission::of(context, public.as_ref(), internal.as_ref(), anonymous)?;
    let placement = context.config().links.placement(here, &admission.tokens);
    let workspace = context.config().workspace.path.clone();
    let parts = Parts {
        authenticators: admission.authenticators.clone(),
        ..settings::parts(context, &workspace)?
    };
    let store = context.config().store.path.clone();
    let node = tokio::select! {
        node = Node::start_some(parts, &placement) => node,
        () = context.stop.cancelled() => return Ok(ExitCode::SUCCESS),
    };
    let node = node.map_err(|error| start_error(&error, &store))?;
    announce(
        context,
        &placement,
        &listeners,
        &admission,
        metrics.as_ref(),
    )?;
    let stop = CancellationToken::new();
    let mut serving = Vec::new();
    for (listener, server) in [
        (listeners.public, node.public()),
        (listeners.internal, node.internal()),
    ] {
        serving.extend(listener.map(|listener| serve(listener, server, &stop)));
    }
    let is_lost = tokio::select! {
        () = context.stop.cancelled() => false,
        _ = futures::future::select_all(&mut serving) => true,
    };
    node.public().health().stop().await;
    let grace = context.config().serve.grace;
    // What it leaves behind is durable.
    let _ = cairn_boot::drain(node.drain(), grace).await;
    stop.cancel();
    for serving in serving.iter_mut().filter(|serving| !serving.is_finished()) {
        if tokio::time::timeout(MOMENT, &mut *serving).await.is_err() {
            serving.abort();
        }
    }
    if tokio::time::timeout(CLOSE, node.close()).await.is_err() {
        tracing::warn!("the store was not closed in time; its log is taken up when it is opened");
    }
    match is_lost {
        true => Err(CliError::new(
            "a listener could not go on; the log says why",
        )),
        false => Ok(ExitCode::SUCCESS),
    }
}

impl Listeners {
    async fn bind(
        here: &BTreeSet<Service>,
        args: &Args,
        context: &Context,
    ) -> Result<Self, CliError> {
        let settings = &context.config().serve;
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

fn serve(listener: TcpListener, server: &Server, stop: &CancellationToken) -> JoinHandle<()> {
    let (server, stop) = (server.clone(), stop.clone().cancelled_owned());
    tokio::spawn(async move {
        let served = server.serve(Listener::from(listener), stop, LONG);
        if let Err(error) = served.await {
            tracing::error!(%error, "a listener is no longer served");
        }
    })
}

fn announce(
    context: &Context,
    placement: &Placement,
    listeners: &Listeners,
    admission: &Admission,
    metrics: Option<&Metrics>,
) -> Result<(), CliError> {
    let names: Vec<&str> = placement
        .here
        .iter()
        .map(|service| service.name())
        .collect();
    let address = |listener: &Option<TcpListener>| -> Result<Option<SocketAddr>, CliError> {
        Ok(listener.as_ref().map(TcpListener::local_addr).transpose()?)
    };
    let (public, internal) = (address(&listeners.public)?, address(&listeners.internal)?);
    let url = |address: SocketAddr| format!("http://{address}");
    if context.json {
        let mut line = Map::new();
        line.insert("services".into(), json!(names));
        line.extend(public.map(|public| ("listen".into(), Value::from(url(public)))));
        line.extend(internal.map(|internal| ("internal".into(), Value::from(url(internal)))));
        line.extend(metrics.map(|metrics| ("metrics".into(), Value::from(metrics.url()))));
        line.insert("token_file".into(), json!(admission.token_file()));
        return out::json(&Value::Object(line));
    }
    let names = names.join(", ");
    let mut places = Vec::new();
    places.extend(public.map(|public| format!("{} for clients", url(public))));
    places.extend(internal.map(|internal| format!("{} for Cairn's services", url(internal))));
    out::line(&format!("{names}: listening on {}", places.join(" and ")))?;
    admission.announce()?;
    match metrics {
        Some(metrics) => out::line(&format!("metrics on {}", metrics.url())),
        None => Ok(()),
    }
}

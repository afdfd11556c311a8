//! `cairn serve`: services of this process, for other programs: all five, or some of them.

mod admission;
mod announce;
mod listeners;
mod metrics;

use super::Flag;
use crate::attach;
use crate::context::Context;
use crate::error::CliError;
use crate::node::{Node, Parts, Service};
use crate::serving::Serving;
use crate::settings;
use admission::Admission;
use announce::announce;
use listeners::Listeners;
use std::collections::BTreeSet;
use std::process::ExitCode;

/// What can be said to `cairn serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The services of this process [default: all five]
    #[arg(value_name = "SERVICE", value_enum)]
    services: Vec<Service>,
    /// Address and port of the public gRPC API; port 0 takes a free one [default: 127.0.0.1:7878]
    #[arg(long, value_name = "ADDRESS")]
    pub(super) listen: Option<String>,
    /// Address and port for Cairn's other services, where some of them are in other processes; port 0
    /// takes a free one [default: a port of its own for each service on 127.0.0.1, from 7881]
    #[arg(long, value_name = "ADDRESS", requires = "services")]
    pub(super) internal: Option<String>,
    /// Where a service of another process is, such as memory=http://memory:7881; several addresses
    /// are joined by commas [default: where cairn serve SERVICE listens on this machine]
    #[arg(long = "link", value_name = "SERVICE=URL", requires = "services", value_parser = link)]
    pub(super) links: Vec<Link>,
    /// Refuse a store on Redis whose settings do not keep what was answered
    #[arg(long)]
    pub(super) require_durable: bool,
    /// Allow an address that other machines reach. There is no TLS: calls, and the token that they
    /// carry, can be read on their way, so use a network of your own machines only
    #[arg(long)]
    allow_remote: bool,
    /// Admit clients without a token on the public listener: every client that reaches it may start
    /// runs, read every session and have every allowed tool called. Cairn's own services still need
    /// a token on the internal listener
    #[arg(long)]
    allow_anonymous: bool,
    /// A collector that traces are sent to, as OTLP over gRPC, such as http://127.0.0.1:4317
    /// [default: none; environment: OTEL_EXPORTER_OTLP_ENDPOINT]
    #[arg(long, value_name = "URL")]
    pub(super) otlp: Option<String>,
    /// Address and port of the metrics, for Prometheus; port 0 takes a free one, off is none
    /// [default: 127.0.0.1:9464; 9481 to 9485 for memory, tools, executor, planner, orchestrator]
    #[arg(long, value_name = "ADDRESS")]
    pub(super) metrics: Option<String>,
    /// How long running calls may take to end after Ctrl-C [default: 10s]
    #[arg(long, value_name = "TIME")]
    pub(super) grace: Option<String>,
    /// The default model, by its name in the settings
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
    /// How long the offline model waits before each reply
    #[arg(long, value_name = "TIME")]
    pub(super) pace: Option<String>,
}

impl Args {
    /// The flags that were given and set a setting.
    pub(super) fn flags(&self) -> Vec<Option<Flag>> {
        let given = |flag, setting, value: Option<String>| Some((flag, setting, value?));
        let mut flags = vec![
            given("--pace", "model.pace", self.pace.clone()),
            given("--model", "model.default", self.model.clone()),
            given("--listen", "serve.listen", self.listen.clone()),
            given("--internal", "serve.internal", self.internal.clone()),
            given("--grace", "serve.grace", self.grace.clone()),
            given("--otlp", "telemetry.otlp", self.otlp.clone()),
            given("--metrics", "telemetry.metrics", self.metrics.clone()),
            given(
                "--require-durable",
                "store.redis.require_durable",
                self.require_durable.then(|| "true".to_owned()),
            ),
        ];
        let links = self.links.iter();
        let links = links.map(|link| given("--link", link.setting, Some(link.addresses.clone())));
        flags.extend(links);
        flags
    }

    /// The services of this process.
    pub(super) fn here(&self) -> BTreeSet<Service> {
        match self.services.is_empty() {
            true => Service::ALL.into(),
            false => self.services.iter().copied().collect(),
        }
    }

    /// Whether the process holds a store in a file, for all services.
    fn holds_a_store(&self, context: &Context) -> bool {
        self.services.is_empty() && !context.config().store.is_redis()
    }
}

/// Where a service of another process is.
#[derive(Debug, Clone)]
pub(super) struct Link {
    setting: &'static str,
    addresses: String,
}

/// Reads `memory=http://host:port`; the addresses are read with the settings. Orchestrators are
/// called by clients only.
fn link(text: &str) -> Result<Link, String> {
    let (name, addresses) = text.split_once('=').unwrap_or((text, ""));
    let setting = match name {
        "memory" => "links.memory",
        "tools" => "links.tools",
        "executor" => "links.executor",
        "planner" => "links.planner",
        _ => return Err("memory=, tools=, executor= or planner= with an address".to_owned()),
    };
    let addresses = addresses.to_owned();
    Ok(Link { setting, addresses })
}

const EXAMPLES: &str = "\
Examples:
  cairn serve
  cairn serve --listen 127.0.0.1:0 --json     the port is in the line that it prints
  cairn serve memory                          one service; the others in processes of their own:
  cairn serve orchestrator --link executor=http://10.0.0.7:7883,http://10.0.0.8:7883
  cairn serve --otlp http://127.0.0.1:4317    traces go to a collector on this machine
  grpcurl -plaintext 127.0.0.1:7878 list

Calls over TCP need a token, except health and reflection. Commands of the same user on this machine
find it by themselves; the server's first lines say where it is. For services on several machines, set
CAIRN_TOKEN or serve.token_file to one token on all of them.

The server continues unfinished sessions by itself. Commands such as cairn watch work beside it: with
all services here through the socket next to the store, else with --server.
Ctrl-C stops gracefully, a second one at once.";

/// Serves until it is told to stop.
///
/// # Errors
/// An address that is not allowed or not free; a store that another process holds; a listener that
/// fails.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    check_server(&args, context)?;
    if args.here().contains(&Service::Memory) && !context.config().store.is_redis() {
        context.config().store.file()?;
    }
    // Before any work: a port in use is known at once.
    let listeners = Listeners::bind(&args, context).await?;
    let metrics = metrics::serve(&args, context).await?;
    let has_socket = args.holds_a_store(context);
    let admission = Admission::of(context, &listeners, args.allow_anonymous, has_socket)?;
    let Some(mut serving) = Box::pin(start(&args, context, &admission)).await? else {
        return Ok(ExitCode::SUCCESS);
    };
    announce(&args, context, &listeners, &admission, metrics.as_ref())?;
    let pages = metrics.as_ref().map(|metrics| &metrics.pages);
    serving.listen(listeners.public, listeners.internal, pages, &context.stop);
    let is_lost = tokio::select! {
        biased;
        () = context.stop.cancelled() => false,
        () = serving.lost() => true,
    };
    let grace = context.config().serve.grace;
    serving.finish(grace, std::future::pending()).await;
    match is_lost {
        true => Err(CliError::new(
            "a listener could not go on; the log says why",
        )),
        false => Ok(ExitCode::SUCCESS),
    }
}

/// A command with a configured server calls that one, and a process that serves all services would
/// talk to itself.
fn check_server(args: &Args, context: &Context) -> Result<(), CliError> {
    match &context.config().client.server {
        Some(server) if args.holds_a_store(context) => {
            let origin = context.settings.origin("client.server");
            let message = format!(
                "{origin}: client.server names {server}, and cairn serve uses no other server"
            );
            let hint = "leave it out here: set it for the commands that talk to the server";
            Err(CliError::usage(message).hint(hint))
        }
        _ => Ok(()),
    }
}

/// The started services; none if the process is stopped while it waits for others.
async fn start(
    args: &Args,
    context: &Context,
    admission: &Admission,
) -> Result<Option<Serving>, CliError> {
    if args.holds_a_store(context) {
        let serving = attach::hold(context, &admission.authenticators).await?;
        return Ok(Some(serving));
    }
    let settings = context.config();
    let placement = settings.links.placement(args.here(), &admission.tokens);
    let parts = Parts {
        authenticators: admission.authenticators.clone(),
        ..settings::parts(context, &settings.workspace.path)?
    };
    let node = tokio::select! {
        node = Node::start_some(parts, &placement) => node,
        () = context.stop.cancelled() => return Ok(None),
    };
    let node = node.map_err(|error| attach::start_error(context, &error))?;
    Ok(Some(Serving::new(node)))
}

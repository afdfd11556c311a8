//! `cairn serve`: services of this process, for other programs: all five, or some of them.

mod admission;
mod metrics;
mod some;

use super::Flag;
use crate::attach::{Access, Attached, attach_with};
use crate::context::Context;
use crate::error::CliError;
use crate::node::Service;
use crate::ui::out;
use admission::Admission;
use cairn_boot::Origin;
use cairn_rpc::Listener;
use metrics::Metrics;
use serde_json::json;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;
use tokio::net::TcpListener;

/// Longer than anybody waits: the grace is that of the work, not that of connections.
const LONG: Duration = Duration::from_secs(24 * 3600);
/// How long answers may take to reach their clients once the work has ended.
const MOMENT: Duration = Duration::from_millis(500);

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
    /// The folder that tools read and commands run in [default: the current one]
    #[arg(long = "in", value_name = "DIR")]
    pub(super) workspace: Option<std::path::PathBuf>,
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
        let workspace = self.workspace.as_ref();
        let mut flags = vec![
            given(
                "--in",
                "workspace.path",
                workspace.map(|path| path.to_string_lossy().into()),
            ),
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
/// An address that is not allowed or not free; a store that another process holds.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    if !args.services.is_empty() || context.config().store.is_redis() {
        return some::run(&args, context).await;
    }
    let address = context.config().serve.listen;
    check("serve.listen", address, args.allow_remote, context)?;
    // Before any work: a port in use is known at once.
    let listener = bind(address, "--listen").await?;
    let address = listener.local_addr()?;
    let metrics = metrics::serve(None, args.allow_remote, context).await?;
    let admission = Admission::of(context, Some(&listener), None, args.allow_anonymous)?;
    let attached = attach_with(context, Access::Hold, &admission.authenticators).await?;
    let Some(server) = attached.public().cloned() else {
        let store = attached.store.display();
        return Err(
            CliError::new(format!("another process holds the store {store}"))
                .hint("end it first, or use another store with --store"),
        );
    };
    announce(context, address, &admission, metrics.as_ref(), &attached)?;
    let stop = context.stop.clone().cancelled_owned();
    let grace = context.config().serve.grace;
    let listener = Listener::from(listener);
    let mut serving = tokio::spawn(async move { server.serve(listener, stop, LONG).await });
    let failed = tokio::select! {
        served = &mut serving => Some(served),
        () = context.stop.cancelled() => None,
    };
    attached.finish_within(grace).await;
    let Some(served) = failed else {
        // Everything is durable and given back. Whoever still watches comes back to the next one.
        if tokio::time::timeout(MOMENT, &mut serving).await.is_err() {
            serving.abort();
        }
        return Ok(ExitCode::SUCCESS);
    };
    let served = served.map_err(|error| CliError::chain(&error))?;
    served.map_err(|error| CliError::chain(&error))?;
    Ok(ExitCode::SUCCESS)
}

/// What a port sends and takes is not encrypted, so it is not opened to others by accident.
fn check(
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

fn announce(
    context: &Context,
    address: SocketAddr,
    admission: &Admission,
    metrics: Option<&Metrics>,
    attached: &Attached,
) -> Result<(), CliError> {
    let store = attached.store.display().to_string();
    let socket = attached.store.with_file_name("cairn.sock");
    let socket = socket.display().to_string();
    let model = context.config().default_model();
    if context.json {
        let mut line = json!({
            "listen": format!("http://{address}"), "socket": socket, "store": store, "model": model,
        });
        if let Some(metrics) = metrics {
            line["metrics"] = metrics.url().into();
        }
        line["token_file"] = admission.token_file().into();
        return out::json(&line);
    }
    out::line(&format!("listening on http://{address} and unix:{socket}"))?;
    admission.announce()?;
    if let Some(metrics) = metrics {
        out::line(&format!("metrics on {}", metrics.url()))?;
    }
    let workspace = context.config().workspace.path.display().to_string();
    let line = format!("store {store} · workspace {workspace} · model {model}");
    out::line(&cairn_rpc::text::escape(&line))
}

//! `cairn serve`: all services in this process, for other programs.

use crate::attach::{Access, Attached, attach};
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use cairn_boot::Origin;
use cairn_rpc::Listener;
use serde_json::json;
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
    /// Address and port of the public gRPC API; port 0 takes a free one [default: 127.0.0.1:7878]
    #[arg(long, value_name = "ADDRESS")]
    pub(super) listen: Option<String>,
    /// Allow an address that other machines reach. There is no TLS and no login: whoever reaches
    /// the port may start runs, read every session and have every allowed tool called
    #[arg(long)]
    allow_remote: bool,
    /// How long running calls may take to end after Ctrl-C [default: 10s]
    #[arg(long, value_name = "TIME")]
    pub(super) grace: Option<String>,
    /// The folder that tools read and commands run in [default: the current one]
    #[arg(long = "in", value_name = "DIR")]
    pub(super) workspace: Option<std::path::PathBuf>,
    /// The default model, by its name in the settings
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
    /// How long the rehearsal waits before each reply
    #[arg(long, value_name = "TIME")]
    pub(super) pace: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  cairn serve
  cairn serve --listen 127.0.0.1:0 --json     the port is in the line that it prints
  grpcurl -plaintext 127.0.0.1:7878 list

Health and reflection are on. Unfinished sessions go on by themselves. Commands such as cairn watch
work beside it, through the socket next to the store. Ctrl-C stops gracefully, a second one at once.";

/// Serves until it is told to stop.
///
/// # Errors
/// An address that is not allowed or not free; a store that another process holds.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let address = context.config().serve.listen;
    check(address, &args, context)?;
    // Before any work: a port in use is known at once.
    let listener = TcpListener::bind(address).await.map_err(|error| {
        CliError::new(format!("cannot listen on {address}: {error}"))
            .hint("give another address with --listen")
    })?;
    let address = listener.local_addr()?;
    let attached = attach(context, Access::Hold).await?;
    let Some(server) = attached.public().cloned() else {
        let store = attached.store.display();
        return Err(
            CliError::new(format!("another process holds the store {store}"))
                .hint("end it first, or use another store with --store"),
        );
    };
    announce(context, address, &attached)?;
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

fn check(address: SocketAddr, args: &Args, context: &Context) -> Result<(), CliError> {
    if address.ip().is_loopback() || args.allow_remote {
        return Ok(());
    }
    let origin = match context.settings.origin("serve.listen") {
        Origin::Default => String::new(),
        origin => format!("{origin}: "),
    };
    Err(CliError::usage(format!(
        "{origin}{address} can be reached by other machines, and there is no TLS and no login"
    ))
    .hint("listen on 127.0.0.1, or say that this is what you want with --allow-remote"))
}

fn announce(context: &Context, address: SocketAddr, attached: &Attached) -> Result<(), CliError> {
    let store = attached.store.display().to_string();
    let socket = attached.store.with_file_name("cairn.sock");
    let socket = socket.display().to_string();
    let model = context.config().default_model();
    if context.json {
        return out::json(&json!({
            "listen": format!("http://{address}"), "socket": socket, "store": store, "model": model,
        }));
    }
    out::line(&format!("listening on http://{address} and unix:{socket}"))?;
    let workspace = context.config().workspace.path.display().to_string();
    let line = format!("store {store} · workspace {workspace} · model {model}");
    out::line(&cairn_rpc::text::escape(&line))
}

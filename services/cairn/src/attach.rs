//! How a command reaches the services: through the process that holds the store, or by holding it.
//!
//! Only the lock on the store makes a holder. Whoever has it serves the public services on
//! `cairn.sock` beside the store, so that other commands work at the same time.

mod access;

pub use access::{Access, Servers};

use crate::client::{self, ACTIVE, UNFINISHED};
use crate::context::Context;
use crate::error::CliError;
use crate::node::{self, Authenticators, Node, Parts, StartError};
use crate::serving::{Serving, socket};
use crate::settings::Addresses;
use crate::tokens::Tokens;
use crate::ui::screen;
use crate::ui::text::quoted;
use crate::{settings, workspace};
use cairn_engine::failure::Failure;
use cairn_memory::sqlite::OpenError;
use cairn_orchestrator::Mode;
use cairn_rpc::{Address, Link, RpcError, Server};
use std::future::pending;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// How long a held store without a socket is waited for: its holder starts, or ends.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);
/// Where versions before this one kept the store: in the folder in which the command was begun.
const OLDER: &str = ".cairn/cairn.db";
/// What takes longer than this is explained.
const QUIET: Duration = Duration::from_millis(700);
/// How long the process at the socket may take to say that it is well.
const ANSWER: Duration = Duration::from_secs(3);
/// How long calls with side effects may take to end before a command leaves them behind.
pub const GRACE: Duration = Duration::from_secs(10);

/// A way to the public services.
#[derive(Debug)]
pub struct Attached {
    /// The services.
    pub link: Link,
    /// The store's file.
    pub store: PathBuf,
    /// The folder that whoever holds the store works in, or worked in last.
    pub workspace: Option<PathBuf>,
    way: Way,
}

#[derive(Debug)]
enum Way {
    /// Through the socket of the process that holds the store, and whether it carries out steps; or at
    /// the address of a server.
    Remote { works: bool },
    /// By reading the file.
    Reader { _server: Server },
    /// This process holds the store.
    Holder(Box<Serving>),
}

impl Attached {
    /// Whether this process holds the store, and so works on its sessions.
    pub fn is_holder(&self) -> bool {
        matches!(self.way, Way::Holder(_))
    }

    /// Whether another process holds the store.
    pub fn is_remote(&self) -> bool {
        matches!(self.way, Way::Remote { .. })
    }

    /// Whether another process that holds the store carries out steps.
    pub fn is_carried_out_elsewhere(&self) -> bool {
        matches!(self.way, Way::Remote { works: true })
    }

    /// Whether nobody holds the store, and its file is read.
    pub fn is_reader(&self) -> bool {
        matches!(self.way, Way::Reader { .. })
    }

    /// Has this process work on the session, if it holds the store.
    pub fn take_up(&self, session: &str) {
        if let Way::Holder(holder) = &self.way {
            holder.node().take_up(session);
        }
    }

    /// Lets running calls end, gives all sessions back and removes the socket. What does not end
    /// within [`GRACE`] is left behind: it is durable, and the next owner continues it. Hooks about the end of a run
    /// have the time `for_hooks` more, because a next owner may never come. `stop` takes it from them.
    pub async fn finish(self, for_hooks: Duration, stop: &CancellationToken) {
        let Way::Holder(serving) = self.way else {
            return;
        };
        let is_stopped = stop.is_cancelled();
        let for_hooks = if is_stopped {
            Duration::ZERO
        } else {
            for_hooks
        };
        let given_up = async {
            // The grace is over then, too.
            if is_stopped {
                pending::<()>().await;
            }
            stop.cancelled().await;
            sleep(GRACE).await;
        };
        Box::pin(serving.finish(GRACE + for_hooks, given_up)).await;
    }
}

/// Reaches the services.
///
/// # Errors
/// No store to read; a store that cannot be opened; a store that another process holds without
/// answering; work of another folder than the one that this command is to work in; a token file that
/// cannot be read.
pub async fn attach(
    context: &Context,
    access: Access,
    servers: &Servers,
) -> Result<Attached, CliError> {
    attach_with(context, access, servers, &Authenticators::default()).await
}

/// Holds the store and works on all sessions, to serve the public services on a TCP listener, too.
///
/// # Errors
/// See [`attach`]; or another process holds the store.
pub async fn hold(context: &Context, authenticators: &Authenticators) -> Result<Serving, CliError> {
    let attached = attach_with(context, Access::Hold, &Servers::All, authenticators).await?;
    let Way::Holder(serving) = attached.way else {
        let store = attached.store.display();
        return Err(
            CliError::new(format!("another process holds the store {store}"))
                .hint("end it first, or use another store with --store"),
        );
    };
    Ok(*serving)
}

async fn attach_with(
    context: &Context,
    access: Access,
    servers: &Servers,
    authenticators: &Authenticators,
) -> Result<Attached, CliError> {
    if let Some(server) = &context.config().client.server {
        return at_server(context, server).await;
    }
    if context.config().store.is_redis() {
        return Err(shared_store(context));
    }
    let store = context.config().store.file()?.to_owned();
    let path = socket::path(&store);
    let change_path = socket::path_for_change(&store);
    let began = Instant::now();
    let (mut alone_since, mut is_reported) = (began, false);
    loop {
        if let Some(link) = answering(&path).await {
            return to_holder(context, access, link, store);
        }
        if let Some(link) = answering(&change_path).await {
            match access.works() {
                true => alone_since = Instant::now(),
                false => return Ok(remote(link, store, false)),
            }
        }
        match access {
            Access::Read => return read(context, store, authenticators).await,
            Access::Change if !is_there(&store) => return Err(missing(context, &store)),
            _ => {}
        }
        let workspace = workspace_for(context, access, &store, authenticators).await?;
        let parts = parts(context, access, servers, &workspace, authenticators)?;
        match Box::pin(Node::start(parts)).await {
            Ok(node) => {
                let path = [&path, &change_path][usize::from(access.changes())];
                return Box::pin(serve(context, node, store, path, access, &workspace)).await;
            }
            Err(error) if is_held(&error) => {}
            Err(error) => return Err(start_error(context, &error)),
        }
        if alone_since.elapsed() >= PATIENCE {
            return Err(held(&store));
        }
        if !is_reported && began.elapsed() > QUIET {
            is_reported = true;
            tracing::warn!(store = %store.display(), "waiting for another process to let go of the store");
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            () = context.stop.cancelled() => return Err(held(&store)),
        }
    }
}

fn remote(link: Link, store: PathBuf, works: bool) -> Attached {
    Attached {
        link,
        workspace: workspace::noted(&store),
        store,
        way: Way::Remote { works },
    }
}

/// Attached to the process that holds the store and carries out steps.
fn to_holder(
    context: &Context,
    access: Access,
    link: Link,
    store: PathBuf,
) -> Result<Attached, CliError> {
    let attached = remote(link, store, true);
    if access.works() {
        workspace::check_holder(context, attached.workspace.as_deref())?;
    }
    Ok(attached)
}

/// What a holder is made of. One that comes for a change carries out nothing.
fn parts(
    context: &Context,
    access: Access,
    servers: &Servers,
    workspace: &Path,
    authenticators: &Authenticators,
) -> Result<Parts, CliError> {
    let mut parts = settings::parts(context, workspace)?;
    let named = context.config().check_named_model(&parts.models);
    named.map_err(|fault| CliError::usage(fault.to_string()))?;
    servers.hold_back_others(&mut parts);
    parts.orchestrator.waits_for_tools = *servers != Servers::Present;
    // `serve` has a log, and so has a command that no person watches.
    let notice: fn(&str) = screen::tell;
    let is_watched = access != Access::Hold && std::io::stderr().is_terminal();
    parts.orchestrator.notice = is_watched.then_some(notice);
    parts.authenticators = authenticators.clone();
    parts.orchestrator.mode = match access {
        Access::Read | Access::Change | Access::Make => Mode::AnswerOnly,
        Access::Own => Mode::ClaimRequested,
        Access::Hold => Mode::ClaimAny,
    };
    Ok(parts)
}

/// A store that many processes share is worked on by those that serve. A command beside them would
/// take up whatever is due there, with the tools and the folder of this machine.
fn shared_store(context: &Context) -> CliError {
    let place = context.config().store.place();
    CliError::usage(format!(
        "the store at {place} is for cairn serve; this command talks to one that runs"
    ))
    .hint("begin one with: cairn serve\nand name its address with --server or CAIRN_SERVER")
}

/// The process at the socket, if there is one that serves.
async fn answering(path: &Path) -> Option<Link> {
    if !path.exists() {
        return None;
    }
    let link = Link::remote(&Address::unix(path));
    is_serving(&link).await.is_ok().then_some(link)
}

async fn is_serving(link: &Link) -> Result<(), RpcError> {
    match health(link, "").await? {
        true => Ok(()),
        false => Err(RpcError::unavailable("it says that it does not serve")),
    }
}

/// What the services at the other end say of a part; of the whole if it has no name.
///
/// # Errors
/// No answer, or a part that they do not know.
pub async fn health(link: &Link, part: &str) -> Result<bool, RpcError> {
    let mut health = HealthClient::new(link.clone());
    let request = HealthCheckRequest {
        service: part.to_owned(),
    };
    let answer = timeout(ANSWER, health.check(request)).await;
    let late = |_| RpcError::unavailable("no answer came in time");
    let answer = answer.map_err(late)??.into_inner();
    Ok(answer.status() == ServingStatus::Serving)
}

/// The services at an address that was given. One that does not answer is waited for: it may be
/// starting again.
async fn at_server(context: &Context, server: &Addresses) -> Result<Attached, CliError> {
    let link = server.link(&Tokens::of(context)?);
    let began = Instant::now();
    let mut is_reported = false;
    while let Err(error) = is_serving(&link).await {
        if began.elapsed() >= PATIENCE || context.stop.is_cancelled() {
            return Err(
                CliError::new(format!("the services at {server} do not answer: {error}")).hint(
                    "begin them with: cairn serve
or name others with --server",
                ),
            );
        }
        if !is_reported && began.elapsed() > QUIET {
            is_reported = true;
            // A conversation at the terminal says it itself.
            if !screen::shows_conversation() {
                tracing::warn!("waiting for the services at {server}: {error}");
            }
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            () = context.stop.cancelled() => {}
        }
    }
    Ok(Attached {
        link,
        store: context.config().store.path.clone().unwrap_or_default(),
        workspace: None,
        way: Way::Remote { works: true },
    })
}

async fn read(
    context: &Context,
    store: PathBuf,
    authenticators: &Authenticators,
) -> Result<Attached, CliError> {
    let config = settings::reader(context)?;
    let server = node::read_only(&store, config, authenticators.public.clone()).await;
    let server = server.map_err(|error| start_error(context, &error))?;
    Ok(Attached {
        link: server.link(),
        workspace: workspace::noted(&store),
        store,
        way: Way::Reader { _server: server },
    })
}

/// The folder that a holder of the store works in. Whoever is there for one change has plans made, so
/// it does that where the work belongs. Tools are tried where the command is.
async fn workspace_for(
    context: &Context,
    access: Access,
    store: &Path,
    authenticators: &Authenticators,
) -> Result<PathBuf, CliError> {
    if access == Access::Hold {
        // Before anything is claimed.
        let unfinished = Box::pin(unfinished(context, store, authenticators));
        workspace::check_unfinished(context, store, unfinished).await?;
    }
    let noted = workspace::elsewhere(context, store);
    let noted = noted.filter(|noted| access == Access::Change && noted.is_dir());
    Ok(noted.unwrap_or_else(|| context.config().workspace.path.clone()))
}

/// The sessions of the store whose run has not ended. Takes no lock.
async fn unfinished(
    context: &Context,
    store: &Path,
    authenticators: &Authenticators,
) -> Result<Vec<String>, CliError> {
    let config = settings::reader(context)?;
    let server = match node::read_only(store, config, authenticators.public.clone()).await {
        Ok(server) => server,
        // A note without its store; one that cannot be opened is told when it is.
        Err(StartError::ReadOnly(OpenError::Missing { .. })) => return Ok(Vec::new()),
        Err(error) => return Err(start_error(context, &error)),
    };
    client::ids_with_status(&server.link(), &ACTIVE).await
}

async fn serve(
    context: &Context,
    node: Node,
    store: PathBuf,
    path: &Path,
    access: Access,
    workspace: &Path,
) -> Result<Attached, CliError> {
    let noted = workspace::noted(&store);
    // One change does not make its folder that of the work. Before the socket, so that whoever
    // comes through it finds the note.
    if access.works() || noted.is_none() {
        let (folder, link) = (std::fs::canonicalize(workspace)?, node.link());
        let unfinished = client::ids_with_status(&link, &UNFINISHED);
        workspace::note(context, &store, folder, unfinished).await?;
    }
    let mut serving = Serving::new(node);
    serving.listen_at(path)?;
    Ok(Attached {
        link: serving.node().link(),
        workspace: workspace::noted(&store),
        store,
        way: Way::Holder(Box::new(serving)),
    })
}

fn open_error(error: &StartError) -> Option<&OpenError> {
    match error {
        StartError::Store(cairn_memory::BuildError::Store(error)) | StartError::ReadOnly(error) => {
            Some(error)
        }
        _ => None,
    }
}

/// The address of the tools service is that of another service.
fn is_without_tools(error: &StartError) -> bool {
    matches!(error, StartError::Config(failure) if *failure == Failure::missing("tool_registry"))
}

fn is_held(error: &StartError) -> bool {
    matches!(open_error(error), Some(OpenError::Held { .. }))
}

fn held(store: &Path) -> CliError {
    let store = store.display();
    CliError::new(format!(
        "another process holds the store {store} and does not answer"
    ))
    .hint(format!(
        "find it with: fuser {store}.lock\nend it, wait for it, or use another store with --store"
    ))
}

/// Whether a store is there, whole or not: one that has lost its file is no new one.
fn is_there(store: &Path) -> bool {
    let mut log = store.as_os_str().to_owned();
    log.push("-wal");
    store.exists() || Path::new(&log).exists()
}

/// Says where the store was looked for, and for which folder.
fn missing(context: &Context, store: &Path) -> CliError {
    let mut message = format!("there is no store at {}", store.display());
    let mut hint =
        "begin with: cairn run \"<goal>\"\nor name the store with --store or CAIRN_STORE"
            .to_owned();
    if context.config().store.is_of_workspace {
        let workspace = &context.config().workspace.path;
        let folder = workspace::own(context);
        let folder = folder.as_deref().unwrap_or(workspace).display();
        message.push_str(&format!(", which would be that of the workspace {folder}"));
        hint.push_str("\nor name another workspace with --in");
        let older = [PathBuf::from(OLDER), workspace.join(OLDER)];
        if let Some(older) = older.iter().find(|path| path.is_file()) {
            let older = quoted(&older.to_string_lossy());
            hint.push_str(&format!(
                "\nthe store of an older version is here: --store {older}"
            ));
        }
    }
    CliError::new(message).hint(hint)
}

/// What is said of a node that does not start.
pub fn start_error(context: &Context, error: &StartError) -> CliError {
    let store = context.config().store.path.as_deref();
    match (open_error(error), store) {
        (Some(OpenError::Missing { .. }), Some(store)) => missing(context, store),
        (Some(error), _) => CliError::chain(error),
        (None, _) if is_without_tools(error) => CliError::chain(error).hint(
            "give the address of the tools service with --link tools=URL or links.tools\n\
             start the service with: cairn serve tools",
        ),
        (None, _) => CliError::chain(error),
    }
}

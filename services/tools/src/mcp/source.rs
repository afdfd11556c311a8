//! A server as a source of tools: started, listed, watched and started again.

mod session;

use super::SEPARATOR;
use super::call::Live;
use super::config::{Origin, Protocol, Server};
use super::connect::{Target, protocol_of};
use super::pins;
use super::tool::McpTool;
use crate::allowances::{Allowances, Keep, PinnedServer};
use crate::service::Programs;
use crate::source::{AllowError, Listed, Listing, SourceState, ToolSource};
use crate::tool::Tool as _;
use async_trait::async_trait;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// How long a call waits for a server that is being started again.
const STARTING: Duration = Duration::from_secs(5);

/// What servers get from the process.
#[derive(Clone)]
pub struct McpDeps {
    /// The folder that programs run in.
    pub workspace: PathBuf,
    /// The process's environment, of which programs get `PATH` and what settings refer to, and what ends
    /// programs when this process is killed.
    pub programs: Programs,
    /// Where allowances and pins are kept.
    pub allowances: Allowances,
}

impl fmt::Debug for McpDeps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The environment may hold secrets.
        f.debug_struct("McpDeps")
            .field("workspace", &self.workspace)
            .finish_non_exhaustive()
    }
}

/// A server. Dropping it ends the connection and kills the server's program.
pub struct McpSource {
    shared: Arc<Shared>,
    task: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// What the source, its task and its tools share.
pub(crate) struct Shared {
    pub(crate) name: Arc<str>,
    target: Target,
    origin: Origin,
    /// Of the settings.
    digest: String,
    allowances: Arc<dyn Keep>,
    pinned: PinnedServer,
    now: Mutex<Now>,
    /// Held while a listing is made, so that an older one never replaces a newer one. Pins are read from a
    /// file meanwhile, and calls do not wait for that.
    publishing: Mutex<()>,
    listing: watch::Sender<Arc<Listing>>,
    /// A person may have allowed the server.
    allowed: Notify,
    stop: CancellationToken,
}

#[derive(Default)]
struct Now {
    /// The connection, while there is one.
    live: Option<Live>,
    state: SourceState,
    /// All tools that the server listed last, those that the settings leave out included.
    tools: Vec<Arc<McpTool>>,
    left_out: Vec<String>,
    /// The protocol that worked last.
    protocol: Option<Protocol>,
    is_allowed: bool,
}

/// Why a server does not start yet.
enum Wait {
    /// It is not known what was allowed: why.
    Unknown(String),
    /// It waits for a person: why.
    NotAllowed(String),
}

impl fmt::Debug for McpSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpSource")
            .field("name", &self.shared.name)
            .finish_non_exhaustive()
    }
}

impl McpSource {
    /// Starts the server named `name`, or waits for a person to allow it. Returns at once; needs a tokio
    /// runtime.
    pub fn start(name: &str, server: Server, deps: &McpDeps) -> Self {
        let Server { config, origin } = server;
        let folder = config.folder(&deps.workspace);
        let digest = config.digest(&deps.workspace);
        let identity = config.identity(&deps.workspace);
        let (listing, _) = watch::channel(Arc::new(Listing {
            state: SourceState::Starting,
            ..Listing::default()
        }));
        let shared = Arc::new(Shared {
            name: name.into(),
            target: Target {
                name: name.to_owned(),
                config,
                folder,
                programs: deps.programs.clone(),
                real_folder: Mutex::default(),
                is_reversed: AtomicBool::default(),
            },
            origin,
            allowances: deps.allowances.keep(),
            // One of another name has tools of other names.
            pinned: PinnedServer {
                name: format!("{name}:{identity}"),
                before: format!("{name}:{digest}"),
            },
            digest,
            now: Mutex::new(Now {
                state: SourceState::Starting,
                ..Now::default()
            }),
            publishing: Mutex::default(),
            listing,
            allowed: Notify::new(),
            stop: CancellationToken::new(),
        });
        if let Err(Wait::NotAllowed(why)) = shared.allowance() {
            // The first listing must not show it as one that is being started.
            shared.set_state(SourceState::NotAllowed(why));
        }
        let task = tokio::spawn(session::run(shared.clone()));
        Self {
            shared,
            task: Mutex::new(Some(AbortOnDropHandle::new(task))),
        }
    }

    /// Ends the connection, and the server's program: in peace within some seconds, else by force.
    pub async fn close(&self) {
        self.shared.stop.cancel();
        let task = self
            .task
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(task) = task {
            // It fails only if it panicked, which the log has.
            _ = task.await;
        }
    }
}

impl Drop for McpSource {
    fn drop(&mut self) {
        // Its tools hold what they share with it, and that holds the tools.
        let closed = SourceState::Unreachable("it is closed".to_owned());
        {
            let mut now = self.shared.now();
            now.live = None;
            now.tools.clear();
            now.state = closed.clone();
        }
        // Without the lock: those that wait for a listing take it within that.
        self.shared.listing.send_replace(Arc::new(Listing {
            state: closed,
            ..Listing::default()
        }));
    }
}

#[async_trait]
impl ToolSource for McpSource {
    fn name(&self) -> &str {
        &self.shared.name
    }

    fn place(&self) -> String {
        self.shared.target.config.place()
    }

    fn digest(&self) -> String {
        self.shared.digest.clone()
    }

    fn listing(&self) -> watch::Receiver<Arc<Listing>> {
        self.shared.listing.subscribe()
    }

    fn refresh(&self) -> bool {
        self.shared.refresh()
    }

    fn owns(&self, name: &str) -> bool {
        let rest = name.strip_prefix(&*self.shared.name);
        rest.is_some_and(|rest| rest.starts_with(SEPARATOR))
    }

    async fn allow(&self, name: &str, digest: &str) -> Result<Option<String>, AllowError> {
        if name == &*self.shared.name {
            return self.shared.allow_server(digest).await.map(Some);
        }
        self.shared.allow_tool(name, digest).await
    }
}

impl Shared {
    /// The connection.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn live(&self) -> Result<Live, String> {
        let now = self.now();
        match (&now.live, &now.state) {
            (Some(live), _) => Ok(live.clone()),
            (None, SourceState::NotAllowed(why) | SourceState::Unreachable(why)) => {
                Err(why.clone())
            }
            (None, SourceState::Starting | SourceState::Ready) => {
                Err("it is being started".to_owned())
            }
        }
    }

    /// The connection, waited for while the server is being started.
    ///
    /// # Errors
    /// Why there is none by then.
    pub(crate) async fn live_soon(&self, stop: &CancellationToken) -> Result<Live, String> {
        let mut listing = self.listing.subscribe();
        let is_settled = |_: &Arc<Listing>| {
            let now = self.now();
            now.live.is_some() || matches!(now.state, SourceState::NotAllowed(_))
        };
        // Either way, what there is by then counts.
        tokio::select! {
            _ = listing.wait_for(is_settled) => {}
            () = tokio::time::sleep(STARTING) => {}
            () = stop.cancelled() => {}
        }
        self.live()
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many tools there are, and how many are left out.
    fn counts(&self) -> (usize, usize) {
        let now = self.now();
        (now.tools.len(), now.left_out.len())
    }

    fn set_state(&self, state: SourceState) {
        self.now().state = state;
        self.publish();
    }

    /// Does what uses the disk in a thread of its own: a disk that stalls must not hold up the calls that
    /// share this task's worker. `None` if it panicked, or the process is ending.
    async fn in_thread<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Option<T> {
        let shared = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&shared)).await;
        done.ok()
    }

    /// Shows a start that has taken its time as one that is not worth a wait.
    fn end_wait(&self) {
        let start_ms = self.target.config.start_ms;
        let late = format!("it has not started within {start_ms} ms, and is still being tried");
        {
            let mut now = self.now();
            if now.state != SourceState::Starting {
                return;
            }
            now.state = SourceState::Unreachable(late);
        }
        self.publish();
    }

    /// Lists what there is now. May read the trust file.
    fn publish(&self) {
        let publishing = self.publishing.lock();
        let _publishing = publishing.unwrap_or_else(PoisonError::into_inner);
        let listing = self.list();
        self.listing.send_replace(Arc::new(listing));
    }

    /// Lists what there is now if pins differ, unless a list is being made. Says whether they do.
    fn refresh(&self) -> bool {
        match self.publishing.try_lock() {
            Ok(_publishing) => self.publish_pins(),
            Err(_) => false,
        }
    }

    /// The same, after a list that is being made: it may have the pins from before.
    fn refresh_later(&self) {
        let publishing = self.publishing.lock();
        let _publishing = publishing.unwrap_or_else(PoisonError::into_inner);
        self.publish_pins();
    }

    fn publish_pins(&self) -> bool {
        if self.now().tools.is_empty() {
            return false;
        }
        let next = Arc::new(self.list());
        let disabled = |listing: &Listing| -> Vec<Option<String>> {
            let tools = listing.tools.iter();
            tools.map(|listed| listed.disabled.clone()).collect()
        };
        self.listing.send_if_modified(|last| {
            let differs = disabled(last) != disabled(&next);
            if differs {
                *last = next;
            }
            differs
        })
    }

    /// What there is now.
    fn list(&self) -> Listing {
        let (tools, state, left_out) = {
            let now = self.now();
            (now.tools.clone(), now.state.clone(), now.left_out.clone())
        };
        let current = pins::of(tools.iter().map(|tool| tool.spec()));
        let pins = self.allowances.pins(&self.pinned, &current);
        let disabled = |tool: &str| match &pins {
            Ok(pins) => pins::disabled(pins, &current, tool),
            Err(why) => Some(why.clone()),
        };
        let listed = tools.iter().filter(|tool| self.is_listed(tool.remote()));
        Listing {
            tools: listed
                .map(|tool| Listed {
                    disabled: disabled(&tool.spec().name),
                    tool: tool.clone(),
                })
                .collect(),
            state,
            left_out,
        }
    }

    fn is_listed(&self, remote: &str) -> bool {
        let config = &self.target.config;
        let is_allowed = |allow: &Vec<String>| allow.iter().any(|name| name == remote);
        config.allow.as_ref().is_none_or(is_allowed)
            && !config.disabled_tools.iter().any(|name| name == remote)
    }

    /// Whether the server may start.
    ///
    /// # Errors
    /// Why not.
    fn allowance(&self) -> Result<(), Wait> {
        if self.origin == Origin::NotNeeded {
            let why = "the running command does not need it";
            return Err(Wait::NotAllowed(why.to_owned()));
        }
        // Its tools could not be judged.
        if let Some(why) = self.allowances.unknown() {
            return Err(Wait::Unknown(why));
        }
        let Origin::File(file) = &self.origin else {
            return Ok(());
        };
        if self.now().is_allowed {
            return Ok(());
        }
        let allowances = &self.allowances;
        match allowances.is_server_allowed(file, &self.name, &self.digest) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(why) => return Err(Wait::NotAllowed(why)),
        }
        let takes = match self.target.config.references() {
            takes if takes.is_empty() => String::new(),
            takes => format!(" and takes {}", takes.join(", ")),
        };
        let why = format!("it comes from '{}'{takes}", file.display());
        Err(Wait::NotAllowed(why))
    }

    async fn allow_server(&self, digest: &str) -> Result<String, AllowError> {
        if !digest.is_empty() && digest != self.digest {
            return Err(AllowError::Changed {
                name: self.name.to_string(),
                digest: self.digest.clone(),
            });
        }
        if self.origin == Origin::NotNeeded {
            let why =
                "a command runs that does not need the server; allow it after the command's end";
            return Err(AllowError::NotKept(why.to_owned()));
        }
        if let Origin::File(file) = &self.origin {
            let allowances = &self.allowances;
            let allowed = allowances.allow_server(file, &self.name, &self.digest);
            allowed.await?;
        }
        self.now().is_allowed = true;
        self.allowed.notify_one();
        Ok(self.digest.clone())
    }

    async fn allow_tool(
        self: &Arc<Self>,
        name: &str,
        digest: &str,
    ) -> Result<Option<String>, AllowError> {
        let tool = self
            .now()
            .tools
            .iter()
            .find(|tool| tool.spec().name == name)
            .cloned();
        let Some(tool) = tool else {
            return Ok(None);
        };
        let now = tool.spec().digest();
        if !digest.is_empty() && digest != now {
            return Err(AllowError::Changed {
                name: name.to_owned(),
                digest: now,
            });
        }
        let parts = pins::parts(tool.spec());
        self.allowances.pin(&self.pinned, name, parts).await?;
        self.in_thread(Self::publish).await;
        Ok(Some(now))
    }

    /// The protocol that worked last, also in another process.
    fn remembered(&self) -> Option<Protocol> {
        let known = self.now().protocol;
        known.or_else(|| protocol_of(&self.allowances.protocol(&self.digest)?))
    }

    async fn remember(&self, protocol: Protocol) {
        self.now().protocol = Some(protocol);
        let kept = self
            .allowances
            .remember_protocol(&self.digest, protocol.name());
        if let Err(error) = kept.await {
            tracing::warn!(server = &*self.name, %error, "protocol of a server not remembered");
        }
    }
}
